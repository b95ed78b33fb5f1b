"""Triangular systems, Cholesky factors, cross products, distances."""

import torch

from tests.conformance.harness import S, case, rand


def matrix(*sizes, dtype=torch.float32):
    """Well conditioned, with both triangles filled."""
    return rand(*sizes, dtype=dtype) + 8 * torch.eye(sizes[-1], dtype=dtype)


def solve_triangular():
    for upper in (False, True):
        for left in (False, True):
            for unit in (False, True):
                a = rand(2, 4, 4, low=-0.5, high=0.5) + 2 * torch.eye(4)
                yield S(a, rand(2, 4, 4), upper=upper, left=left, unitriangular=unit)
    yield S(matrix(3, 1, 4, 4), rand(2, 4, 5), upper=True)
    yield S(matrix(4, 4, dtype=torch.complex64), rand(4, 2, dtype=torch.complex64), upper=False)
    yield S(matrix(3, 3, dtype=torch.float64), rand(3, 0, dtype=torch.float64), upper=False)


def cholesky():
    for dtype in (torch.float32, torch.float64, torch.complex64):
        for upper in (False, True):
            root = matrix(2, 4, 4, dtype=dtype)
            yield S(root @ root.mH, upper=upper)
    yield S(torch.eye(1))
    yield S(rand(0, 3, 3))


def cross():
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.complex64):
        yield S(rand(4, 3, dtype=dtype), rand(4, 3, dtype=dtype))
    yield S(rand(3, 1, 4), rand(1, 5, 1).expand(3, 5, 4).contiguous(), dim=0)
    yield S(rand(0, 3), rand(0, 3))


def cdist():
    for p in (0.0, 1.0, 2.0, 3.0, 0.5, float("inf")):
        yield S(rand(4, 3), rand(5, 3), p, None)
    yield S(rand(2, 1, 4, 3, dtype=torch.float64), rand(3, 5, 3, dtype=torch.float64), 2.0, 2)
    yield S(rand(0, 3), rand(5, 3), 2.0, None)
    yield S(rand(4, 0), rand(5, 0), 2.0, None)


CASES = [
    case("aten.linalg_solve_triangular.default", solve_triangular, rtol=1e-4, atol=1e-5),
    case("aten.linalg_cholesky_ex.default", cholesky, rtol=1e-5, atol=1e-5),
    case("aten.linalg_cross.default", cross),
    case("aten._cdist_forward.default", cdist, rtol=1e-5, atol=1e-5),
]
