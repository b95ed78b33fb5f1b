"""The gamma function's logarithm, its derivatives, zeta."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand, special
from tests.conformance.samples import also, unary

INF, NAN = float("inf"), float("nan")
WIDE = (torch.float32, torch.float64)


def lines():
    """Across the borders of the approximations, far out, and between the poles."""
    for dtype in WIDE:
        yield S(torch.linspace(0.05, 13.0, 80, dtype=dtype))
        yield S(torch.logspace(-30, 30, 31, dtype=dtype))
        yield S(torch.linspace(-7.77, -0.03, 41, dtype=dtype))
    yield S(torch.tensor([-1e10, -3.0, -0.0, 0.0, -INF, INF, NAN]))


def roots():
    """1 and 2, exactly, and their neighbours."""
    yield S(torch.tensor([1.0, 2.0, 3.0, 1.0000001, 0.9999999, 2.0000002, 1.9999999, 1.001, 1.999]))
    yield S(torch.tensor([1.0, 2.0, 1 + 1e-12, 1 - 1e-12, 2 + 1e-12, 2 - 1e-12], dtype=torch.float64))
    yield S(torch.tensor([True, True]))
    yield S(torch.tensor([1, 2, 3], dtype=torch.int64))


def orders():
    for n in (0, 1, 2, 3, 4, 7):
        for dtype in WIDE:
            yield S(n, torch.linspace(0.1, 15.0, 30, dtype=dtype))
        yield S(n, torch.tensor([-0.5, -1.5, -2.25, -7.3]))
    yield S(2, special()[:12])  # of infinity eager says NaN, the lowering 0
    yield S(3, rand(5, dtype=torch.int64, low=1, high=9))
    yield S(1, rand(9, dtype=torch.bfloat16, low=1.0))
    yield S(2, rand(9, dtype=torch.bfloat16, low=1.0))
    yield S(60, rand(4, low=1.0))
    yield S(2, rand(0, 3))


def zeta():
    for dtype in WIDE:
        exponents = torch.tensor([1.0, 1.01, 1.5, 2.0, 3.0, 9.5, 30.0, 200.0], dtype=dtype)
        yield S(exponents.unsqueeze(1), torch.tensor([0.1, 0.5, 1.0, 3.25, 9.0, 20.0, 1e5], dtype=dtype))
        yield S(torch.tensor([2.0, 3.0, 2.5], dtype=dtype).unsqueeze(1), torch.tensor([-0.5, -3.25, -20.5], dtype=dtype))
    edges = torch.tensor([-INF, -2.0, -0.0, 0.0, 0.5, 1.0, 2.0, 2.5, NAN])
    yield S(edges.unsqueeze(1), edges)
    yield S(rand(5, dtype=torch.int64), rand(5, dtype=torch.int64))
    yield S(rand(0, 3), rand(3))


CASES = [
    case("aten.lgamma.default", also(also(unary(), lines), roots), rtol=1e-5, atol=1e-6),
    case("aten.digamma.default", also(unary(edge=False, dtypes=FLOATS), lines), rtol=2e-5, atol=1e-5),
    case("aten.polygamma.default", orders, rtol=2e-5, atol=1e-5),
    case("aten.special_zeta.default", zeta, rtol=1e-5, atol=1e-6),
    case("aten.special_zeta.self_scalar", lambda: [S(2.5, rand(5, low=0.5)), S(3, rand(5, dtype=torch.int64, low=1))], rtol=1e-5, atol=1e-6),
    case("aten.special_zeta.other_scalar", lambda: [S(rand(5, low=1.5), 2.5), S(rand(5, dtype=torch.float64, low=1.5), 1)], rtol=1e-5, atol=1e-6),
]
