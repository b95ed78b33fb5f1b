"""Triangles and diagonals of matrices."""

import torch

from tests.conformance.harness import S, case, rand, special


def triangle():
    yield S(rand(3, 4))
    yield S(rand(4, 3), 1)
    yield S(rand(2, 3, 4), -1)
    yield S(rand(3, 3), 9)
    yield S(rand(3, 3), -9)
    yield S(rand(0, 3))
    yield S(rand(2, 3, 0), 1)
    yield S(special()[:9].reshape(3, 3))
    yield S(torch.full((3, 3), float("nan")))
    yield S(rand(3, 3, dtype=torch.bool))
    yield S(rand(3, 3, dtype=torch.int64), 1)
    yield S(rand(3, 3, dtype=torch.complex64), -1)


def diagonal():
    yield S(rand(3, 4))
    yield S(rand(4, 3), -1)
    yield S(rand(3, 4), 2)
    yield S(rand(3, 4), 4)
    yield S(rand(3, 4), -7)
    yield S(rand(2, 3, 4), 1, -2, -1)
    yield S(rand(2, 3, 4), 0, 2, 0)
    yield S(rand(0, 3))
    yield S(rand(3, 3, dtype=torch.bool))


def diag_embed():
    yield S(rand(3))
    yield S(rand(2, 3), 1)
    yield S(rand(2, 3), -2)
    yield S(rand(2, 3), 1, 0, 2)
    yield S(rand(2, 3), -1, 2, 1)
    yield S(rand(0))
    yield S(rand(0), 2)
    yield S(rand(2, dtype=torch.int64))
    yield S(rand(2, dtype=torch.bool))
    yield S(special(), 0)


def diagonal_scatter():
    yield S(rand(3, 4), rand(3))
    yield S(rand(3, 4), rand(2), 2)
    yield S(rand(3, 4), rand(1), -2)
    yield S(rand(2, 3, 4), rand(2, 3), 1, -2, -1)
    yield S(rand(2, 3, 4), rand(3, 2), 0, 2, 0)
    yield S(rand(3, 4), rand(0), 4)
    yield S(rand(3, 3, dtype=torch.bool), rand(3, dtype=torch.bool))


def trace():
    yield S(rand(3, 4))
    yield S(rand(1, 1))
    yield S(rand(0, 3))
    yield S(rand(3, 3, dtype=torch.int32))
    yield S(rand(3, 3, dtype=torch.float64))


CASES = [
    case("aten.tril.default", triangle),
    case("aten.triu.default", triangle),
    case("aten.diagonal.default", diagonal),
    case("aten.diag_embed.default", diag_embed),
    case("aten.diagonal_scatter.default", diagonal_scatter),
    case("aten.trace.default", trace),
]
