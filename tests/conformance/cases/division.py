"""Division and its relatives."""

import torch

from tests.conformance.harness import FLOATS, INTS, S, case, rand, special
from tests.conformance.samples import also, binary, swapped, unary, with_kwargs, with_number

NO_BOOL = (*FLOATS, *INTS)

# Edge values are in near_integers: for huge quotients eager torch itself gives NaN or 0, depending on the length.
quotient = binary(dtypes=NO_BOOL, nonzero=True, edge=False)
by_number = with_number(numbers=(2, -3, 0.7), dtypes=(*FLOATS, torch.int64, torch.uint8))


def near_integers():
    """Quotients that rounding could move across an integer."""
    for dtype in FLOATS:
        edges = special(dtype)
        edges = edges[~edges.isfinite() | (edges.abs() < 100)][[0, 1, 2, 4, 8, -3, -2, -1]]
        yield S(edges.repeat_interleave(len(edges)), edges.repeat(len(edges)))
    yield S(torch.arange(1, 40) * 0.1, torch.full((39,), 0.1))
    yield S(torch.arange(-39, 0) * 0.3, torch.full((39,), 0.1))
    yield S(special(torch.int64)[:5], torch.tensor([3, -3, 2, -2, 7]))
    yield S(torch.tensor([-7, 7, -7, 7, -8, 8]), torch.tensor([2, -2, -2, 2, 4, -4]))


def unsigned_number():
    yield S(rand(6, dtype=torch.uint8, high=255), 3)
    yield S(rand(6, dtype=torch.int64), -4)


def exact():
    """Not the product with the inverse, which is one unit in the last place off for some of these."""
    for dtype in (torch.float32, torch.float64):
        for number in (255, 3.0, -0.7, 1e-3, 4, 0.5):
            yield S(torch.arange(0, 1000, dtype=dtype), number)


def narrow_truncation():
    """torch rounds the quotient of two narrow tensors first."""
    for dtype in (torch.bfloat16, torch.float16):
        yield S(torch.arange(1, 200, dtype=dtype), torch.full((199,), 0.7, dtype=dtype), rounding_mode="trunc")
        yield S(torch.arange(1, 200, dtype=dtype), torch.tensor(0.7, dtype=dtype), rounding_mode="trunc")


def rounded(mode, base):
    return with_kwargs(base, rounding_mode=mode)


def modes(base):
    def samples():
        yield S(rand(3), rand(3), rounding_mode=None) if base is quotient else S(rand(3), 2, rounding_mode=None)
        yield from rounded("floor", base)()
        yield from rounded("trunc", base)()

    return samples


CASES = [
    case("aten.div.Tensor", binary(nonzero=True, complex_=True)),
    case("aten.div.Scalar", also(by_number, exact), rtol=0, atol=1e-37),
    case("aten.div.Tensor_mode", also(also(modes(quotient), rounded("floor", near_integers)), narrow_truncation)),
    case("aten.div.Scalar_mode", also(modes(by_number), rounded("floor", unsigned_number))),
    case("aten.floor_divide.default", also(quotient, near_integers)),
    case("aten.floor_divide.Scalar", also(by_number, unsigned_number)),
    case("aten.remainder.Tensor", also(quotient, near_integers)),
    case("aten.remainder.Scalar", also(by_number, unsigned_number)),
    case("aten.remainder.Scalar_Tensor", swapped(with_number(numbers=(7, -3.5), dtypes=FLOATS))),
    case("aten.fmod.Tensor", also(quotient, near_integers)),
    case("aten.fmod.Scalar", also(by_number, unsigned_number)),
    case("aten.reciprocal.default", unary(complex_=True)),
]
