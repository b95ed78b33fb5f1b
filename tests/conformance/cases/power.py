"""Powers."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand, special
from tests.conformance.samples import swapped


def tensors():
    for dtype in FLOATS:
        yield S(rand(3, 4, dtype=dtype, low=0.1), rand(3, 4, dtype=dtype))
    yield S(rand(5), torch.tensor([-2.0, 0.0, 1.0, 2.0, 3.0]))
    yield S(special().unsqueeze(1), special())
    for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8):
        yield S(rand(4, 1, dtype=dtype, high=9), torch.arange(9, dtype=dtype))
    bases = torch.tensor([-3, -2, -1, 0, 1, 2])
    yield S(bases.unsqueeze(1), torch.tensor([-3, -2, -1, 0, 1, 2]))
    yield S(rand(4, dtype=torch.int64), rand(4))
    yield S(rand(3, 1, low=0.1), rand(0))
    yield S(rand(4, dtype=torch.complex64), rand(4, dtype=torch.complex64))


def numbers():
    for exponent in (0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 1.7, -3):
        yield S(torch.cat([rand(5), special()]), exponent)
    for dtype in FLOATS:
        for exponent in (2, 3.0, 0.5, 2.5):
            yield S(rand(5, dtype=dtype, low=0.1), exponent)
    for dtype in (torch.int64, torch.int8, torch.uint8):
        for exponent in (0, 1, 2, 3, 5):
            yield S(rand(5, dtype=dtype, high=9), exponent)
    yield S(rand(5, dtype=torch.int64, low=1), -0.5)
    yield S(rand(0, 2), 2)
    yield S(rand(3, dtype=torch.complex64), 2)
    yield S(rand(3, dtype=torch.complex64), 0.5)
    yield S(rand(3, low=0.1), 1 + 1j)


def bases():
    for dtype in (*FLOATS, torch.int64):
        for base in (2, 10000.0, 1, 0.5):
            yield S(rand(5, dtype=dtype, low=0, high=3), base)
    yield S(special(), 2.0)
    yield S(torch.arange(-2, 10), 3)


CASES = [
    case("aten.pow.Tensor_Tensor", tensors),
    case("aten.pow.Tensor_Scalar", numbers),
    case("aten.pow.Scalar", swapped(bases)),
]
