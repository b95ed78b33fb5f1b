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


def backward(op):
    def samples():
        for dtype in FLOATS:
            yield S(rand(3, 5, dtype=dtype), op(rand(3, 5, dtype=dtype), 1), 1, dtype)
        yield S(rand(2, 3, 4), op(rand(2, 3, 4), -2), -2, torch.float32)
        yield S(rand(), op(rand(), 0), 0, torch.float32)
        yield S(rand(0, 4), op(rand(0, 4), 1), 1, torch.float32)

    return samples


CASES = [
    case("aten._softmax_backward_data.default", backward(torch.softmax)),
    case("aten._log_softmax_backward_data.default", backward(torch.log_softmax)),
    case("aten._softmax.default", softmax),
    case("aten._log_softmax.default", softmax),
]
