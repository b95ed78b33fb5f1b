"""Softmax and its logarithm."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand


def softmax():
    for dtype in FLOATS:
        yield S(rand(3, 5, dtype=dtype), -1, False)
    yield S(rand(3, 5), 0, False)
    yield S(rand(2, 3, 4) * 100, 1, False)
    yield S(rand(), 0, False)
    yield S(rand(0, 4), 1, False)
    yield S(rand(3, 0), 1, False)
    yield S(torch.tensor([[0.0, float("-inf")], [float("-inf")] * 2, [float("nan"), 1.0], [float("inf"), 1.0]]), 1, False)


CASES = [
    case("aten._softmax.default", softmax),
    case("aten._log_softmax.default", softmax),
]
