"""Shapes of the same elements."""

import torch

from tests.conformance.harness import FLOATS, INTS, S, case, rand, special


def view():
    yield S(rand(3, 4), [2, 6])
    yield S(rand(3, 4), [-1])
    yield S(rand(3, 4), [2, -1, 3])
    yield S(rand(), [1, 1])
    yield S(rand(1), [])
    yield S(rand(0, 4), [4, 0, 2])
    yield S(rand(0, 4), [-1, 4])
    yield S(special(torch.bfloat16), [3, 5])
    yield S(rand(6, dtype=torch.bool), [2, 3])
    yield S(rand(6, dtype=torch.complex64), [2, 3])


def reshape_alias():
    yield S(rand(3, 4), [2, 6], [6, 1])
    yield S(rand(0, 4), [4, 0], [1, 1])


def expand():
    yield S(rand(3, 1), [3, 4])
    yield S(rand(3, 1), [2, -1, 4])
    yield S(rand(), [2, 3])
    yield S(rand(4), [2, 3, 4])
    yield S(rand(1, 4), [0, 4])
    yield S(rand(1), [-1])
    yield S(rand(1, 3, dtype=torch.bool), [2, 3])
    yield S(rand(1, 3, dtype=torch.complex64), [2, 3])


def permute():
    yield S(rand(2, 3, 4), [2, 0, 1])
    yield S(rand(2, 3, 4), [0, -1, 1])
    yield S(rand(), [])
    yield S(rand(0, 3), [1, 0])
    for dtype in (*FLOATS, *INTS, torch.bool, torch.complex64):
        yield S(rand(2, 3, dtype=dtype), [1, 0])


def transpose():
    yield S(rand(2, 3, 4), 0, 2)
    yield S(rand(2, 3, 4), -1, 1)
    yield S(rand(2, 3, 4), 1, 1)
    yield S(rand(), 0, -1)
    yield S(rand(0, 3), 0, 1)


def t():
    yield S(rand(2, 3))
    yield S(rand(3))
    yield S(rand())
    yield S(rand(0, 3))


def unsqueeze():
    yield S(rand(2, 3), 0)
    yield S(rand(2, 3), 2)
    yield S(rand(2, 3), -1)
    yield S(rand(2, 3), -3)
    yield S(rand(), 0)
    yield S(rand(0, dtype=torch.int64), 1)


def squeeze():
    yield S(rand(1, 3, 1))
    yield S(rand(2, 3))
    yield S(rand(1, 1))
    yield S(rand())
    yield S(rand(1, 0))


def squeeze_dim():
    yield S(rand(1, 3, 1), 0)
    yield S(rand(1, 3, 1), -1)
    yield S(rand(1, 3, 1), 1)
    yield S(rand(), 0)


def squeeze_dims():
    yield S(rand(1, 3, 1), [0, 2])
    yield S(rand(1, 3, 1), [0, 1])
    yield S(rand(1, 3, 1), [-1])
    yield S(rand(1, 3, 1), [])
    yield S(rand(), [0])


CASES = [
    case("aten.view.default", view),
    case("aten.reshape.default", view),
    case("aten._unsafe_view.default", view),
    case("aten._reshape_alias.default", reshape_alias),
    case("aten.expand.default", expand),
    case("aten.permute.default", permute),
    case("aten.transpose.int", transpose),
    case("aten.t.default", t),
    case("aten.unsqueeze.default", unsqueeze),
    case("aten.squeeze.default", squeeze),
    case("aten.squeeze.dim", squeeze_dim),
    case("aten.squeeze.dims", squeeze_dims),
]
