"""Compound functions that are careful at the edges."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand, special
from tests.conformance.samples import also, binary, swapped, unary, with_number


def share():
    for dtype in FLOATS:
        for eps in ([], [0.1], [1e-3]):
            # Not near 0.5, where eager's rounding of each step of narrow floats shows.
            yield S(rand(9, dtype=dtype, low=0.0, high=0.3), *eps)
    yield S(torch.tensor([0.0, 1.0, -0.5, 1.5, float("nan"), 0.5]))
    yield S(torch.tensor([0.0, 1.0, -0.5, 1.5, float("nan"), 0.5]), 0.1)
    yield S(rand(4, dtype=torch.int64))
    yield S(rand(0))


def share_gradient():
    for sample in share():
        x, *eps = sample.args
        if x.is_floating_point():
            yield S(rand(*x.shape, dtype=x.dtype), x, *eps)


def some_float(base):
    """Without pairs of integers, for which eager torch has no kernel."""
    return lambda: (sample for sample in base() if any(a.is_floating_point() for a in sample.args))


positive = with_number(numbers=(0.0, 2.0, 0.7), dtypes=(*FLOATS, torch.int64))
FLOATING = binary(dtypes=FLOATS)

CASES = [
    case("aten.atan2.default", binary()),
    case("aten.hypot.default", also(some_float(binary(dtypes=FLOATS, edge=False)), lambda: [S(special(), special().flip(0)), S(special(), special().roll(2))])),
    case("aten.logaddexp.default", some_float(FLOATING)),
    case("aten.logaddexp2.default", some_float(FLOATING)),
    case("aten.xlogy.Tensor", binary()),
    case("aten.xlogy.Scalar_Self", swapped(positive)),
    case("aten.xlogy.Scalar_Other", positive),
    case("aten.special_xlog1py.default", binary()),
    case("aten.special_entr.default", unary()),
    case("aten.logit.default", share),
    case("aten.logit_backward.default", share_gradient),
    case("aten.sinc.default", also(unary(), lambda: [S(torch.tensor([0.0, -0.0, 1e-20, 1.0, 0.5]))])),
]
