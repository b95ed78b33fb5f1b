"""Activations, forward."""

import torch

from tests.conformance.harness import FLOATS, INTS, S, case, rand, special
from tests.conformance.samples import also, unary, with_kwargs

floats = unary(dtypes=FLOATS, low=-6.0, high=6.0)

moderate = unary(dtypes=FLOATS, low=-6.0, high=6.0, edge=False)


def gelu_limits():
    yield S(torch.tensor([1e10, -1e10, 0.0, -0.0, float("nan"), 1e-30]))
    yield S(special(torch.float64))


def arguments(*lists):
    """Values around zero with each list of further arguments."""

    def samples():
        for extra in lists:
            for dtype in FLOATS:
                yield S(torch.cat([rand(9, dtype=dtype, low=-6.0, high=6.0), special(dtype)]), *extra)
        yield S(rand(0, 2), *lists[0])
        yield S(rand(), *lists[0])

    return samples


def corners():
    yield S(torch.tensor([-3.0, 3.0, 0.0, -2.999, 2.999, 6.0]))


def large():
    """Where exp overflows."""
    yield S(torch.tensor([-1000.0, -100.0, -88.0, -20.0, 20.0, 88.0, 100.0, 1000.0]))


def prelu():
    for dtype in FLOATS:
        yield S(rand(2, 3, 4, dtype=dtype), rand(1, 3, 1, dtype=dtype))
    yield S(special(), rand(1))
    yield S(rand(0, 3), rand(1, 3))


def glu():
    for dtype in FLOATS:
        yield S(rand(3, 4, dtype=dtype))
    yield S(rand(4, 2, 3), 0)
    yield S(rand(2, 3, 6), -1)
    yield S(rand(0, 4), 1)


def relu_ints():
    for dtype in INTS:
        yield S(rand(9, dtype=dtype))


CASES = [
    case("aten.relu.default", also(floats, relu_ints)),
    case("aten.relu6.default", floats),
    case("aten.sigmoid.default", also(unary(low=-6.0, high=6.0, complex_=True), large)),
    case("aten.silu.default", also(floats, large)),
    # Infinities apart: eager torch's none form of float32 alone gives NaN for them.
    case("aten.gelu.default", also(also(moderate, gelu_limits), with_kwargs(floats, approximate="tanh"))),
    case("aten.hardsigmoid.default", also(floats, corners)),
    case("aten.hardswish.default", also(floats, corners)),
    case("aten.elu.default", arguments([], [0.5], [1.5, 2.0, 0.7])),
    case("aten.selu.default", floats),
    case("aten.celu.default", arguments([], [0.5], [-1.5])),
    case("aten.leaky_relu.default", arguments([], [0.2], [-0.5])),
    case("aten._prelu_kernel.default", prelu),
    case("aten.softplus.default", also(arguments([], [2.0], [0.5, 1.0]), large)),
    case("aten.mish.default", also(floats, large)),
    case("aten.log_sigmoid_forward.default", also(floats, large)),
    case("aten.threshold.default", arguments([0.0, 0.0], [0.5, 7.0], [-1, 2])),
    case("aten.glu.default", glu),
    case("aten.hardshrink.default", arguments([], [1.0], [0])),
    case("aten.softshrink.default", arguments([], [1.0], [0])),
]
