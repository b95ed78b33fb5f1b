"""Windows over memory."""

import torch

from tests.conformance.harness import S, case, rand


def unfold():
    yield S(rand(9), 0, 3, 1)
    yield S(rand(9), 0, 3, 3)
    yield S(rand(9), 0, 2, 5)
    yield S(rand(9), 0, 4, 3)
    yield S(rand(9), 0, 9, 1)
    yield S(rand(9), 0, 1, 2)
    yield S(rand(2, 9, 3), 1, 4, 2)
    yield S(rand(2, 9, 3), -3, 1, 1)
    yield S(rand(2, 50), 1, 20, 1)
    yield S(rand(2, 50, dtype=torch.bool), 1, 40, 2)
    yield S(rand(), 0, 1, 1)
    yield S(rand(0, 4), 1, 2, 1)
    yield S(rand(4), 0, 0, 1)


def as_strided():
    yield S(rand(3, 4), [3, 4], [4, 1])
    yield S(rand(3, 4), [4, 3], [1, 4])
    yield S(rand(3, 4), [2, 2], [5, 2], 1)
    yield S(rand(12), [4, 3], [2, 1], 1)
    yield S(rand(12), [3, 2, 4], [2, 0, 1], 2)
    yield S(rand(12), [3, 4], [1, 2])
    yield S(rand(60), [2, 40], [1, 1], 3)
    yield S(rand(60), [3, 20, 2], [1, 2, 1], 3)
    yield S(rand(12), [1, 2, 1], [7, 3, 0])
    yield S(rand(12), [], [], 5)
    yield S(rand(12), [0, 2], [1, 1])
    yield S(rand(2, 3, 4, dtype=torch.int64), [3], [4], 2)


CASES = [
    case("aten.unfold.default", unfold),
    case("aten.as_strided.default", as_strided),
]
