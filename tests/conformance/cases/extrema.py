"""The greater or smaller of two, and limits."""

import torch

from tests.conformance.harness import FLOATS, INTS, S, case, rand, special
from tests.conformance.samples import binary, with_number


def clamp():
    for dtype in (*FLOATS, *INTS):
        yield S(rand(9, dtype=dtype), 0, 2)
    yield S(rand(9), -0.3, None)
    yield S(rand(9), None, 0.3)
    yield S(rand(9), 1.0, -1.0)
    yield S(rand(9, dtype=torch.bfloat16), -1.1, 1.1)
    yield S(rand(9, dtype=torch.int64), -0.5, 1.5)
    yield S(special(), -2.0, 2.0)
    yield S(special(), float("-inf"), float("inf"))
    yield S(special(), None, float("nan"))
    yield S(special(), float("nan"), None)
    yield S(rand(), 0.5, 0.6)
    yield S(rand(0), 0, 1)


def clamp_tensor():
    for dtype in (*FLOATS, torch.int64):
        yield S(rand(3, 4, dtype=dtype), rand(4, dtype=dtype, high=0), rand(3, 1, dtype=dtype, low=0))
    yield S(rand(3, 4), rand(4), None)
    yield S(rand(3, 4), None, rand(3, 1))
    yield S(rand(3, 4), rand(4), rand(4))
    yield S(special(), special().flip(0), special().roll(4))
    yield S(rand(4, dtype=torch.int32), rand(4), None)


def hardtanh():
    for dtype in FLOATS:
        yield S(rand(9, dtype=dtype))
        yield S(special(dtype), -1.5, 0.5)
    yield S(rand(9), 0.0, 6.0)
    yield S(rand(0))


CASES = [
    *(case(f"aten.{op}.default", binary()) for op in ("maximum", "minimum", "fmax", "fmin")),
    case("aten.clamp.default", clamp),
    case("aten.clamp.Tensor", clamp_tensor),
    case("aten.clamp_min.default", with_number(numbers=(1, 0.5))),
    case("aten.clamp_min.Tensor", binary()),
    case("aten.clamp_max.default", with_number(numbers=(1, 0.5))),
    case("aten.clamp_max.Tensor", binary()),
    case("aten.hardtanh.default", hardtanh),
]
