"""Sums and products of one result per element."""

import torch

from tests.conformance.harness import FLOATS, INTS, S, case, rand, special
from tests.conformance.samples import ALL, also, binary, unary, with_number

NO_BOOL = (*FLOATS, *INTS)


def alpha():
    yield S(rand(3), rand(3), alpha=2)
    yield S(rand(3, dtype=torch.int64), rand(3, dtype=torch.int64), alpha=-3)
    yield S(rand(3, dtype=torch.bfloat16), rand(3, dtype=torch.bfloat16), alpha=0.3)
    yield S(rand(3, dtype=torch.complex64), rand(3, dtype=torch.complex64), alpha=1 + 2j)


def alpha_number():
    yield S(rand(3), 1.5, 2)
    yield S(rand(3, dtype=torch.int32), 5, -2)


def three(value):
    def samples():
        for dtype in FLOATS:
            yield S(rand(3, 4, dtype=dtype), rand(3, 4, dtype=dtype), rand(3, 4, dtype=dtype, low=0.5), value=value)
        yield S(rand(3, 1, 4), rand(5, 1), rand(4, low=0.5), value=value)
        yield S(rand(0, 4), rand(4), rand(4), value=value)
        yield S(rand(3), rand(), rand(low=0.5))
        yield S(special(), special().flip(0), special().roll(3))
        yield S(rand(3, dtype=torch.complex64), rand(3, dtype=torch.complex64), rand(3, dtype=torch.complex64))

    return samples


def addcmul_ints():
    for dtype in INTS:
        yield S(rand(5, dtype=dtype), rand(5, dtype=dtype), rand(5, dtype=dtype), value=2)


def lerp():
    for dtype in FLOATS:
        yield S(rand(3, 4, dtype=dtype), rand(3, 4, dtype=dtype), rand(3, 4, dtype=dtype))
    yield S(rand(3, 1), rand(4), rand(2, 1, 1, low=0.0, high=1.0))
    yield S(special(), special().flip(0), special().roll(3))
    yield S(rand(0, 3), rand(3), rand(3))


def lerp_number():
    for dtype in FLOATS:
        for weight in (0.0, 0.3, 0.5, 1.0, -2):
            yield S(rand(3, 4, dtype=dtype), rand(3, 4, dtype=dtype), weight)
    yield S(special(), special().flip(0), 0.25)


CASES = [
    case("aten.add.Tensor", also(binary(complex_=True), alpha)),
    case("aten.add.Scalar", also(with_number(), alpha_number)),
    case("aten.sub.Tensor", also(binary(dtypes=NO_BOOL, complex_=True), alpha)),
    case("aten.sub.Scalar", also(with_number(), alpha_number)),
    case("aten.rsub.Tensor", also(binary(dtypes=NO_BOOL, complex_=True), alpha)),
    case("aten.rsub.Scalar", also(with_number(), alpha_number)),
    case("aten.mul.Tensor", binary(complex_=True)),
    case("aten.mul.Scalar", also(with_number(dtypes=(*FLOATS, torch.int64, torch.bool)), lambda: [S(rand(3), 1 + 2j)])),
    case("aten.neg.default", unary(dtypes=NO_BOOL, complex_=True)),
    case("aten.square.default", unary(dtypes=ALL, complex_=True)),
    case("aten.deg2rad.default", unary(dtypes=ALL)),
    case("aten.rad2deg.default", unary(dtypes=ALL)),
    case("aten.addcmul.default", also(three(0.7), addcmul_ints)),
    case("aten.addcdiv.default", three(0.7)),
    case("aten.lerp.Tensor", lerp),
    case("aten.lerp.Scalar", lerp_number),
]
