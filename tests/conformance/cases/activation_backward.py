"""Gradients of activations."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand, special
from tests.conformance.samples import also, with_kwargs


def gradient(*lists, low=-6.0, high=6.0, edge=True, before=()):
    """A gradient, `before`, values, and each list of further arguments."""

    def samples():
        for extra in lists or [[]]:
            for dtype in FLOATS:
                x = rand(9, dtype=dtype, low=low, high=high)
                # Without NaN: eager torch itself masks it or not, depending on the length.
                x = torch.cat([x, special(dtype)[:-1]]) if edge else x
                yield S(rand(*x.shape, dtype=dtype), *before, x, *extra)
        extra = lists[0] if lists else []
        yield S(rand(0, 2), *before, rand(0, 2), *extra)
        yield S(rand(3, 4).t(), *before, rand(4, 3), *extra)
        yield S(rand(), *before, rand(), *extra)

    return samples


def corners(*extra):
    def samples():
        yield S(rand(7), torch.tensor([-3.0, 3.0, 0.0, -0.0, -1.0, 1.0, 0.5]), *extra)

    return samples


def elu():
    for dtype in FLOATS:
        x = torch.cat([rand(9, dtype=dtype), torch.tensor([0.0, -0.0], dtype=dtype)])
        yield S(rand(11, dtype=dtype), 1.0, 1.0, 1.0, False, x)
        yield S(rand(11, dtype=dtype), 1.5, 2.0, 0.7, False, x)
        yield S(rand(11, dtype=dtype), 1.5, 2.0, 0.7, True, x)
    yield S(rand(0), 1, 1, 1, True, rand(0))


def prelu():
    for dtype in FLOATS:
        weight = rand(1, 3, 1, dtype=dtype)
        yield S(rand(2, 3, 4, dtype=dtype), rand(2, 3, 4, dtype=dtype), weight)
    yield S(rand(0, 3), rand(0, 3), rand(1, 3))


def log_sigmoid():
    for dtype in FLOATS:
        x = torch.cat([rand(9, dtype=dtype, low=-20, high=20), torch.tensor([0.0, -0.0], dtype=dtype)])
        yield S(rand(11, dtype=dtype), x, torch.exp(-x.abs()))
    yield S(rand(0), rand(0), rand(0))


def glu():
    for dtype in FLOATS:
        yield S(rand(3, 2, dtype=dtype), rand(3, 4, dtype=dtype), -1)
    yield S(rand(2, 2, 3), rand(4, 2, 3), 0)
    yield S(rand(0, 2), rand(0, 4), 1)


both_gelus = also(gradient(edge=False), with_kwargs(gradient(edge=False), approximate="tanh"))

CASES = [
    case("aten.threshold_backward.default", also(gradient([0], [0.5]), corners(0))),
    case("aten.sigmoid_backward.default", gradient(low=0.0, high=1.0, edge=False)),
    case("aten.tanh_backward.default", gradient(low=-1.0, high=1.0, edge=False)),
    case("aten.silu_backward.default", also(gradient(edge=False), corners())),
    case("aten.gelu_backward.default", both_gelus),
    case("aten.hardsigmoid_backward.default", also(gradient(), corners())),
    case("aten.hardswish_backward.default", also(gradient(edge=False), corners())),
    case("aten.hardtanh_backward.default", also(gradient([-1, 1], [-0.5, 2.0]), corners(-1, 1))),
    case("aten.elu_backward.default", elu),
    case("aten.leaky_relu_backward.default", also(gradient([0.01, False], [0.2, True]), corners(0.1, False))),
    case("aten._prelu_kernel_backward.default", prelu),
    case("aten.softplus_backward.default", gradient([1, 20], [2.0, 3.0], edge=False)),
    case("aten.mish_backward.default", also(gradient(edge=False), corners())),
    case("aten.log_sigmoid_backward.default", log_sigmoid),
    case("aten.glu_backward.default", glu),
    case("aten.hardshrink_backward.default", also(gradient([0.5], [1.0]), corners(1.0))),
    case("aten.softshrink_backward.default", also(gradient([0.5], [1.0]), corners(1.0))),
]
