"""Positions of what is not zero."""

import torch

from tests.conformance.harness import S, case, rand, special


def fixed():
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        yield S(rand(3, 4, dtype=dtype, low=-1, high=1), size=5)
        yield S((rand(2, 3, 4) > 1).to(dtype), size=30)
    yield S(special(), size=9, fill_value=7)
    yield S(torch.zeros(4), size=3)
    yield S(torch.ones(4), size=0)
    yield S(torch.tensor(1.0), size=2)
    yield S(rand(0, 3), size=2)


CASES = [case("aten.nonzero_static.default", fixed)]
