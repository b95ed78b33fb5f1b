"""Results by their bound: the data at its largest size, and how much of it counts."""

import torch

from tests.conformance.harness import FLOATS, INTS, S, case, rand, special


def nonzero():
    for dtype in (torch.bool, *FLOATS, *INTS, torch.complex64):
        x = rand(3, 5, dtype=dtype)
        yield S(torch.where(rand(3, 5, dtype=torch.bool), x, torch.zeros_like(x)))
    yield S(rand(2, 3, 4, dtype=torch.bool))
    yield S(special())
    yield S(torch.zeros(4, 2))
    yield S(torch.ones(7))
    yield S(torch.zeros(0, 3))
    yield S(torch.tensor(True))
    yield S(torch.tensor(0.0))
    yield S(rand(1000, dtype=torch.bool))


CASES = [case("tpud.nonzero.default", nonzero)]
