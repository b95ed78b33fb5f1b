"""Products of 8-bit integers."""

import torch

from tests.conformance.harness import S, case, rand


def products():
    for rows, inner, columns in ((32, 16, 8), (17, 64, 24), (1, 8, 8)):
        yield S(rand(rows, inner, dtype=torch.int8, low=-128, high=127), rand(inner, columns, dtype=torch.int8, low=-128, high=127))
    yield S(torch.full((20, 1024), -128, dtype=torch.int8), torch.full((1024, 8), -128, dtype=torch.int8))


CASES = [case("aten._int_mm.default", products)]
