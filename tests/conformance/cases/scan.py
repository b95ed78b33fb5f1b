"""Running results along a dimension."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand, special


def sums():
    yield S(rand(3, 4), 0)
    yield S(rand(3, 4), -1)
    yield S(rand(2, 40, 3), 1)
    yield S(rand(), 0)
    yield S(rand(0, 3), 0)
    yield S(rand(3, 0), 0)
    yield S(rand(5, dtype=torch.bool), 0)
    yield S(rand(5, dtype=torch.int32), 0)
    yield S(rand(5, dtype=torch.int64), 0, dtype=torch.float32)
    yield S(rand(5), 0, dtype=torch.int32)
    yield S(rand(5), 0, dtype=torch.bfloat16)
    for dtype in (*FLOATS[1:], torch.complex64):
        yield S(rand(30, dtype=dtype, low=-1, high=1), 0)
    yield S(special().flip(0), 0)
    yield S(torch.tensor([2**62, 2**62, 2**62]), 0)


def extremes():
    yield S(rand(3, 4), 0)
    yield S(rand(3, 40), -1)
    yield S(rand(), 0)
    yield S(rand(0, 3), 0)
    yield S(rand(3, 0), 0)
    yield S(rand(20, dtype=torch.int64), 0)
    yield S(rand(9, dtype=torch.bool), 0)
    yield S(special(), 0)
    yield S(special(torch.int64), 0)
    yield S(torch.tensor([1.0, 1.0, float("nan"), 3.0, float("nan"), 2.0]), 0)
    yield S(rand(9, dtype=torch.bfloat16), 0)


def logcumsumexp():
    yield S(rand(3, 4), 0)
    yield S(rand(3, 40, low=-90, high=90), -1)
    yield S(rand(), 0)
    yield S(rand(0, 3), 0)
    yield S(torch.tensor([float("-inf"), float("-inf"), 1.0, 2.0]), 0)
    yield S(torch.tensor([1.0, float("inf"), 1.0, float("inf")]), 0)
    yield S(torch.tensor([1.0, float("nan"), 1.0]), 0)
    yield S(rand(20, dtype=torch.bfloat16), 0)
    yield S(rand(20, dtype=torch.float64), 0)


CASES = [
    case("aten.cumsum.default", sums),
    case("aten.cumprod.default", sums),
    case("aten.cummax.default", extremes),
    case("aten.cummin.default", extremes),
    case("aten.logcumsumexp.default", logcumsumexp),
]
