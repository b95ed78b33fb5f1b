"""Values of images at the positions of a grid."""

import itertools

import torch

from tests.conformance.harness import S, case, rand


def forward():
    for mode, padding, align in itertools.product(range(3), range(3), (False, True)):
        yield S(rand(2, 3, 4, 5), rand(2, 3, 6, 2, low=-2.5, high=2.5), mode, padding, align)
    yield S(rand(2, 3, 4, 5, dtype=torch.float64), rand(2, 3, 6, 2, dtype=torch.float64), 0, 0, False)
    yield S(rand(1, 1, 1, 1), rand(1, 2, 2, 2), 0, 2, True)
    yield S(rand(1, 2, 3, 3), torch.tensor([[[[float("nan"), 0.0], [-1.0, 1.0]]]]), 0, 1, True)


def backward():
    cubic = [(2, 0, False), (2, 1, True), (2, 2, False)]
    for mode, padding, align in [*itertools.product(range(2), range(3), (False, True)), *cubic]:
        grid = rand(2, 3, 6, 2, low=-2.5, high=2.5)
        yield S(rand(2, 3, 3, 6), rand(2, 3, 4, 5), grid, mode, padding, align, [True, True])
    yield S(rand(2, 3, 3, 6), rand(2, 3, 4, 5), rand(2, 3, 6, 2), 0, 0, False, [False, True])


def volumes():
    for mode, padding, align in itertools.product(range(2), range(3), (False, True)):
        yield S(rand(2, 2, 3, 4, 5), rand(2, 2, 3, 2, 3, low=-2.5, high=2.5), mode, padding, align)
    yield S(rand(1, 1, 2, 2, 3, dtype=torch.float64), rand(1, 2, 2, 2, 3, dtype=torch.float64), 0, 0, True)


def volumes_backward():
    for mode, padding, align in itertools.product(range(2), range(3), (False, True)):
        grid = rand(2, 2, 3, 2, 3, low=-2.5, high=2.5)
        yield S(rand(2, 2, 2, 3, 2), rand(2, 2, 3, 4, 5), grid, mode, padding, align, [True, True])
    yield S(rand(2, 2, 2, 3, 2), rand(2, 2, 3, 4, 5), rand(2, 2, 3, 2, 3), 0, 0, False, [False, True])


# Positions are computed in another order: a last bit of a position times the slope of the image.
CASES = [
    case("aten.grid_sampler_2d.default", forward, rtol=1e-4, atol=1e-5),
    case("aten.grid_sampler_2d_backward.default", backward, rtol=1e-4, atol=1e-4),
    case("aten.grid_sampler_3d.default", volumes, rtol=1e-4, atol=1e-5),
    case("aten.grid_sampler_3d_backward.default", volumes_backward, rtol=1e-4, atol=1e-4),
]
