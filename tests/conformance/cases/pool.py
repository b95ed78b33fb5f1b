"""Pooling over sliding windows."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand

INF, NAN = float("inf"), float("nan")


def max_pool(spatial):
    # torch's 1d kernel takes no integers.
    dtypes = FLOATS if spatial == 1 else (*FLOATS, torch.int64, torch.int8)

    def samples():
        sizes = [9, 8, 7][-spatial:]
        for dtype in dtypes:
            yield S(rand(2, 3, *sizes, dtype=dtype), [3] * spatial)
        yield S(rand(2, *sizes), [2], [], [1])
        yield S(rand(2, 3, *sizes), [3] * spatial, [2] * spatial, [1] * spatial, [1] * spatial, True)
        yield S(rand(2, 3, *sizes), [3, 2, 1][:spatial], [1, 2, 3][:spatial], [1, 1, 0][:spatial], [2, 3, 1][:spatial])
        yield S(torch.full((1, 2, *sizes), -INF), [3], [2], [1])
        ties = rand(1, 2, *sizes, dtype=torch.int32, low=0, high=1).float()
        yield S(ties, [3], [1], [1])
        yield S(torch.where(rand(1, 2, *sizes) > 2, NAN, ties), [3], [1], [1])
        yield S(torch.where(rand(1, 2, *sizes) > 1, INF, -INF), [2], [3], [0], [1], True)
        yield S(rand(0, 2, *sizes), [2] * spatial)

    return samples


def avg_pool(spatial):
    extra = [None] if spatial > 1 else []
    # torch's 3d kernel takes no narrow floats.
    dtypes = (torch.float32, torch.float64, torch.int64) if spatial == 3 else (*FLOATS, torch.int64)

    def samples():
        sizes = [9, 8, 7][-spatial:]
        for dtype in dtypes:
            yield S(rand(2, 3, *sizes, dtype=dtype), [3] * spatial)
        for include in (True, False):
            yield S(rand(2, 3, *sizes), [3], [2], [1], False, include, *extra)
            yield S(rand(2, *sizes), [4, 3, 2][:spatial], [3, 2, 2][:spatial], [2, 1, 1][:spatial], True, include, *extra)
            yield S(torch.where(rand(1, 1, *sizes) > 2, INF, 1.0), [2], [3], [1], True, include, *extra)
        if spatial > 1:
            yield S(rand(2, 3, *sizes), [3], [2], [1], True, False, 5)
        yield S(rand(0, 2, *sizes), [2] * spatial)

    return samples


CASES = [
    *(case(f"aten.max_pool{n}d.default", max_pool(n)) for n in (1, 2, 3)),
    *(case(f"aten.max_pool{n}d_with_indices.default", max_pool(n)) for n in (1, 2, 3)),
    *(case(f"aten.avg_pool{n}d.default", avg_pool(n)) for n in (1, 2, 3)),
]
