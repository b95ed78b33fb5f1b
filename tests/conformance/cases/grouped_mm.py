"""Grouped matrix products."""

import torch
import transformers.integrations.moe  # noqa: F401  registers the ops

from tests.conformance.harness import S, case, rand


def ends(*values, dtype=torch.int32):
    return torch.tensor(values, dtype=dtype)


def inputs():
    yield rand(10, 4), rand(3, 4, 5), ends(4, 6, 10)
    yield rand(10, 4), rand(3, 4, 5), ends(4, 4, 7, dtype=torch.int64)
    yield rand(10, 4), rand(3, 4, 5), ends(0, 0, 0)
    yield rand(10, 4), rand(1, 4, 5), ends(10)
    yield rand(2, 4), rand(9, 4, 5), ends(0, 0, 1, 1, 1, 2, 2, 2, 2)
    yield rand(100, 4), rand(2, 4, 5), ends(97, 100)
    yield rand(600, 4), rand(3, 4, 5), ends(3, 301, 600)
    yield rand(0, 4), rand(3, 4, 5), ends(0, 0, 0)
    yield rand(10, 4, dtype=torch.bfloat16), rand(3, 4, 5, dtype=torch.bfloat16), ends(4, 6, 10)
    # The rows and matrices of other groups must not leak.
    poisoned = rand(10, 4)
    poisoned[4:6] = float("nan")
    yield poisoned, rand(3, 4, 5), ends(4, 6, 10)
    weight = rand(3, 4, 5)
    weight[1] = float("inf")
    yield rand(10, 4), weight, ends(4, 6, 10)


def forward():
    for sample in inputs():
        yield S(*sample)


def backward():
    for x, weight, offs in inputs():
        yield S(x, weight, offs, rand(x.size(0), weight.size(2), dtype=x.dtype))


def grouped_mm():
    for dtype in (torch.float32, torch.bfloat16):
        yield S(rand(16, 8, dtype=dtype), rand(3, 8, 16, dtype=dtype), ends(4, 4, 16))
        yield S(rand(3, 16, 8, dtype=dtype), rand(8, 24, dtype=dtype), ends(8, 8, 24))
        yield S(rand(16, 24, dtype=dtype), rand(24, 8, dtype=dtype), ends(8, 8, 24))
        yield S(rand(3, 16, 8, dtype=dtype), rand(3, 8, 24, dtype=dtype))


CASES = [
    case("aten._grouped_mm.default", grouped_mm),
    case("transformers.grouped_mm_fallback.default", forward),
    case("transformers.grouped_mm_fallback_backward.default", backward),
]
