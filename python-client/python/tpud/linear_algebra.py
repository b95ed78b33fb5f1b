"""Linear algebra taken apart into the factorisations that the server has: LU, QR, Cholesky, eigh, SVD.

Where eager raises on values (a singular matrix), the results here hold infinities or NaN, and `info` says where.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _identity_like(matrices: Tensor) -> Tensor:
    n = matrices.size(-1)
    return torch.eye(n, dtype=matrices.dtype, device=matrices.device).expand(matrices.shape)


def _factors(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """LU factors of the matrices, or of their transposes: the gradient counts on torch's own choice between them."""
    transposed = matrices.is_contiguous() and not matrices.is_complex()
    lu, pivots, _ = aten.linalg_lu_factor_ex.default(matrices.mT if transposed else matrices)
    return lu, pivots


def _lu(A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    lu, pivots, _ = aten.linalg_lu_factor_ex.default(A, pivot=pivot)
    return aten.lu_unpack.default(lu, pivots)


def _exchange_sign(pivots: Tensor) -> Tensor:
    """-1 for an odd number of exchanged rows."""
    unmoved = torch.arange(1, pivots.size(-1) + 1, dtype=pivots.dtype, device=pivots.device)
    return 1 - 2 * ((pivots != unmoved).sum(-1) % 2)


def _det(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lu, pivots = _factors(A)
    diagonal = lu.diagonal(dim1=-2, dim2=-1)
    return diagonal.prod(-1) * _exchange_sign(pivots), lu, pivots


def _slogdet(A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    lu, pivots = _factors(A)
    diagonal = lu.diagonal(dim1=-2, dim2=-1)
    sign = diagonal.sgn().prod(-1) * _exchange_sign(pivots)
    return sign, diagonal.abs().log().sum(-1), lu, pivots


def _inv_ex(A: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    lu, pivots, info = aten.linalg_lu_factor_ex.default(A, check_errors=check_errors)
    return aten.linalg_lu_solve.default(lu, pivots, _identity_like(A)), info


def _solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    lu, pivots, info = aten.linalg_lu_factor_ex.default(A, check_errors=check_errors)
    vector = B.dim() == 1 or (A.dim() - 1 == B.dim() and B.shape == A.shape[:-1])
    right = B.unsqueeze(-1) if vector else B
    solution = aten.linalg_lu_solve.default(lu, pivots, right, left=left)
    return solution.squeeze(-1) if vector else solution, lu, pivots, info


def _with_columns(matrices: Tensor, columns: int) -> Tensor:
    """The first columns, or zeros behind the last one."""
    return aten.constant_pad_nd.default(matrices, [0, columns - matrices.size(-1)], 0)


def _qr(A: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    rows, count = A.size(-2), min(A.shape[-2:])
    packed, scales = aten.geqrf.default(A)
    kept = rows if mode == "complete" else count
    r = packed[..., :kept, :].triu()
    if mode == "r":
        return A.new_zeros([0]), r
    return aten.linalg_householder_product.default(_with_columns(packed, kept), scales), r


def _ormqr(self: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    order = self.size(-2)
    q = aten.linalg_householder_product.default(_with_columns(self, order), input2)
    q = q.mH if transpose else q
    return torch.matmul(q, input3) if left else torch.matmul(input3, q)


def _triangular(factor: Tensor, right: Tensor, upper: bool, **options: bool) -> Tensor:
    return aten.linalg_solve_triangular.default(factor, right, upper=upper, **options)


def _cholesky_solve(self: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    lower = input2.mH if upper else input2
    return _triangular(lower.mH, _triangular(lower, self, False), True)


def _cholesky_inverse(self: Tensor, upper: bool = False) -> Tensor:
    return _cholesky_solve(_identity_like(self), self, upper)


def _triangular_solve(
    self: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    factor = A.mT if transpose else A
    solution = _triangular(factor, self, upper != transpose, unitriangular=unitriangular)
    return solution, A.expand([*solution.shape[:-2], *A.shape[-2:]]).clone()


def _pinv(self: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False) -> Tensor:
    if self.numel() == 0:
        return self.new_zeros([*self.shape[:-2], self.size(-1), self.size(-2)])
    wide = {"dtype": torch.float64, "device": self.device}
    if rtol is None:
        epsilon = torch.finfo(self.dtype).eps * max(self.shape[-2:])
        rtol = torch.full([], epsilon, **wide)
        rtol = rtol if atol is None else torch.where(atol > 0, torch.zeros([], **wide), rtol)
    atol = torch.zeros([], **wide) if atol is None else atol
    if hermitian:
        values, v = torch.linalg.eigh(self)
        sizes, u = values.abs(), v
    else:
        u, values, vh = torch.linalg.svd(self, full_matrices=False)
        sizes, v = values, vh.mH
    tolerance = torch.maximum(atol.unsqueeze(-1), rtol.unsqueeze(-1) * sizes.amax(-1, keepdim=True))
    inverse = torch.where(sizes > tolerance, values.reciprocal(), values.new_zeros(())).to(self.dtype)
    return torch.matmul(v * inverse.unsqueeze(-2), u.mH)


def _matrix_sqrth(self: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(self)
    return torch.matmul(vectors * values.sqrt().unsqueeze(-2).to(vectors.dtype), vectors.mH)


def _polar(A: Tensor) -> tuple[Tensor, Tensor]:
    u, values, vh = torch.linalg.svd(A, full_matrices=False)
    return torch.matmul(u, vh), torch.matmul(vh.mH * values.unsqueeze(-2).to(vh.dtype), vh)


def _pairs(rows: int, device: Any) -> tuple[Tensor, Tensor]:
    first, second = torch.triu_indices(rows, rows, 1, device=device).unbind(0)
    return first, second


def _pdist_forward(self: Tensor, p: float = 2.0) -> Tensor:
    first, second = _pairs(self.size(0), self.device)
    return aten.linalg_vector_norm.default(self[first] - self[second], p, [1])


def _distance_gradient(difference: Tensor, grad: Tensor, distance: Tensor, p: float) -> Tensor:
    """What a distance's gradient gives to each coordinate of its first point."""
    size, direction = difference.abs(), difference.sgn()
    if p == 0:
        return torch.zeros_like(difference)
    if p == 1:
        return direction * grad
    if math.isinf(p):
        return torch.where(size == distance, direction * grad, 0.0)
    share = direction * size.pow(p - 1) * (grad / distance.pow(p - 1))
    nowhere = (distance == 0) | (size == 0) if p < 1 else distance == 0
    return torch.where(nowhere, 0.0, share)


def _cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    shares = _distance_gradient(difference, grad.unsqueeze(-1), cdist.unsqueeze(-1), p)
    return shares.sum(-2)


def _pdist_backward(grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor:
    first, second = _pairs(self.size(0), self.device)
    shares = _distance_gradient(self[first] - self[second], grad.unsqueeze(-1), pdist.unsqueeze(-1), p)
    return torch.zeros_like(self).index_add(0, first, shares).index_add(0, second, -shares)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.linalg_lu.default: _lu,
    aten._linalg_det.default: _det,
    aten._linalg_slogdet.default: _slogdet,
    aten.linalg_inv_ex.default: _inv_ex,
    aten._linalg_solve_ex.default: _solve_ex,
    aten.linalg_qr.default: _qr,
    aten.ormqr.default: _ormqr,
    aten.cholesky_solve.default: _cholesky_solve,
    aten.cholesky_inverse.default: _cholesky_inverse,
    aten.triangular_solve.default: _triangular_solve,
    aten.linalg_pinv.atol_rtol_tensor: _pinv,
    aten.linalg_matrix_sqrth.default: _matrix_sqrth,
    aten.linalg_polar.default: _polar,
    aten._pdist_forward.default: _pdist_forward,
    aten._pdist_backward.default: _pdist_backward,
    aten._cdist_backward.default: _cdist_backward,
}
