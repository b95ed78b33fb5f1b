"""Advanced indexing."""

import torch

from tests.conformance.harness import S, case, rand


def ids(*values, dtype=torch.int64):
    return torch.tensor(values, dtype=dtype)


def index():
    yield S(rand(5, 4), [ids(0, 4, -1, 2)])
    yield S(rand(5, 4), [None, ids(3, -4)])
    yield S(rand(5, 4), [ids(0, 4, -5), ids(1, 3, -1)])
    yield S(rand(5, 4), [torch.tensor([[0], [2]]), ids(1, 3, 0)])
    yield S(rand(2, 5, 4), [None, torch.tensor([[0, 1], [2, -1]])])
    yield S(rand(2, 3, 4), [ids(0, 1), None, ids(2, 3)])
    yield S(rand(2, 3, 4, 2), [None, ids(0, 1), ids(2, 3), None])
    yield S(rand(2, 3, 4, 2), [None, ids(0, 1), None, ids(1, 0)])
    yield S(rand(5), [torch.tensor(3)])
    yield S(rand(5, 2), [torch.tensor(-3)])
    yield S(rand(5, 4), [ids(1, 3, dtype=torch.int32)])
    yield S(rand(5, 4), [ids(1, 3, dtype=torch.int32), ids(1, -3)])
    yield S(rand(5, 0), [ids(1, 2)])
    yield S(rand(5, 4), [ids()])
    for dtype in (torch.bool, torch.int64, torch.bfloat16, torch.complex64):
        yield S(rand(5, 4, dtype=dtype), [ids(1, 0), ids(0, 3)])


def index_put():
    yield S(rand(5, 4), [ids(0, -1)], rand(2, 4))
    yield S(rand(5, 4), [ids(0, 2)], rand())
    yield S(rand(5, 4), [None, ids(0, -2)], rand(5, 1))
    yield S(rand(5, 4), [ids(0, 2, -1), ids(1, 1, 3)], rand(3))
    yield S(rand(5, 4), [torch.tensor([[0], [2]]), ids(1, 3)], rand(2, 2))
    yield S(rand(2, 3, 4), [ids(0, 1), None, ids(2, 3)], rand(2, 3))
    yield S(rand(2, 3, 4), [None, None, ids(2)], rand(2, 3, 1))
    yield S(rand(5), [torch.tensor(3)], rand())
    yield S(rand(5, 4), [ids()], rand(0, 4))
    yield S(rand(0, 4), [ids()], rand(0, 4))
    for dtype in (torch.float32, torch.float64, torch.int64, torch.complex64):
        yield S(rand(3, 4, dtype=dtype), [ids(0, 2, 0, 0)], rand(4, 4, dtype=dtype), True)
    # Eager rounds after every sum, tpud once: no position twice.
    for dtype in (torch.float16, torch.bfloat16):
        yield S(rand(3, 4, dtype=dtype), [ids(0, 2)], rand(2, 4, dtype=dtype), True)
    yield S(rand(5, 4), [ids(1, 1, -1), ids(1, 1, 2)], rand(), True)
    yield S(rand(5, dtype=torch.bool), [ids(1, 2)], torch.tensor(True))
    mask = torch.tensor([True, False, True, True, False])
    yield S(rand(5, 4), [mask], rand())
    yield S(rand(5, 4), [mask], rand(4))
    yield S(rand(5, 4), [mask], rand(3, 4))
    yield S(rand(2, 5, 3), [None, mask], rand(2, 3, 1))
    yield S(rand(5, 4), [rand(5, 4, dtype=torch.bool)], rand(), True)
    yield S(rand(5, 4), [torch.zeros(5, dtype=torch.bool)], rand(0, 4))
    yield S(rand(2, 2, 3), [torch.tensor([[True, False], [True, True]])], rand(3, 3))


CASES = [
    case("aten.index.Tensor", index),
    case("aten._unsafe_index.Tensor", index),
    case("aten.index_put.default", index_put),
    case("aten._unsafe_index_put.default", index_put),
]
