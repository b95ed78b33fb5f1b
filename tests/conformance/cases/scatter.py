"""One index per element."""

import torch

from tests.conformance.cases.index import ids
from tests.conformance.harness import FLOATS, S, case, rand, special


def gather():
    yield S(rand(3, 4), 1, torch.tensor([[0, 3], [1, 1], [2, 0]]))
    yield S(rand(3, 4), 0, torch.tensor([[2, 0], [1, 1]]))
    yield S(rand(3, 4), -1, torch.tensor([[1]]))
    yield S(rand(5), 0, ids(4, 4, 0, 1, 2, 3))
    yield S(rand(2, 3, 4), 1, torch.randint(0, 3, (2, 5, 3)))
    yield S(rand(), 0, torch.tensor(0))
    yield S(rand(), 0, ids(0))
    yield S(rand(5), 0, torch.tensor(1))
    yield S(rand(3, 4), 1, torch.zeros(3, 0, dtype=torch.int64))
    yield S(rand(0, 4), 1, torch.zeros(0, 2, dtype=torch.int64))
    for dtype in (torch.bool, torch.bfloat16, torch.int64, torch.complex64):
        yield S(rand(2, 4, dtype=dtype), 1, torch.tensor([[1, 0], [2, 3]]))


def scatter_src():
    yield S(rand(3, 4), 1, torch.tensor([[0, 3], [1, 2], [2, 0]]), rand(3, 2))
    yield S(rand(3, 4), 0, torch.tensor([[2, 0]]), rand(2, 4))
    yield S(rand(2, 3, 4), 2, torch.tensor([[[0, 2], [1, 3]]]), rand(2, 3, 4))
    yield S(rand(), 0, torch.tensor(0), rand())
    yield S(rand(5), 0, ids(4, 0), rand(3))
    yield S(rand(3, 4), 1, torch.zeros(3, 0, dtype=torch.int64), rand(3, 4))
    yield S(rand(0, 4), 1, torch.zeros(0, 2, dtype=torch.int64), rand(0, 2))
    for dtype in (torch.bool, torch.bfloat16, torch.int64):
        yield S(rand(2, 4, dtype=dtype), 1, torch.tensor([[1, 0], [2, 3]]), rand(2, 2, dtype=dtype))


def scatter_value():
    yield S(rand(3, 4), 1, torch.tensor([[0, 3], [1, 1], [2, 0]]), 1.0)
    yield S(rand(3, 4, dtype=torch.bool), -1, torch.tensor([[0, 3], [1, 1]]), 1)
    yield S(rand(3, 4, dtype=torch.int64), 0, torch.tensor([[0, 2]]), -7)
    yield S(rand(), 0, torch.tensor(0), 2.5)
    yield S(rand(3), 0, ids(), 2.5)
    yield S(rand(4), 0, ids(1), float("-inf"))


def scatter_reduce_old():
    for reduce in ("add", "multiply"):
        yield S(rand(3, 4), 1, torch.tensor([[0, 3], [1, 1], [2, 0]]), rand(3, 2), reduce=reduce)
        yield S(rand(3, dtype=torch.int64), 0, ids(1, 1), rand(2, dtype=torch.int64), reduce=reduce)


def scatter_value_reduce():
    for reduce in ("add", "multiply"):
        yield S(rand(3, 4), 1, torch.tensor([[0, 3], [1, 1], [2, 0]]), 1.5, reduce=reduce)
        yield S(rand(3, dtype=torch.int64), 0, ids(1, 1), 3, reduce=reduce)


def scatter_add():
    yield S(rand(3, 4), 1, torch.tensor([[0, 3], [1, 1], [2, 0]]), rand(3, 2))
    yield S(rand(3, 4), 0, torch.tensor([[2, 0], [2, 1]]), rand(2, 4))
    yield S(rand(), 0, torch.tensor(0), rand())
    yield S(rand(5), 0, ids(), rand(0))
    for dtype in (*FLOATS, torch.int64, torch.int8, torch.complex64):
        yield S(rand(3, dtype=dtype), 0, ids(1, 1, 2, 1), rand(4, dtype=dtype))
    yield S(rand(15), 0, torch.arange(15), special())
    yield S(rand(3, dtype=torch.bool), 0, ids(1, 1, 2), rand(3, dtype=torch.bool))


def scatter_reduce():
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        index = torch.tensor([[0, 3, 3], [1, 1, 1], [2, 0, 0]])
        yield S(rand(3, 4), 1, index, rand(3, 3), reduce)
        yield S(rand(3, 4), 1, index, rand(3, 3), reduce, include_self=False)
        nan = torch.tensor([1.0, float("nan"), float("-inf")])
        yield S(rand(4), 0, ids(1, 1, 2), nan, reduce, include_self=False)
    yield S(rand(3, dtype=torch.int64), 0, ids(1, 1, 2), ids(-4, -8, 5), "mean", include_self=False)
    yield S(rand(3, dtype=torch.int64), 0, ids(1, 1, 2), ids(-4, -8, 5), "amax", include_self=False)
    yield S(rand(3, dtype=torch.bfloat16), 0, ids(1, 1, 2), rand(3, dtype=torch.bfloat16), "mean")
    yield S(rand(3), 0, ids(), rand(0), "sum", include_self=False)
    yield S(rand(), 0, ids(0), rand(1), "prod")


CASES = [
    case("aten.gather.default", gather),
    case("aten.scatter.src", scatter_src),
    case("aten.scatter.value", scatter_value),
    case("aten.scatter.reduce", scatter_reduce_old),
    case("aten.scatter.value_reduce", scatter_value_reduce),
    case("aten.scatter_add.default", scatter_add),
    case("aten.scatter_reduce.two", scatter_reduce),
]
