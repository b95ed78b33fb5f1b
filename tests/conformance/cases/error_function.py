"""The error function and its relatives."""

import torch

from tests.conformance.harness import S, case, rand, special
from tests.conformance.samples import also, unary

WIDE = (torch.float32, torch.float64)


def saturated():
    """Far out, where eager gives exactly -1 and 1."""
    yield S(torch.tensor([-30.0, -9.0, -5.0, -4.0, -3.95, 3.95, 4.0, 6.0, 100.0]))


def scaled():
    for dtype in WIDE:
        yield S(rand(40, dtype=dtype, low=-5.0, high=5.0))
        yield S(torch.logspace(-20, 20, 21, dtype=dtype))
        yield S(-torch.logspace(-20, 20, 21, dtype=dtype))
        yield S(special(dtype))
    yield S(rand(6, dtype=torch.int64))
    yield S(torch.tensor([True, False]))
    yield S(rand(0, 3))


def probabilities():
    for dtype in WIDE:
        yield S(rand(40, dtype=dtype, low=0.0, high=1.0))
        yield S(torch.logspace(-35, -1, 21, dtype=dtype))
        yield S(torch.tensor([0.0, 1.0, -0.1, 1.1, 0.5, 0.1353, 0.8647, float("nan"), float("inf")], dtype=dtype))
    yield S(rand(6, dtype=torch.int64))
    yield S(torch.tensor([True, False]))
    yield S(rand(0, 3))


CASES = [
    case("aten.erf.default", also(unary(), saturated)),
    case("aten.erfc.default", unary()),
    case("aten.erfinv.default", unary(low=-1.0, high=1.0)),
    case("aten.special_erfcx.default", scaled),
    case("aten.special_ndtri.default", probabilities, rtol=1e-5, atol=1e-6),
]
