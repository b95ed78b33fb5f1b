"""Factors of matrices: LU, QR, eigenvalues, singular values; the matrix exponential.

Beside eager's values the cases hold residuals and orthogonality to rounding errors.
"""

import torch

from tests.conformance.harness import S, case, rand

SOLVABLE = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def shapes():
    """Square, tall, wide, batches, 1 × 1, empty ones, zeros."""
    for dtype in SOLVABLE:
        yield rand(5, 5, dtype=dtype)
    yield rand(2, 3, 6, 4)
    yield rand(2, 4, 7, dtype=torch.complex64)
    yield rand(1, 1)
    yield rand(1, 3)
    yield rand(3, 1, dtype=torch.complex64)
    yield rand(0, 3, 3)
    yield rand(3, 0)
    yield rand(0, 4)
    yield torch.zeros(2, 3, 3)
    yield rand(40, 40)


def samples_of(tensors, **kwargs):
    def samples():
        for x in tensors():
            yield S(x, **kwargs)

    return samples


def unpack():
    for dtype in (torch.float32, torch.complex64):
        for sizes in ((4, 4), (2, 5, 3), (2, 3, 5), (0, 3, 3), (3, 0)):
            lu, pivots, _ = torch.linalg.lu_factor_ex(rand(*sizes, dtype=dtype))
            yield S(lu, pivots)
    yield S(lu, pivots, unpack_data=False)
    yield S(lu, pivots, unpack_pivots=False)


def lu_solve():
    for dtype in (torch.float32, torch.complex64):
        lu, pivots, _ = torch.linalg.lu_factor_ex(rand(2, 4, 4, dtype=dtype))
        for left in (True, False):
            for adjoint in (True, False):
                b = rand(3, 1, 4, 5, dtype=dtype) if left else rand(3, 1, 5, 4, dtype=dtype)
                yield S(lu, pivots, b, left=left, adjoint=adjoint)
    yield S(lu, pivots, rand(2, 4, 0, dtype=dtype))
    yield S(rand(0, 0), torch.zeros(0, dtype=torch.int32), rand(0, 2))


def householder():
    for dtype in SOLVABLE:
        yield S(*torch.geqrf(rand(2, 6, 4, dtype=dtype)))
    a, tau = torch.geqrf(rand(5, 4))
    yield S(a, tau[:2])
    yield S(a, tau[:0])
    yield S(*torch.geqrf(rand(1, 1)))
    yield S(*torch.geqrf(rand(2, 3, 0)))
    yield S(*torch.geqrf(torch.zeros(3, 3)))


def hermitian():
    for dtype in SOLVABLE:
        x = rand(2, 5, 5, dtype=dtype)
        yield S(x + x.mH)
    yield S(rand(4, 4), "U")
    yield S(rand(4, 4, dtype=torch.complex64), "L", False)
    yield S(torch.eye(4).expand(2, 4, 4).contiguous())
    yield S(torch.zeros(3, 3))
    yield S(rand(1, 1))
    yield S(rand(0, 0))
    yield S(rand(3, 0, 0), "L", False)
    yield S(torch.diag(torch.tensor([1e25, -2e25, 1e20])))
    x = rand(30, 30)
    yield S(x + x.mT)


def triangle(sample):
    """The Hermitian matrix that the op reads."""
    x = sample.args[0]
    lower = x.tril() if sample.args[1:2] != ("U",) else x.triu().mH
    return lower + lower.tril(-1).mH - 1j * torch.diag_embed(lower.diagonal(dim1=-2, dim2=-1).imag) if x.is_complex() else (
        lower + lower.tril(-1).mT
    )


def eigen_parts(sample, outputs):
    values, vectors = outputs
    if vectors.dim() < 2:
        return [values]
    a = triangle(sample)
    scale = a.abs().max().clamp_min(1e-30) if a.numel() else 1.0
    spread = (a / scale) @ vectors - vectors * (values / scale).unsqueeze(-2).to(vectors.dtype)
    return [values, spread, vectors.mH @ vectors]


def singular():
    for x in shapes():
        yield S(x)
    for x in (rand(2, 6, 4), rand(3, 5, dtype=torch.complex64), rand(3, 0), rand(2, 0, 3)):
        yield S(x, True)
    yield S(rand(2, 6, 4), False, False)
    yield S(rand(4, 2) * torch.tensor([1e-12, 1e12]))
    yield S(torch.ones(5, 5))
    yield S(rand(6, 2) @ rand(2, 6))
    yield S(rand(3, 1) @ rand(1, 5), True)


def singular_parts(sample, outputs):
    u, values, vh = outputs
    if u.dim() < 2:
        return [values]
    k = values.size(-1)
    a = sample.args[0]
    scale = a.abs().max().clamp_min(1e-30) if a.numel() else 1.0
    product = (u[..., :k] * (values / scale).unsqueeze(-2).to(u.dtype)) @ vh[..., :k, :]
    return [values / scale, product - a / scale, u.mH @ u, vh @ vh.mH]


def exponents():
    for dtype in SOLVABLE:
        yield S(rand(2, 4, 4, dtype=dtype, low=-1, high=1))
    yield S(rand(3, 3, 3) * torch.tensor([1e-5, 1.0, 6.0]).reshape(3, 1, 1))
    yield S(torch.zeros(2, 2))
    yield S(rand(1, 1))
    yield S(rand(2, 0, 0))
    yield S(torch.tensor([[0.0, 30.0], [0.0, 0.0]]))


CASES = [
    case("aten.linalg_lu_factor_ex.default", samples_of(shapes), rtol=1e-4, atol=1e-5),
    case("aten.lu_unpack.default", unpack),
    case("aten.linalg_lu_solve.default", lu_solve, rtol=1e-4, atol=1e-5),
    case("aten.geqrf.default", samples_of(shapes), rtol=1e-4, atol=1e-5),
    case("aten.linalg_householder_product.default", householder, rtol=1e-5, atol=1e-5),
    case("aten._linalg_eigh.default", hermitian, rtol=1e-5, atol=2e-5, determined=eigen_parts),
    case("aten._linalg_svd.default", singular, rtol=1e-5, atol=2e-5, determined=singular_parts),
    case("aten.linalg_matrix_exp.default", exponents, rtol=1e-4, atol=1e-5),
]
