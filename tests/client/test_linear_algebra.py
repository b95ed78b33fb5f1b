"""Linear algebra taken apart, against eager PyTorch."""

from __future__ import annotations

import math

import pytest
import torch

from tests.client.test_decompositions import check

aten = torch.ops.aten


def well_conditioned(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, dtype=dtype) + 4 * torch.eye(*sizes[-2:], dtype=dtype)


def with_real_diagonal(x: torch.Tensor) -> torch.Tensor:
    """As a Cholesky factor has it, and LAPACK expects it."""
    return x - torch.diag_embed(x.diagonal(dim1=-2, dim2=-1)) + 3 * torch.eye(x.size(-1), dtype=x.dtype)


SQUARE = [
    (torch.linalg.lu, "linalg_lu.default"),
    (torch.linalg.det, "_linalg_det"),
    (torch.linalg.slogdet, "_linalg_slogdet"),
    (torch.linalg.inv_ex, "linalg_inv_ex"),
    (aten._linalg_det.default, "_linalg_det"),
    (aten._linalg_slogdet.default, "_linalg_slogdet"),
    (torch.linalg.pinv, "linalg_pinv"),
    (torch.linalg.polar, "linalg_polar"),
    (lambda x: torch.linalg.pinv(x @ x.mH, hermitian=True), "linalg_pinv"),
    (lambda x: torch.linalg.matrix_sqrth(x @ x.mH), "linalg_matrix_sqrth"),
    (lambda x: torch.cholesky_inverse(with_real_diagonal(x).tril()), "cholesky_inverse"),
    (lambda x: torch.cholesky_inverse(with_real_diagonal(x).triu(), upper=True), "cholesky_inverse"),
    (lambda x: torch.cholesky_solve(x, x.tril()), "cholesky_solve"),
    (lambda x: torch.triangular_solve(x, x, transpose=True), "triangular_solve.default"),
    (lambda x: torch.triangular_solve(x, x, upper=False, unitriangular=True), "triangular_solve.default"),
    (lambda x: aten._linalg_solve_ex.default(x, x.flip(-1)), "_linalg_solve_ex"),
    (lambda x: aten._linalg_solve_ex.default(x, x.flip(-1), left=False), "_linalg_solve_ex"),
    (lambda x: aten._linalg_solve_ex.default(x, x[..., 0]), "_linalg_solve_ex"),
]


@pytest.mark.parametrize("fn, name", SQUARE, ids=[f"{name}{i}" for i, (_, name) in enumerate(SQUARE)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_square_matrices_by_their_factors(fn, name, dtype) -> None:
    for x in (well_conditioned(4, 4, dtype=dtype), well_conditioned(2, 3, 3, dtype=dtype), well_conditioned(3, 3, dtype=dtype).mT):
        ops = check(fn, x)
        assert not any(op == f"aten.{name}" or op.startswith(f"aten.{name}.") for op in ops), ops


@pytest.mark.parametrize("sizes", [(5, 3), (3, 5), (2, 4, 4), (3, 0), (0, 3)])
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr_from_reflections(sizes, mode) -> None:
    check(lambda x: torch.linalg.qr(x, mode), torch.randn(*sizes), without="linalg_qr")


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_products_with_reflections(left, transpose) -> None:
    packed, scales = torch.geqrf(torch.randn(5, 3, dtype=torch.complex64))
    other = torch.randn(5, 2, dtype=torch.complex64) if left else torch.randn(2, 5, dtype=torch.complex64)
    check(lambda a, t, c: torch.ormqr(a, t, c, left, transpose), packed, scales, other, without="ormqr")


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_distances_and_their_gradients(p) -> None:
    x, y = torch.randn(4, 3), torch.randn(5, 3)
    x[1] = x[0]
    y[0] = x[0]
    check(lambda x: aten._pdist_forward.default(x, p), x, without="pdist")
    pairs = torch.pdist(x, p)
    check(lambda g, x, d: aten._pdist_backward.default(g, x, p, d), torch.randn_like(pairs), x, pairs, without="pdist")
    cross = torch.cdist(x, y, p)
    check(lambda g, x, y, d: aten._cdist_backward.default(g, x, y, p, d), torch.randn_like(cross), x, y, cross, without="backward")
