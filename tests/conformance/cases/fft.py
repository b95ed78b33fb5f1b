"""Fourier transforms."""

import torch

from tests.conformance.harness import S, case, rand


def r2c():
    for norm in (0, 1, 2):
        yield S(rand(3, 8), [1], norm, True)
    yield S(rand(3, 8), [1], 0, False)
    yield S(rand(3, 7, 5, dtype=torch.float64), [0, 2, 1], 1, True)
    yield S(rand(2, 6, 5), [2, 1], 2, False)
    yield S(rand(2, 1), [1], 0, True)
    yield S(rand(0, 4), [1], 0, True)


def c2r():
    for norm in (0, 1, 2):
        yield S(torch.fft.rfft(rand(3, 8)), [1], norm, 8)
    yield S(torch.fft.rfft(rand(3, 7)), [1], 2, 7)
    yield S(torch.fft.rfftn(rand(4, 3, 6, dtype=torch.float64)), [0, 1, 2], 2, 6)
    # Parts that a transform of real numbers could not give are ignored.
    yield S(rand(3, 5, dtype=torch.complex64), [1], 0, 8)


def c2c():
    for norm in (0, 1, 2):
        for forward in (True, False):
            yield S(rand(3, 8, dtype=torch.complex64), [1], norm, forward)
    yield S(rand(2, 3, 4, 5, dtype=torch.complex128), [0, 1, 2, 3], 1, False)
    yield S(rand(4, 7, dtype=torch.complex64), [0], 0, True)
    yield S(rand(0, 4, dtype=torch.complex64), [1], 0, True)


CASES = [
    case("aten._fft_r2c.default", r2c, rtol=1e-5, atol=1e-5),
    case("aten._fft_c2r.default", c2r, rtol=1e-5, atol=1e-5),
    case("aten._fft_c2c.default", c2c, rtol=1e-5, atol=1e-5),
]
