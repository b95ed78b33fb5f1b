"""Gradients of resampling."""

import torch

from tests.conformance.harness import S, case, rand

SIZES = [4, 5, 7]


def gradients(spatial, aligned):
    def samples():
        sizes, none = SIZES[-spatial:], [None] * spatial
        for flags in ([False], [True]) if aligned else ([],):
            for output in ([8, 10, 14], [5, 11, 3], [4, 5, 7], [1, 1, 1], [12, 10, 21], [2, 2, 3]):
                output = output[-spatial:]
                yield S(rand(2, 3, *output), output, [2, 3, *sizes], *flags, *none)
        flags = [False] if aligned else []
        output = [int(n * 1.7) for n in sizes]
        yield S(rand(1, 2, *output, dtype=torch.float64), output, [1, 2, *sizes], *flags, *[1.7] * spatial)

    return samples


CASES = []
for n in (1, 2, 3):
    CASES.append(case(f"aten.upsample_nearest{n}d_backward.default", gradients(n, False), rtol=1e-5, atol=1e-5))
    CASES.append(case(f"aten._upsample_nearest_exact{n}d_backward.default", gradients(n, False), rtol=1e-5, atol=1e-5))
for n, name in (
    (1, "upsample_linear1d"), (2, "upsample_bilinear2d"), (3, "upsample_trilinear3d"), (2, "upsample_bicubic2d"),
    (2, "_upsample_bilinear2d_aa"), (2, "_upsample_bicubic2d_aa"),
):
    CASES.append(case(f"aten.{name}_backward.default", gradients(n, True), rtol=1e-5, atol=1e-5))
