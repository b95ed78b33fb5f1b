"""Samples that many cases share: operands of pointwise ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from tests.conformance.harness import FLOATS, INTS, S, rand, special

Samples = Callable[[], Iterable[S]]

ALL = (*FLOATS, *INTS, torch.bool)


def unary(
    *, low: float = -3.0, high: float = 3.0, dtypes: Iterable[torch.dtype] = ALL, edge: bool = True, complex_: bool = False
) -> Samples:
    """One operand of each dtype, values in [low, high]; 0-d, empty, and with `edge` the edge values of each float."""

    def samples() -> Iterable[S]:
        for dtype in dtypes:
            x = rand(3, 5, dtype=dtype, low=low, high=high)
            if edge and dtype.is_floating_point:
                x = torch.cat([x.flatten(), special(dtype)])
            yield S(x)
        first = next(iter(dtypes))
        yield S(rand(dtype=first, low=low, high=high))
        yield S(rand(0, 3, dtype=first))
        if complex_:
            yield S(rand(7, dtype=torch.complex64))

    return samples


def binary(
    *, dtypes: Iterable[torch.dtype] = ALL, edge: bool = True, complex_: bool = False, nonzero: bool = False, floats: bool = True
) -> Samples:
    """Two operands of each dtype, broadcasting, mixed dtypes, edge values. `nonzero`: no integer divides by zero."""

    def divisor(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x == 0, torch.ones_like(x), x) if nonzero and not x.dtype.is_floating_point else x

    def samples() -> Iterable[S]:
        for dtype in dtypes:
            yield S(rand(3, 4, dtype=dtype), divisor(rand(3, 4, dtype=dtype)))
        some = torch.float32 if floats else torch.int32
        yield S(rand(3, 1, 4, dtype=some), divisor(rand(5, 1, dtype=some)))
        yield S(rand(0, 4, dtype=some), divisor(rand(4, dtype=some)))
        yield S(rand(4, dtype=torch.int32), divisor(rand(dtype=torch.int64)))
        yield S(rand(4, 3, dtype=some).t(), divisor(rand(3, 4, dtype=some)))
        if floats:
            yield S(rand(), rand(2, dtype=torch.bfloat16))
            yield S(rand(4, dtype=torch.int64), rand(4))
        if floats and edge:
            for dtype in FLOATS:
                edges = special(dtype)
                yield S(edges.repeat_interleave(len(edges)), edges.repeat(len(edges)))
        if edge and not nonzero:
            yield S(special(torch.int32), special(torch.int32).flip(0))
        if complex_:
            yield S(rand(5, dtype=torch.complex64), rand(5, dtype=torch.complex64))

    return samples


def with_number(*, numbers: Iterable[float] = (2, -3, 1.1), dtypes: Iterable[torch.dtype] = (*FLOATS, torch.int64)) -> Samples:
    """A tensor and a number, which may change the dtype of the result."""

    def samples() -> Iterable[S]:
        for dtype in dtypes:
            for number in numbers:
                yield S(rand(3, 4, dtype=dtype), number)
        if any(dtype.is_floating_point for dtype in dtypes):
            yield S(special(), next(iter(numbers)))
        yield S(rand(dtype=next(iter(dtypes))), next(iter(numbers)))

    return samples


def swapped(base: Samples) -> Samples:
    """The first two arguments exchanged."""

    def samples() -> Iterable[S]:
        for sample in base():
            first, second, *rest = sample.args
            yield S(second, first, *rest, **sample.kwargs)

    return samples


def also(base: Samples, more: Samples) -> Samples:
    """The samples of both."""

    def samples() -> Iterable[S]:
        yield from base()
        yield from more()

    return samples


def with_kwargs(base: Samples, **kwargs: object) -> Samples:
    """Every sample with further keyword arguments."""

    def samples() -> Iterable[S]:
        for sample in base():
            yield S(*sample.args, **sample.kwargs, **kwargs)

    return samples
