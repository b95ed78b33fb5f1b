"""Histograms over edges."""

import torch

from tests.conformance.harness import S, case, rand

WIDE = (torch.float32, torch.float64)


def counted():
    for dtype in WIDE:
        yield S(rand(40, dtype=dtype), 7)
        yield S(rand(4, 10, dtype=dtype), 5, range=[-1.0, 2.0])
        yield S(rand(40, dtype=dtype), 5, range=[-2.0, 2.0], weight=rand(40, dtype=dtype), density=True)
    yield S(torch.tensor([1.0, 1.0, 1.0]), 3)
    yield S(torch.tensor([0.0, 1.0, 2.0, 3.0, float("nan"), -1.0, 4.0]), 3, range=[0.0, 3.0])
    yield S(torch.tensor([]), 4)
    yield S(torch.tensor(2.0), 1)


def edges():
    for dtype in WIDE:
        line = torch.tensor([-2.0, -1.5, 0.0, 0.25, 2.0], dtype=dtype)
        yield S(rand(40, dtype=dtype), line)
        yield S(rand(5, 8, dtype=dtype), line, weight=rand(5, 8, dtype=dtype), density=True)
    yield S(torch.tensor([-2.0, 2.0, -3.0, 0.25, float("inf"), float("nan")]), torch.tensor([-2.0, 0.25, 2.0]))
    yield S(torch.tensor([]), torch.tensor([0.0, 1.0]))


def several():
    for dtype in WIDE:
        yield S(rand(40, 2, dtype=dtype), [3, 4])
        yield S(rand(4, 10, 3, dtype=dtype), [3, 1, 2], range=[-1.0, 1.0, -2.0, 2.0, 0.0, 3.0])
    yield S(rand(40, 2), [3, 4], weight=rand(40), density=True)


def several_edges():
    lines = [torch.tensor([-2.0, 0.0, 1.0]), torch.tensor([-1.0, 0.5, 0.75, 2.0])]
    yield S(rand(40, 2), lines)
    yield S(rand(40, 2), lines, weight=rand(40), density=True)


CASES = [
    case("aten._histogramdd_bin_edges.default", several),
    case("aten._histogramdd_from_bin_cts.default", several),
    case("aten._histogramdd_from_bin_tensors.default", several_edges),
    case("aten.histogram.bin_ct", counted),
    case("aten.histogram.bins_tensor", edges),
]
