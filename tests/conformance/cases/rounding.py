"""Rounding, magnitude and sign."""

import torch

from tests.conformance.harness import FLOATS, INTS, S, case, rand, special
from tests.conformance.samples import also, binary, unary, with_number

NUMBERS = (*FLOATS, *INTS)


def decimals():
    for dtype in FLOATS:
        for places in (0, 1, -1):
            yield S(rand(9, dtype=dtype, low=-50, high=50), decimals=places)
    yield S(rand(9), decimals=3)
    yield S(torch.tensor([0.25, 0.35, 1.5, 2.5, -0.25]), decimals=1)
    yield S(special()[:9], decimals=0)


def heaviside():
    for dtype in (*FLOATS, torch.int64, torch.bool):
        yield S(rand(9, dtype=dtype, low=-1, high=1).round() if dtype.is_floating_point else rand(9, dtype=dtype), rand(9, dtype=dtype))
    yield S(special(), rand())
    yield S(rand(3, 1), rand(4))


def nan_to_num():
    for dtype in FLOATS:
        yield S(special(dtype))
        yield S(special(dtype), 1.5, 10.0, -20.0)
    yield S(special(), float("inf"))
    yield S(special(), None, None, 3.0)
    yield S(rand(4, dtype=torch.int64))
    yield S(rand(4, dtype=torch.bool))
    yield S(rand(0))


def signs():
    edges = special()
    yield S(edges.repeat_interleave(len(edges)), edges.repeat(len(edges)))
    yield S(rand(3), rand(3, dtype=torch.int64))


CASES = [
    case("aten.floor.default", unary(dtypes=NUMBERS)),
    case("aten.ceil.default", unary(dtypes=NUMBERS)),
    case("aten.trunc.default", unary(dtypes=NUMBERS)),
    case("aten.frac.default", unary(dtypes=FLOATS)),
    case("aten.round.default", unary(dtypes=NUMBERS)),
    case("aten.round.decimals", decimals),
    case("aten.abs.default", unary(dtypes=NUMBERS, complex_=True)),
    case("aten.sign.default", unary()),
    case("aten.sgn.default", also(unary(complex_=True), lambda: [S(torch.tensor([0j, 1 + 1j, -2j]))])),
    case("aten.copysign.Tensor", also(binary(edge=False), signs)),
    case("aten.copysign.Scalar", with_number(numbers=(-0.0, 2.0, -3))),
    case("aten.heaviside.default", heaviside),
    case("aten.nan_to_num.default", nan_to_num),
]
