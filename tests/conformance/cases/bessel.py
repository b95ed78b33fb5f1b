"""Bessel functions of the first and second kind, Airy's function."""

import torch

from tests.conformance.harness import S, case, rand, special

WIDE = (torch.float32, torch.float64)


def places(low, high):
    """Both types, around each border of the approximations, integers, and edge values."""

    def samples():
        for dtype in WIDE:
            yield S(rand(40, dtype=dtype, low=low, high=high))
            yield S(special(dtype))
        yield S(torch.tensor([0.0, 1e-6, 1e-5, 2.09, -2.09, 5.0, 5.000001, 8.0, 8.32, 8.33, 103.8, 104.0], dtype=torch.float64))
        yield S(rand(6, dtype=torch.int64, low=-4, high=9))
        yield S(rand())
        yield S(rand(0, 3))

    return samples


def narrow(low, high):
    def samples():
        yield from places(low, high)()
        for dtype in (torch.bfloat16, torch.float16):
            yield S(rand(20, dtype=dtype, low=low, high=high))

    return samples


# f32 near a zero of the function, where the phase of the oscillation has lost its digits.
NEAR_ZEROS = {"rtol": 2e-5, "atol": 2e-6}

CASES = [
    case("aten.special_airy_ai.default", places(-10.0, 12.0), **NEAR_ZEROS),
    case("aten.special_bessel_j0.default", places(-20.0, 20.0), **NEAR_ZEROS),
    case("aten.special_bessel_j1.default", places(-20.0, 20.0), **NEAR_ZEROS),
    case("aten.special_bessel_y0.default", places(-1.0, 20.0), **NEAR_ZEROS),
    case("aten.special_bessel_y1.default", places(-1.0, 20.0), **NEAR_ZEROS),
    case("aten.special_spherical_bessel_j0.default", places(-20.0, 20.0), **NEAR_ZEROS),
]
