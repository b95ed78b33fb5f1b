"""Pooling with windows that follow from the size of the output."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand

NAN = float("nan")


def adaptive(spatial, dtypes=FLOATS):
    def samples():
        sizes = [9, 8, 7][-spatial:]
        for dtype in dtypes:
            yield S(rand(2, 3, *sizes, dtype=dtype), [1] * spatial)
        yield S(rand(2, 3, *sizes), [3, 4, 7][-spatial:])
        yield S(rand(2, 3, *sizes), [5] * spatial)
        yield S(rand(2, *sizes), [12, 1, 11][-spatial:])
        yield S(torch.where(rand(1, 2, *sizes) > 2.5, NAN, 1.0), [4, 3, 5][-spatial:])
        yield S(torch.full((1, 2, *sizes), float("-inf")), [4, 3, 5][-spatial:])
        yield S(rand(0, 2, *sizes), [3] * spatial)

    return samples


def backward(spatial):
    def samples():
        sizes = [9, 8, 7][-spatial:]
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            yield S(rand(2, 3, *[1] * spatial, dtype=dtype), rand(2, 3, *sizes, dtype=dtype))
        for output in ([3, 4, 7], [5, 5, 5], [12, 1, 11], [9, 3, 4]):
            yield S(rand(2, 3, *output[-spatial:]), rand(2, 3, *sizes))
        yield S(rand(2, *[3] * spatial), rand(2, *sizes))

    return samples


CASES = [
    case("aten._adaptive_avg_pool2d.default", adaptive(2)),
    # torch adds up bf16 in bf16 here.
    case("aten._adaptive_avg_pool3d.default", adaptive(3, (torch.float32, torch.float64))),
    case("aten.adaptive_avg_pool1d.default", adaptive(1)),
    *(case(f"aten.adaptive_max_pool{n}d.default", adaptive(n)) for n in (1, 2, 3)),
    case("aten._adaptive_avg_pool2d_backward.default", backward(2)),
    case("aten._adaptive_avg_pool3d_backward.default", backward(3)),
]
