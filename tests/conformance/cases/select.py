"""Choice per element."""

import torch

from tests.conformance.harness import FLOATS, INTS, S, case, rand, special


def mask(*sizes):
    return rand(*sizes, dtype=torch.bool)


def tensors():
    for dtype in (*FLOATS, *INTS, torch.bool, torch.complex64):
        yield S(mask(3, 4), rand(3, 4, dtype=dtype), rand(3, 4, dtype=dtype))
    yield S(mask(3, 1), rand(5, 1, 1), rand(4))
    yield S(mask(), rand(3), rand())
    yield S(mask(0, 4), rand(4), rand(4))
    yield S(mask(5), rand(5, dtype=torch.int64), rand(5))
    yield S(mask(5), rand(5, dtype=torch.bfloat16), rand())
    yield S(mask(15), special(), special().flip(0))


def number_first():
    yield S(mask(4), 1.5, rand(4))
    yield S(mask(4, 1), 2, rand(4, dtype=torch.int64))
    yield S(mask(4), 2.5, rand(4, dtype=torch.int64))
    yield S(mask(4), float("-inf"), rand(4, dtype=torch.bfloat16))


def number_second():
    for sample in number_first():
        condition, number, tensor = sample.args
        yield S(condition, tensor, number)


def numbers():
    yield S(mask(4), 1, 0)
    yield S(mask(2, 3), 1.5, float("nan"))
    yield S(mask(4), True, False)


def fill():
    for dtype in FLOATS:
        yield S(rand(3, 4, dtype=dtype), mask(3, 4), float("-inf"))
    for dtype in INTS:
        yield S(rand(3, 4, dtype=dtype), mask(3, 4), 7)
    yield S(rand(3, 4), mask(4), torch.finfo(torch.float32).min)
    yield S(rand(3, 1), mask(2, 1, 4), 0)
    yield S(rand(3, dtype=torch.bool), mask(3), True)
    yield S(rand(), mask(), 1.0)
    yield S(rand(0, 2), mask(2), 1.0)
    yield S(rand(3, dtype=torch.complex64), mask(3), 1 + 2j)


def fill_tensor():
    yield S(rand(3, 4), mask(3, 4), rand())
    yield S(rand(3, 4, dtype=torch.bfloat16), mask(4), torch.tensor(1.5))
    yield S(rand(3, 4, dtype=torch.int64), mask(4), torch.tensor(5))
    yield S(rand(3, dtype=torch.bool), mask(3), torch.tensor(True))


CASES = [
    case("aten.where.self", tensors),
    case("aten.where.ScalarSelf", number_first),
    case("aten.where.ScalarOther", number_second),
    case("aten.where.Scalar", numbers),
    case("aten.masked_fill.Scalar", fill),
    case("aten.masked_fill.Tensor", fill_tensor),
]
