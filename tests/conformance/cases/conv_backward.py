"""Gradients of convolutions."""

import torch

from tests.conformance.harness import S, case, rand


def sample(
    x, w, stride=1, padding=0, dilation=1, transposed=False, output_padding=0, groups=1, mask=(True, True, True)
):
    n = x.dim() - 2
    geometry = [v if isinstance(v, list) else [v] * n for v in (stride, padding, dilation)]
    extra = output_padding if isinstance(output_padding, list) else [output_padding] * n
    y = torch.ops.aten.convolution.default(x, w, None, *geometry, transposed, extra, groups)
    features = w.shape[1] * groups if transposed else w.shape[0]
    return S(rand(*y.shape, dtype=x.dtype), x, w, [features], *geometry, transposed, extra, groups, list(mask))


def backward():
    for dtype in (torch.float32, torch.float64):
        yield sample(rand(2, 3, 6, 7, dtype=dtype), rand(4, 3, 3, 2, dtype=dtype))
    yield sample(rand(2, 3, 9), rand(4, 3, 3), stride=2, padding=1)
    yield sample(rand(2, 3, 10), rand(4, 3, 3), stride=4)
    yield sample(rand(2, 4, 5, 6, 7), rand(6, 2, 3, 2, 1), padding=[1, 0, 2], groups=2)
    yield sample(rand(2, 4, 8, 8), rand(8, 1, 3, 3), padding=1, groups=4)
    yield sample(rand(1, 2, 12, 12), rand(3, 2, 3, 3), dilation=[2, 3], stride=[1, 2], mask=(True, False, True))
    yield sample(rand(1, 2, 5, 5), rand(3, 2, 1, 1), padding=2, stride=2, mask=(False, True, False))
    yield sample(rand(0, 3, 6, 6), rand(4, 3, 3, 3))
    yield sample(rand(2, 4, 5), rand(4, 3, 3), stride=2, transposed=True)
    yield sample(rand(2, 4, 5, 6), rand(4, 3, 3, 2), padding=1, stride=[2, 3], output_padding=[1, 2], transposed=True)
    yield sample(rand(2, 4, 5, 6), rand(4, 3, 3, 2), stride=2, dilation=2, groups=2, transposed=True)
    yield sample(rand(2, 4, 4), rand(4, 2, 2), padding=3, dilation=4, output_padding=2, transposed=True)


def narrow_backward():
    for dtype in (torch.bfloat16, torch.float16):
        yield sample(rand(2, 3, 6, 7, dtype=dtype), rand(4, 3, 3, 2, dtype=dtype))


CASES = [
    # Long sums in another order.
    case("aten.convolution_backward.default", backward, rtol=1e-4, atol=1e-4),
    case("aten.convolution_backward.default", narrow_backward, rtol=1.6e-2, atol=1e-2),
]
