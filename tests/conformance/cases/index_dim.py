"""Indexing of one dimension or of the flat tensor."""

import torch

from tests.conformance.cases.index import ids
from tests.conformance.harness import FLOATS, S, case, rand


def index_select():
    yield S(rand(5, 4), 0, ids(4, 0, 0))
    yield S(rand(5, 4), -1, ids(3, dtype=torch.int32))
    yield S(rand(5, 4), 1, torch.tensor(2))
    yield S(rand(), 0, ids(0))
    yield S(rand(), -1, torch.tensor(0))
    yield S(rand(5, 4), 0, ids())
    yield S(rand(5, 0), 0, ids(1, 2))
    yield S(rand(2, 3, 4, dtype=torch.int64), 1, ids(2, 1))
    yield S(rand(4, dtype=torch.bool), 0, ids(2, 1))


def index_add():
    yield S(rand(5, 4), 0, ids(4, 0, 0), rand(3, 4))
    yield S(rand(5, 4), -1, ids(3, 3, dtype=torch.int32), rand(5, 2))
    yield S(rand(5), 0, ids(1, 1), rand(2), alpha=-2)
    yield S(rand(), 0, ids(0), rand())
    yield S(rand(5), 0, torch.tensor(2), rand(1))
    yield S(rand(5, 4), 0, ids(), rand(0, 4))
    for dtype in (*FLOATS, torch.int64, torch.int8, torch.complex64):
        yield S(rand(3, 2, dtype=dtype), 0, ids(0, 2, 2, 2), rand(4, 2, dtype=dtype))
    yield S(rand(3, dtype=torch.bool), 0, ids(0, 2, 2), rand(3, dtype=torch.bool))


def index_copy():
    yield S(rand(5, 4), 0, ids(4, 0), rand(2, 4))
    yield S(rand(2, 3, 6, 4), 2, ids(5), rand(2, 3, 1, 4))
    yield S(rand(2, 6, 4), -2, ids(0, 2, 4), rand(2, 3, 4))
    yield S(rand(5, 4), 0, ids(), rand(0, 4))
    yield S(rand(), 0, ids(0), rand())
    yield S(rand(5), 0, torch.tensor(1), rand(1))
    yield S(rand(5, 2, dtype=torch.bool), 0, ids(4, 0), rand(2, 2, dtype=torch.bool))
    yield S(rand(5, 2, dtype=torch.bfloat16), 1, ids(1), rand(5, 1, dtype=torch.bfloat16))


def index_fill():
    yield S(rand(5, 4), 0, ids(4, 0, -2), 1.5)
    yield S(rand(5, 4), -1, ids(-1), 7)
    yield S(rand(5, 4), 0, ids(), 1)
    yield S(rand(), 0, ids(0), 2.0)
    yield S(rand(5, dtype=torch.int64), 0, torch.tensor(3), 9)
    yield S(rand(5, dtype=torch.bool), 0, ids(3, 1), True)


def index_fill_tensor():
    yield S(rand(5, 4), 0, ids(4, 0, -2), rand())
    yield S(rand(5, 4, dtype=torch.int64), 1, ids(2), torch.tensor(5))


def index_reduce():
    for reduce in ("prod", "mean", "amax", "amin"):
        yield S(rand(5, 2), 0, ids(4, 0, 0), rand(3, 2), reduce)
        yield S(rand(2, 5), 1, ids(4, 0, 0), rand(2, 3), reduce, include_self=False)
    yield S(rand(5, dtype=torch.int64, low=-90, high=90), 0, ids(1, 1, 2), rand(3, dtype=torch.int64), "mean")
    yield S(rand(5), 0, ids(), rand(0), "amax")


def embedding():
    yield S(rand(7, 4), torch.tensor([[0, 6], [3, 3]]))
    yield S(rand(7, 4), ids(0, 6, dtype=torch.int32), 6)
    yield S(rand(7, 4), torch.tensor(5))
    yield S(rand(7, 4), torch.zeros(2, 0, dtype=torch.int64))
    for dtype in FLOATS[1:]:
        yield S(rand(7, 4, dtype=dtype), ids(2, 1))


def embedding_dense_backward():
    yield S(rand(2, 3, 4), torch.tensor([[0, 6, 1], [3, 3, 1]]), 7, -1, False)
    yield S(rand(4, 2), ids(0, 2, 2, 1), 3, 2, False)
    yield S(rand(4, 2), ids(0, 2, 2, 1), 3, -1, True)
    yield S(rand(4, 2), ids(0, 2, 2, 1, dtype=torch.int32), 3, 0, True)
    yield S(rand(0, 2), ids(), 3, -1, False)
    yield S(rand(4, 2, dtype=torch.bfloat16), ids(0, 2, 2, 1), 3, -1, False)


def take():
    yield S(rand(3, 4), ids(0, 11, -1))
    yield S(rand(3, 4), torch.tensor([[5, -12]]))
    yield S(rand(3, 4), torch.tensor(5))
    yield S(rand(), ids(0, -1))
    yield S(rand(3, dtype=torch.int64), ids())


def put():
    yield S(rand(3, 4), ids(0, 11, -2), rand(3))
    yield S(rand(3, 4), torch.tensor([[0, 1], [1, -12]]), rand(2, 2), True)
    yield S(rand(), ids(0), rand(1))
    yield S(rand(3, dtype=torch.int64), ids(), rand(0, dtype=torch.int64))


def masked_scatter():
    yield S(rand(3, 4), rand(3, 4, dtype=torch.bool), rand(12))
    yield S(rand(3, 4), rand(3, 1, dtype=torch.bool), rand(4, 4))
    yield S(rand(4), rand(3, 4, dtype=torch.bool), rand(3, 4))
    yield S(rand(3, 4), torch.zeros(3, 4, dtype=torch.bool), rand(0))
    yield S(rand(), torch.tensor(True), rand(2))
    yield S(rand(0, 4), rand(0, 4, dtype=torch.bool), rand(2))
    yield S(rand(2, 9, dtype=torch.int64), rand(2, 9, dtype=torch.bool), rand(20, dtype=torch.int64))


def masked_scatter_backward():
    mask = torch.tensor([[True, False, True], [False, True, False]])
    yield S(rand(2, 3), mask, [5])
    yield S(rand(2, 3), mask, [3, 1])
    yield S(rand(2, 3), mask[:, :1], [2, 2])
    yield S(rand(2, 3, dtype=torch.bfloat16), torch.zeros(2, 3, dtype=torch.bool), [3])
    yield S(rand(0, 3), rand(0, 3, dtype=torch.bool), [2])
    yield S(rand(2, 3), mask & False, [0])


CASES = [
    case("aten.index_select.default", index_select),
    case("aten.index_add.default", index_add),
    case("aten.index_copy.default", index_copy),
    case("aten.index_fill.int_Scalar", index_fill),
    case("aten.index_fill.int_Tensor", index_fill_tensor),
    case("aten.index_reduce.default", index_reduce),
    case("aten.embedding.default", embedding),
    case("aten.embedding_dense_backward.default", embedding_dense_backward),
    case("aten.take.default", take),
    case("aten.put.default", put),
    case("aten.masked_scatter.default", masked_scatter),
    case("aten.masked_scatter_backward.default", masked_scatter_backward),
]
