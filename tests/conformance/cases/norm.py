"""Normalisations."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand


def layer_norm():
    for dtype in FLOATS:
        yield S(rand(2, 3, 8, dtype=dtype), [8], rand(8, dtype=dtype), rand(8, dtype=dtype), 1e-5)
    yield S(rand(2, 3, 8), [3, 8], None, None, 1e-12)
    yield S(rand(2, 8) + 10, [8], rand(8), None, 1e-5)
    yield S(rand(0, 8), [8], rand(8), rand(8), 1e-5)


def group_norm():
    for dtype in FLOATS:
        yield S(rand(2, 6, 4, 4, dtype=dtype), rand(6, dtype=dtype), rand(6, dtype=dtype), 2, 6, 16, 3, 1e-5)
    yield S(rand(2, 6, 5), None, None, 2, 6, 5, 1, 1e-6)
    yield S(rand(2, 6), rand(6), rand(6), 2, 6, 1, 2, 1e-6)


def batch_norm():
    for dtype in FLOATS:
        yield S(
            rand(2, 3, 4, 4, dtype=dtype), rand(3, dtype=dtype), rand(3, dtype=dtype), rand(3, dtype=dtype),
            rand(3, dtype=dtype, low=0.5), 0.1, 1e-5,
        )
    yield S(rand(2, 3), None, None, rand(3), rand(3, low=0.5), 0.1, 1e-3)


def batch_norm_no_stats():
    for dtype in (torch.float32, torch.float64):
        yield S(rand(2, 3, 4, 4, dtype=dtype), rand(3, dtype=dtype), rand(3, dtype=dtype), True, 0.1, 1e-5)
    yield S(rand(4, 3, 5), None, None, True, 0.1, 1e-3)


def running(training, dtype=torch.float32, shape=(2, 3, 4, 4), affine=True, momentum=0.1):
    weights = (rand(3, dtype=dtype), rand(3, dtype=dtype)) if affine else (None, None)
    statistics = (rand(3, dtype=dtype), rand(3, dtype=dtype, low=0.5))
    return S(rand(*shape, dtype=dtype), *weights, *statistics, training, momentum, 1e-5)


def batch_norm_functional():
    # Narrow floats: the dtypes that torch's meta function gives differ from those of its kernel.
    for dtype in (torch.float32, torch.float64):
        yield running(True, dtype)
    yield running(True, shape=(4, 3), affine=False, momentum=0.0)
    yield running(True, shape=(4, 3, 2, 2, 2), momentum=1.0)
    yield running(False)


def batch_norm_stateless():
    yield running(False)
    yield running(False, torch.bfloat16)
    yield running(False, shape=(4, 3), affine=False)


def batch_norm_optional():
    yield from batch_norm_stateless()
    yield S(rand(2, 3, 4, 4), rand(3), rand(3), None, None, True, 0.1, 1e-5)


def rms_norm():
    for dtype in FLOATS:
        yield S(rand(2, 3, 8, dtype=dtype), [8], rand(8, dtype=dtype), 1e-6)
    yield S(rand(2, 3, 8), [3, 8], None, None)


CASES = [
    case("aten.native_layer_norm.default", layer_norm),
    case("aten.native_group_norm.default", group_norm),
    case("aten._native_batch_norm_legit_no_training.default", batch_norm),
    case("aten._native_batch_norm_legit.no_stats", batch_norm_no_stats),
    case("aten._native_batch_norm_legit_functional.default", batch_norm_functional),
    case("aten._native_batch_norm_legit.default", batch_norm_stateless),
    case("aten.native_batch_norm.default", batch_norm_optional),
    case("aten._fused_rms_norm.default", rms_norm),
]
