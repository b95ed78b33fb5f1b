"""Blocks of an image as channels, columns or groups, and back."""

import torch

from tests.conformance.harness import S, case, rand


def shuffle():
    yield S(rand(2, 8, 3, 4), 2)
    yield S(rand(9, 2, 2, dtype=torch.int64), 3)
    yield S(rand(2, 0, 8, 3, 4), 2)


def unshuffle():
    yield S(rand(2, 3, 4, 6), 2)
    yield S(rand(1, 3, 6, dtype=torch.bool), 3)


def channels():
    yield S(rand(2, 6, 3, 4), 3)
    yield S(rand(2, 4, 5), 2)


def im2col():
    yield S(rand(2, 3, 6, 7), [2, 3], [1, 1], [0, 0], [1, 1])
    yield S(rand(2, 3, 6, 7, dtype=torch.bfloat16), [3, 2], [2, 1], [1, 2], [2, 3])
    yield S(rand(3, 6, 7), [2, 2], [1, 1], [0, 0], [2, 2])


def col2im():
    yield S(rand(2, 18, 25), [6, 7], [2, 3], [1, 1], [0, 0], [1, 1])
    yield S(rand(2, 18, 8), [6, 7], [3, 2], [2, 1], [1, 2], [2, 3])
    yield S(rand(12, 9), [6, 7], [2, 2], [1, 1], [0, 0], [2, 2])


CASES = [
    case("aten.pixel_shuffle.default", shuffle),
    case("aten.pixel_unshuffle.default", unshuffle),
    case("aten.channel_shuffle.default", channels),
    case("aten.im2col.default", im2col),
    case("aten.col2im.default", col2im),
]
