"""Counting and searching."""

import torch

from tests.conformance.harness import S, case, rand, special


def histc():
    yield S(rand(40), 8, -3, 3)
    yield S(torch.randint(0, 8, (50,)).float(), 8, 0, 7)
    yield S(torch.randint(0, 12, (5, 10)).float(), 8, 0, 7)
    yield S(torch.randint(0, 60, (500,)).float(), 60, 0, 59)
    yield S(rand(40))
    yield S(torch.full((5,), 2.0), 4)
    yield S(rand(0), 4)
    yield S(rand(0), 4, 1, 2)
    yield S(rand(), 3, -3, 3)
    yield S(special(), 5, -3, 3)
    yield S(rand(40, dtype=torch.float64), 9, -1, 2)


def bounds():
    return torch.tensor([-2.0, -0.5, 0.0, 0.0, 1.5])


def bucketize():
    yield S(rand(3, 4), bounds())
    yield S(bounds(), bounds())
    yield S(bounds(), bounds(), right=True)
    yield S(special(), bounds(), out_int32=True)
    yield S(rand(4, dtype=torch.int64), torch.tensor([-1, 0, 2]))
    yield S(rand(), bounds())
    yield S(rand(3), rand(0))
    yield S(rand(0, 2), bounds())
    yield S(rand(4, dtype=torch.bfloat16), bounds().bfloat16())


def bucketize_scalar():
    yield S(0.0, bounds())
    yield S(0, bounds(), right=True)
    yield S(9.5, torch.tensor([1, 2, 20]), out_int32=True)


def searchsorted():
    yield S(bounds(), rand(3, 4))
    yield S(bounds(), bounds(), right=True)
    yield S(bounds(), bounds(), side="right", out_int32=True)
    yield S(rand(2, 7).sort(-1).values, rand(2, 4))
    yield S(rand(2, 3, 7).sort(-1).values, rand(2, 3, 4), right=True)
    unsorted = rand(2, 7)
    yield S(unsorted, rand(2, 4), sorter=unsorted.argsort(-1))
    yield S(bounds(), special())
    yield S(bounds(), rand())
    yield S(rand(0), rand(3))


def searchsorted_scalar():
    yield S(bounds(), 0.0)
    yield S(bounds(), 0, right=True)
    yield S(torch.tensor([1, 2, 20]), 2, side="left")


def repeat_interleave():
    yield S(torch.tensor([2, 0, 3, 1]), output_size=6)
    yield S(torch.tensor([0, 0, 4], dtype=torch.int32), output_size=4)
    yield S(torch.tensor([0]), output_size=0)


CASES = [
    case("aten.histc.default", histc),
    case("aten.bucketize.Tensor", bucketize),
    case("aten.bucketize.Scalar", bucketize_scalar),
    case("aten.searchsorted.Tensor", searchsorted),
    case("aten.searchsorted.Scalar", searchsorted_scalar),
    case("aten.repeat_interleave.Tensor", repeat_interleave),
]
