"""Orthogonal polynomials."""

import torch

from tests.conformance.harness import S, case, rand, special

NAN = float("nan")
INF = float("inf")


def tensors(low):
    def samples():
        for dtype in (torch.float32, torch.float64):
            degrees = torch.arange(-1, 12, dtype=dtype)
            yield S(rand(7, 1, dtype=dtype, low=low, high=1.4), degrees)
        yield S(torch.tensor([-1.0, 0.0, 1.0, 0.5, 0.99999994, -0.99999994]).unsqueeze(1), torch.tensor([0.0, 1, 5, 6, 7, 8, 9, 20, 21, 2.7]))
        yield S(special(torch.float64).unsqueeze(1), torch.tensor([0.0, 1.0, 2.0, 7.0, 130.0], dtype=torch.float64))
        yield S(torch.tensor([0.3, 2.0, NAN]).unsqueeze(1), torch.tensor([NAN, INF, -INF, -2.0]))
        yield S(rand(3, dtype=torch.int64), torch.tensor([3, 0, 2]))
        yield S(rand(0, 3), rand(3))

    return samples


def scalar_x():
    yield S(0.3, torch.arange(0, 10))
    yield S(2, torch.arange(0, 6, dtype=torch.float64))


def scalar_n():
    yield S(rand(5, low=-1.5, high=1.5), 4)
    yield S(rand(5, dtype=torch.float64, low=-1.5, high=1.5), 9)
    yield S(rand(5, dtype=torch.float64, low=-1.5, high=1.5), 2.5)


# The recurrences lose digits where terms cancel.
CLOSE = {"rtol": 1e-4, "atol": 1e-4}

CASES = [
    case("aten.special_chebyshev_polynomial_t.default", tensors(-1.4), **CLOSE),
    case("aten.special_chebyshev_polynomial_t.x_scalar", scalar_x, **CLOSE),
    case("aten.special_chebyshev_polynomial_t.n_scalar", scalar_n, **CLOSE),
    case("aten.special_chebyshev_polynomial_u.default", tensors(-1.4), **CLOSE),
    case("aten.special_chebyshev_polynomial_u.x_scalar", scalar_x, **CLOSE),
    case("aten.special_chebyshev_polynomial_u.n_scalar", scalar_n, **CLOSE),
    case("aten.special_chebyshev_polynomial_v.default", tensors(-1.4), **CLOSE),
    case("aten.special_chebyshev_polynomial_v.x_scalar", scalar_x, **CLOSE),
    case("aten.special_chebyshev_polynomial_v.n_scalar", scalar_n, **CLOSE),
    case("aten.special_chebyshev_polynomial_w.default", tensors(-1.4), **CLOSE),
    case("aten.special_chebyshev_polynomial_w.x_scalar", scalar_x, **CLOSE),
    case("aten.special_chebyshev_polynomial_w.n_scalar", scalar_n, **CLOSE),
    case("aten.special_shifted_chebyshev_polynomial_t.default", tensors(-0.2), **CLOSE),
    case("aten.special_shifted_chebyshev_polynomial_t.x_scalar", scalar_x, **CLOSE),
    case("aten.special_shifted_chebyshev_polynomial_t.n_scalar", scalar_n, **CLOSE),
    case("aten.special_shifted_chebyshev_polynomial_u.default", tensors(-0.2), **CLOSE),
    case("aten.special_shifted_chebyshev_polynomial_u.x_scalar", scalar_x, **CLOSE),
    case("aten.special_shifted_chebyshev_polynomial_u.n_scalar", scalar_n, **CLOSE),
    case("aten.special_shifted_chebyshev_polynomial_v.default", tensors(-0.2), **CLOSE),
    case("aten.special_shifted_chebyshev_polynomial_v.x_scalar", scalar_x, **CLOSE),
    case("aten.special_shifted_chebyshev_polynomial_v.n_scalar", scalar_n, **CLOSE),
    case("aten.special_shifted_chebyshev_polynomial_w.default", tensors(-0.2), **CLOSE),
    case("aten.special_shifted_chebyshev_polynomial_w.x_scalar", scalar_x, **CLOSE),
    case("aten.special_shifted_chebyshev_polynomial_w.n_scalar", scalar_n, **CLOSE),
    case("aten.special_hermite_polynomial_h.default", tensors(-1.4), **CLOSE),
    case("aten.special_hermite_polynomial_h.x_scalar", scalar_x, **CLOSE),
    case("aten.special_hermite_polynomial_h.n_scalar", scalar_n, **CLOSE),
    case("aten.special_hermite_polynomial_he.default", tensors(-1.4), **CLOSE),
    case("aten.special_hermite_polynomial_he.x_scalar", scalar_x, **CLOSE),
    case("aten.special_hermite_polynomial_he.n_scalar", scalar_n, **CLOSE),
    case("aten.special_laguerre_polynomial_l.default", tensors(-1.4), **CLOSE),
    case("aten.special_laguerre_polynomial_l.x_scalar", scalar_x, **CLOSE),
    case("aten.special_laguerre_polynomial_l.n_scalar", scalar_n, **CLOSE),
    case("aten.special_legendre_polynomial_p.default", tensors(-1.4), **CLOSE),
    case("aten.special_legendre_polynomial_p.x_scalar", scalar_x, **CLOSE),
    case("aten.special_legendre_polynomial_p.n_scalar", scalar_n, **CLOSE),
]
