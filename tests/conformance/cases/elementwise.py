"""Arithmetic of one result per element."""

import torch

from tests.conformance.harness import FLOATS, INTS, S, case, rand, special


def binary():
    for dtype in (*FLOATS, *INTS, torch.bool, torch.complex64):
        yield S(rand(3, 4, dtype=dtype), rand(3, 4, dtype=dtype))
    yield S(rand(3, 1, 4), rand(5, 1))
    yield S(rand(0, 4), rand(4))
    yield S(rand(), rand(2, dtype=torch.bfloat16))
    yield S(rand(4, dtype=torch.int32), rand(dtype=torch.int64))
    yield S(rand(4, dtype=torch.int64), rand(4))
    yield S(special(), special().flip(0))
    yield S(special(torch.int32), special(torch.int32).flip(0))
    yield S(rand(4, 3).t(), rand(3, 4))


def binary_number():
    yield S(rand(3), 2)
    yield S(rand(3, dtype=torch.bfloat16), 1.1)
    yield S(rand(3, dtype=torch.int64), 3)
    yield S(rand(3, dtype=torch.int64), 1.5)


def alpha(base):
    def samples():
        yield from (sample for sample in base() if not any(isinstance(a, torch.Tensor) and a.dtype == torch.bool for a in sample.args))
        yield S(rand(3), rand(3), alpha=2)
        yield S(rand(3, dtype=torch.int64), rand(3, dtype=torch.int64), alpha=-3)

    return samples


CASES = [
    case("aten.add.Tensor", alpha(binary)),
    case("aten.add.Scalar", binary_number),
    case("aten.sub.Tensor", alpha(binary)),
    case("aten.sub.Scalar", binary_number),
    case("aten.mul.Tensor", binary),
    case("aten.mul.Scalar", binary_number),
]
