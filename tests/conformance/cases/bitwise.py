"""Bits of integers and bools."""

import torch

from tests.conformance.harness import INTS, S, case, rand, special
from tests.conformance.samples import also, binary, swapped, unary, with_number

BITS = (*INTS, torch.bool)

tensors = binary(dtypes=BITS, floats=False)
numbers = also(
    with_number(numbers=(6, -3), dtypes=(torch.int64, torch.int32, torch.int8)),
    lambda: [S(rand(4, dtype=torch.bool), True), S(rand(4, dtype=torch.uint8), 3)],
)


def shifts():
    for dtype in INTS:
        width = torch.iinfo(dtype).bits
        counts = torch.tensor([0, 1, width - 1, width, width + 3], dtype=dtype)
        yield S(special(dtype).unsqueeze(1), counts)
    yield S(rand(5, dtype=torch.int64), torch.tensor([-1, -2, 1, 2, -64]))
    yield S(rand(0, dtype=torch.int32), rand(dtype=torch.int32))


shift_numbers = with_number(numbers=(0, 2, 31, 70), dtypes=(torch.int64, torch.int32))


def number_shifts():
    yield S(5, torch.tensor([0, 1, 3, 70]))
    yield S(-5, torch.tensor([0, 1, 3, 40], dtype=torch.int32))


def trio(op):
    return [
        case(f"aten.{op}.Tensor", tensors),
        case(f"aten.{op}.Scalar", numbers),
        case(f"aten.{op}.Scalar_Tensor", swapped(numbers)),
    ]


def shift(op, old):
    return [
        case(f"aten.{op}.Tensor", shifts),
        case(f"aten.{op}.Tensor_Scalar", shift_numbers),
        case(f"aten.{op}.Scalar_Tensor", number_shifts),
        case(f"aten.{old}.Tensor", shifts),
        case(f"aten.{old}.Scalar", shift_numbers),
    ]


CASES = [
    case("aten.bitwise_not.default", unary(dtypes=BITS)),
    *trio("bitwise_and"),
    *trio("bitwise_or"),
    *trio("bitwise_xor"),
    *shift("bitwise_left_shift", "__lshift__"),
    *shift("bitwise_right_shift", "__rshift__"),
]
