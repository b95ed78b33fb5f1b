"""Convolutions."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand


def conv(x, w, bias=None, stride=1, padding=0, dilation=1, transposed=False, output_padding=0, groups=1):
    n = x.dim() - 2
    per_dim = [v if isinstance(v, list) else [v] * n for v in (stride, padding, dilation)]
    extra = output_padding if isinstance(output_padding, list) else [output_padding] * n
    return S(x, w, bias, *per_dim, transposed, extra, groups)


def convolution():
    for dtype in FLOATS:
        yield conv(rand(2, 3, 6, 7, dtype=dtype), rand(4, 3, 3, 2, dtype=dtype), rand(4, dtype=dtype))
    yield conv(rand(2, 3, 9), rand(4, 3, 3), stride=2, padding=1)
    yield conv(rand(2, 4, 5, 6, 7), rand(6, 2, 3, 2, 1), rand(6), padding=[1, 0, 2], groups=2)
    yield conv(rand(2, 4, 8, 8), rand(8, 1, 3, 3), padding=1, groups=4)
    yield conv(rand(1, 2, 12, 12), rand(3, 2, 3, 3), dilation=[2, 3], stride=[1, 2])
    yield conv(rand(0, 3, 6, 6), rand(4, 3, 3, 3), rand(4))
    yield conv(rand(2, 3, 4, 4, dtype=torch.int64), rand(2, 3, 2, 2, dtype=torch.int64))
    for dtype in FLOATS:
        yield conv(rand(2, 4, 5, dtype=dtype), rand(4, 3, 3, dtype=dtype), rand(3, dtype=dtype), stride=2, transposed=True)
    yield conv(rand(2, 4, 5, 6), rand(4, 3, 3, 2), padding=1, stride=[2, 3], output_padding=[1, 2], transposed=True)
    yield conv(rand(2, 4, 5, 6), rand(4, 3, 3, 2), rand(6), stride=2, dilation=2, groups=2, transposed=True)
    yield conv(rand(1, 2, 3, 4, 5), rand(2, 3, 2, 2, 2), stride=2, transposed=True)
    yield conv(rand(2, 4, 4), rand(4, 2, 2), padding=3, dilation=4, transposed=True)


CASES = [case("aten.convolution.default", convolution)]
