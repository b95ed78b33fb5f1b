"""Common divisors and multiples, neighbouring floats, mantissas."""

import torch

from tests.conformance.harness import INTS, S, case, rand, special


def integers():
    for dtype in INTS:
        yield S(rand(4, 1, dtype=dtype, low=-100, high=100), rand(9, dtype=dtype, low=-100, high=100))
    yield S(torch.tensor([0, 0, 5, -12, 7]), torch.tensor([0, 3, 0, 18, -7]))
    yield S(torch.tensor(12), torch.tensor(18))
    yield S(rand(0, dtype=torch.int32), rand(0, dtype=torch.int32))


def multiples():
    for dtype in (torch.int64, torch.int32):
        yield S(rand(4, 1, dtype=dtype, low=-100, high=100), rand(9, dtype=dtype, low=-100, high=100))
    yield S(torch.tensor([0, 0, 5, -12, 7]), torch.tensor([0, 3, 0, 18, -7]))


def neighbours():
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        edges = special(dtype)
        yield S(edges.repeat_interleave(len(edges)), edges.repeat(len(edges)))
        yield S(rand(3, 4, dtype=dtype), rand(4, dtype=dtype))


def parts():
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        yield S(special(dtype))
        yield S(rand(3, 4, dtype=dtype, low=-300, high=300))
    yield S(torch.tensor([1.4e-45, -1e-40, 5e-324, 1.1e-38, -0.0]))
    yield S(torch.tensor([5e-324, -1e-310, 2e-308], dtype=torch.float64))
    yield S(torch.tensor(0.5))
    yield S(rand(0, 3))


CASES = [
    case("aten.frexp.Tensor", parts, rtol=0, atol=0),
    case("aten.gcd.default", integers),
    case("aten.lcm.default", multiples),
    # Neighbours: nothing less than equality shows that a result is one.
    case("aten.nextafter.default", neighbours, rtol=0, atol=0),
]
