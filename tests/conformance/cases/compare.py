"""Comparisons and predicates."""

import torch

from tests.conformance.harness import FLOATS, INTS, S, case, rand, special
from tests.conformance.samples import ALL, also, binary, unary, with_number


def numbers():
    yield from with_number(numbers=(1, 0.5), dtypes=(*FLOATS, torch.int64))()
    yield S(torch.tensor([0.1, 0.2], dtype=torch.bfloat16), 0.1)
    yield S(torch.tensor([0.1, 0.2]), 0.1)
    yield S(torch.tensor([0.1, 0.2], dtype=torch.float64), 0.1)
    yield S(rand(5, dtype=torch.bool), 0.5)
    yield S(rand(5, dtype=torch.bool), True)
    yield S(rand(5, dtype=torch.uint8), 2)
    yield S(rand(dtype=torch.int32), 1.5)


def zero_dim():
    """A 0-d operand gives way to the dtype of one with dimensions."""
    yield S(torch.tensor([0.1, 0.2], dtype=torch.bfloat16), torch.tensor(0.1))
    yield S(torch.tensor(0.1, dtype=torch.float64), torch.tensor([0.1, 0.2]))
    yield S(torch.tensor([1, 2, 3], dtype=torch.int32), torch.tensor(1.5))
    yield S(torch.tensor([2**40, 5]), torch.tensor(5, dtype=torch.int32))


def logical():
    yield from binary(edge=False)()
    yield S(special(), special().flip(0))
    yield S(rand(5, dtype=torch.complex64), torch.tensor([0, 1, 0, 1j, 0]))


def order(op):
    return [case(f"aten.{op}.Tensor", also(binary(), zero_dim)), case(f"aten.{op}.Scalar", numbers)]


def equality(op):
    return [
        case(f"aten.{op}.Tensor", also(binary(complex_=True), zero_dim)),
        case(f"aten.{op}.Scalar", also(numbers, lambda: [S(torch.tensor([1 + 1j, 1]), 1 + 1j)])),
    ]


def complex_edge():
    yield S(torch.complex(special().unsqueeze(1), special()))


CASES = [
    *equality("eq"),
    *equality("ne"),
    *order("lt"),
    *order("le"),
    *order("gt"),
    *order("ge"),
    case("aten.isnan.default", also(unary(), complex_edge)),
    case("aten.isinf.default", also(unary(), complex_edge)),
    case("aten.isfinite.default", also(unary(), complex_edge)),
    case("aten.isposinf.default", unary()),
    case("aten.isneginf.default", unary()),
    case("aten.signbit.default", unary(dtypes=(*FLOATS, *INTS, torch.bool))),
    case("aten.logical_not.default", unary(dtypes=ALL, complex_=True)),
    case("aten.logical_and.default", logical),
    case("aten.logical_or.default", logical),
    case("aten.logical_xor.default", logical),
]
