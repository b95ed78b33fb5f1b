"""Parts of a tensor, and tensors with a part replaced."""

import torch

from tests.conformance.harness import S, case, rand

HUGE = 9223372036854775807


def slice_():
    yield S(rand(5, 4))
    yield S(rand(5, 4), 0, 1, 3)
    yield S(rand(5, 4), 1, 0, HUGE, 2)
    yield S(rand(5, 4), -1, -3, -1)
    yield S(rand(5, 4), 0, 3, 1)
    yield S(rand(5, 4), 0, -9, 9)
    yield S(rand(5, 4), 0, 7, HUGE)
    yield S(rand(7), 0, 1, 7, 3)
    yield S(rand(0, 4), 0, 0, 2)
    yield S(rand(5, dtype=torch.bool), 0, 1, 4)
    yield S(rand(5, dtype=torch.complex64), 0, 1, 4)


def select():
    yield S(rand(5, 4), 0, 2)
    yield S(rand(5, 4), -1, -1)
    yield S(rand(5), 0, 4)
    yield S(rand(5, 0), 0, 1)
    yield S(rand(2, 3, 4, dtype=torch.int64), 1, 1)


def split_with_sizes():
    yield S(rand(6, 4), [1, 2, 3])
    yield S(rand(2, 6), [2, 0, 4], -1)
    yield S(rand(3), [3])
    yield S(rand(0, 2), [0, 0])


def split():
    yield S(rand(6, 4), 2)
    yield S(rand(7, 4), 3)
    yield S(rand(2, 5), 4, -1)
    yield S(rand(2), 5)


def unbind():
    yield S(rand(3, 4))
    yield S(rand(3, 4), -1)
    yield S(rand(2))
    yield S(rand(2, 0, dtype=torch.int64))


def slice_scatter():
    yield S(rand(5, 4), rand(2, 4), 0, 1, 3)
    yield S(rand(5, 4), rand(5, 2), 1, 0, HUGE, 2)
    yield S(rand(5, 4), rand(5, 2), -1, -3, -1)
    yield S(rand(5, 4), rand(5, 4))
    yield S(rand(5, 4), rand(0, 4), 0, 3, 1)
    yield S(rand(7), rand(2), 0, 1, 6, 3)
    yield S(rand(5, 4, dtype=torch.int64), rand(2, 4, dtype=torch.int64), 0, 3, 99)
    yield S(rand(3, 4, dtype=torch.bool), rand(3, 2, dtype=torch.bool), 1, 1, 4, 2)
    yield S(rand(0, 4), rand(0, 2), 1, 0, 2)
    yield S(rand(4, 2, dtype=torch.bfloat16), rand(2, 2, dtype=torch.bfloat16), 0, -2)


def select_scatter():
    yield S(rand(5, 4), rand(4), 0, 2)
    yield S(rand(5, 4), rand(5), -1, -1)
    yield S(rand(5), rand(), 0, 3)
    yield S(rand(2, 3, 4, dtype=torch.int64), rand(2, 4, dtype=torch.int64), 1, 1)


CASES = [
    case("aten.slice.Tensor", slice_),
    case("aten.select.int", select),
    case("aten.split_with_sizes.default", split_with_sizes),
    case("aten.split.Tensor", split),
    case("aten.unbind.int", unbind),
    case("aten.slice_scatter.default", slice_scatter),
    case("aten.select_scatter.default", select_scatter),
]
