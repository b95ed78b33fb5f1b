"""The incomplete gamma functions."""

import torch

from tests.conformance.harness import S, case, rand

INF, NAN = float("inf"), float("nan")


def plane():
    """Every region of the algorithms, their borders, and the borders of the plane."""
    for dtype in (torch.float32, torch.float64):
        places = torch.tensor([0.05, 0.4, 0.5, 0.9, 1.05, 1.3, 4.0, 12.0, 21.0, 27.0, 150.0, 210.0, 230.0, 3000.0], dtype=dtype)
        yield S(places.unsqueeze(1), places)
    borders = torch.tensor([-1.0, -0.0, 0.0, 1e-20, 2.0, 40.0, INF, NAN])
    yield S(borders.unsqueeze(1), borders)
    yield S(rand(9, dtype=torch.bfloat16, low=0.1, high=5.0), rand(9, dtype=torch.bfloat16, low=0.1, high=5.0))
    yield S(rand(0, 3), rand(3))
    yield S(rand(low=1.0), rand(3, 1, low=1.0))


CASES = [
    case("aten.igamma.default", plane, rtol=1e-4, atol=1e-6),
    case("aten.igammac.default", plane, rtol=1e-4, atol=1e-6),
]
