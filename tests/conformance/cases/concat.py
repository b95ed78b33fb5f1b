"""Tensors put together from whole tensors."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand


def cat():
    yield S([rand(2, 3), rand(4, 3)])
    yield S([rand(2, 3), rand(2, 1), rand(2, 2)], -1)
    yield S([rand(2, 3)])
    yield S([rand(0), rand(2, 3)], 1)
    yield S([rand(0, 3), rand(2, 3)])
    yield S([rand(0), rand(3), rand(0)])
    yield S([rand(0), rand(0)])
    yield S([rand(2, dtype=torch.int32), rand(2)])
    yield S([rand(2, dtype=torch.bool), rand(2, dtype=torch.int64)])
    yield S([rand(2, dtype=torch.bfloat16), rand(2, dtype=torch.float16)])
    yield S([rand(2, dtype=torch.complex64), rand(2)])


def stack():
    yield S([rand(2, 3), rand(2, 3)])
    yield S([rand(2, 3), rand(2, 3), rand(2, 3)], -1)
    yield S([rand(2, 3), rand(2, 3)], 1)
    yield S([rand(), rand()])
    yield S([rand(0, 2), rand(0, 2)])
    yield S([rand(2, dtype=torch.int32), rand(2)])


def repeat():
    yield S(rand(2, 3), [2, 2])
    yield S(rand(2, 3), [4, 1, 2])
    yield S(rand(2, 3), [1, 1])
    yield S(rand(3), [0])
    yield S(rand(), [3])
    yield S(rand(), [])
    yield S(rand(0, 2), [2, 2])
    yield S(rand(1, 3, dtype=torch.bool), [2, 1])


def flip():
    yield S(rand(2, 3, 4), [0])
    yield S(rand(2, 3, 4), [-1, 0])
    yield S(rand(2, 3), [])
    yield S(rand(), [])
    yield S(rand(0, 3), [0])
    for dtype in (*FLOATS, torch.int64, torch.bool):
        yield S(rand(5, dtype=dtype), [0])


def roll():
    yield S(rand(5), [2], [0])
    yield S(rand(3, 4), [1, -2], [0, 1])
    yield S(rand(3, 4), [5])
    yield S(rand(3, 4), [-13], [-1])
    yield S(rand(3, 4), [1, 1], [0, 0])
    yield S(rand(0, 4), [1], [0])
    yield S(rand(), [1])
    yield S(rand(4, dtype=torch.int64), [4], [0])


CASES = [
    case("aten.cat.default", cat),
    case("aten.stack.default", stack),
    case("aten.repeat.default", repeat),
    case("aten.flip.default", flip),
    case("aten.roll.default", roll),
]
