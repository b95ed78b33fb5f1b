"""Resampling of spatial dimensions."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand

SIZES = [4, 5, 7]


def nearest(spatial):
    def samples():
        sizes, none = SIZES[-spatial:], [None] * spatial
        for dtype in (*FLOATS, torch.uint8):
            yield S(rand(2, 3, *sizes, dtype=dtype), [2 * n for n in sizes], *none)
        for output in ([5, 11, 3], [4, 5, 7], [1, 1, 1], [12, 10, 21], [16, 17, 2]):
            yield S(rand(1, 2, *sizes), output[-spatial:], *none)
        yield S(rand(1, 2, *sizes), [int(n * 1.7) for n in sizes], *[1.7] * spatial)

    return samples


def by_factor(spatial, *flags):
    def samples():
        sizes = SIZES[-spatial:]
        for factor in (2.0, 1.7, 0.6):
            yield S(rand(1, 2, *sizes), None, *flags, [factor] * spatial)
        yield S(rand(1, 2, *sizes), [9, 10, 11][-spatial:], *flags, None)

    return samples


def smooth(spatial, dtypes=FLOATS):
    def samples():
        sizes, none = SIZES[-spatial:], [None] * spatial
        for dtype in dtypes:
            yield S(rand(2, 3, *sizes, dtype=dtype), [2 * n for n in sizes], False, *none)
        for align in (False, True):
            for output in ([5, 11, 3], [4, 5, 7], [1, 1, 1], [16, 20, 28], [12, 17, 2]):
                yield S(rand(1, 2, *sizes), output[-spatial:], align, *none)
        yield S(rand(1, 2, *sizes), [int(n * 1.7) for n in sizes], False, *[1.7] * spatial)
        edge = rand(1, 1, *sizes)
        edge.view(-1)[[3, -1]] = torch.tensor([float("inf"), float("nan")])
        yield S(edge, [2 * n for n in sizes], False, *none)

    return samples


def antialiased():
    for dtype in (torch.float32, torch.float64):
        yield S(rand(2, 3, 12, 15, dtype=dtype), [5, 4], False, None, None)
    for align in (False, True):
        for output in ([6, 5], [12, 15], [24, 30], [7, 20], [1, 1]):
            yield S(rand(1, 2, 12, 15), output, align, None, None)
    yield S(rand(1, 2, 12, 15), [7, 9], False, 0.6, 0.6)


CASES = []
for n in (1, 2, 3):
    for name in ("upsample_nearest", "_upsample_nearest_exact"):
        CASES.append(case(f"aten.{name}{n}d.default", nearest(n)))
        CASES.append(case(f"aten.{name}{n}d.vec", by_factor(n)))
for n, name in ((1, "upsample_linear1d"), (2, "upsample_bilinear2d"), (3, "upsample_trilinear3d"), (2, "upsample_bicubic2d")):
    CASES.append(case(f"aten.{name}.default", smooth(n)))
    CASES.append(case(f"aten.{name}.vec", by_factor(n, False)))
for name in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
    CASES.append(case(f"aten.{name}.default", antialiased))
    CASES.append(case(f"aten.{name}.vec", by_factor(2, False)))
