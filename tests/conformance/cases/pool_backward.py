"""Gradients of pooling over sliding windows."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand

aten = torch.ops.aten


def max_pool(x, kernel, stride=(), padding=(0,), dilation=(1,), ceil=False):
    spatial = len(kernel)
    args = [list(each) * spatial if len(each) == 1 else list(each) for each in (kernel, stride, padding, dilation)]
    op = aten.max_pool2d_with_indices if spatial == 2 else aten.max_pool3d_with_indices
    y, indices = op.default(x, *args, ceil)
    args[1] = args[1] or args[0]
    return S(rand(*y.shape, dtype=x.dtype), x, *args, ceil, indices)


def max_backward(spatial):
    def samples():
        sizes = [9, 8, 7][-spatial:]
        for dtype in FLOATS:
            yield max_pool(rand(2, 3, *sizes, dtype=dtype), [2] * spatial)
        ties = rand(2, *sizes, dtype=torch.int32, low=0, high=1).float()
        yield max_pool(ties, [3] * spatial, (1,), (1,))
        yield max_pool(rand(1, 2, *sizes), [3, 2, 2][:spatial], (2, 3, 1)[:spatial], (1,), (1, 2, 1)[:spatial], True)
        yield max_pool(rand(1, 2, *sizes), [6] * spatial, (1,), (3,))
        yield max_pool(rand(1, 2, *[3] * spatial), [3] * spatial, (2,), (1,), (2,), True)

    return samples


def avg_backward(spatial):
    def samples():
        sizes = [9, 8, 7][-spatial:]
        op = aten.avg_pool2d.default if spatial == 2 else aten.avg_pool3d.default
        for dtype in FLOATS if spatial == 2 else (torch.float32, torch.float64):
            yield S(rand(2, 3, *[n // 2 for n in sizes], dtype=dtype), rand(2, 3, *sizes, dtype=dtype), [2] * spatial,
                    [2] * spatial, [0] * spatial, False, True, None)
        geometries = [([3], [2], [1], True), ([4, 3, 2], [3, 2, 2], [2, 1, 1], True), ([2], [3], [1], False)]
        for kernel, stride, padding, ceil in geometries:
            args = [list(each) * spatial if len(each) == 1 else each[:spatial] for each in (kernel, stride, padding)]
            for include, divisor in ((True, None), (False, None), (False, 5)):
                x = rand(2, *sizes)
                y = op(x, *args, ceil, include, divisor)
                yield S(rand(*y.shape), x, *args, ceil, include, divisor)

    return samples


def adaptive_backward(spatial):
    def samples():
        op = aten.adaptive_max_pool2d.default if spatial == 2 else aten.adaptive_max_pool3d.default
        for output in ([3, 4, 7], [5, 5, 5], [12, 1, 11]):
            x = rand(2, 3, *[9, 8, 7][-spatial:])
            y, indices = op(x, output[-spatial:])
            yield S(rand(*y.shape), x, indices)

    return samples


CASES = [
    case("aten.max_pool2d_with_indices_backward.default", max_backward(2)),
    case("aten.max_pool3d_with_indices_backward.default", max_backward(3)),
    case("aten.avg_pool2d_backward.default", avg_backward(2)),
    case("aten.avg_pool3d_backward.default", avg_backward(3)),
    case("aten.adaptive_max_pool2d_backward.default", adaptive_backward(2)),
    case("aten.adaptive_max_pool3d_backward.default", adaptive_backward(3)),
]
