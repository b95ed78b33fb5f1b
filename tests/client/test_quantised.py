"""Quantised ops: their decompositions against eager PyTorch."""

from __future__ import annotations

import pytest
import torch

from tpud import quantised
from tpud.testing import encode_op, trace_op

aten = torch.ops.aten


def check(fn, *args, exact: bool = True) -> None:
    """The traced graph computes what eager does, without the op itself, and can be encoded."""
    gm = trace_op(fn, args)
    ops = {str(node.target) for node in gm.graph.nodes if node.op == "call_function"}
    assert not any("quant" in op or "_scaled_mm" in op or "int8pack" in op for op in ops), ops
    expected = fn(*args)
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    close = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-4, "atol": 1e-4}
    for got, want in zip(gm(*args), expected, strict=True):
        torch.testing.assert_close(got.float(), want.float(), equal_nan=True, **close)
        assert got.dtype == want.dtype
    encode_op(fn, args)


def values(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.cat([torch.linspace(-9, 9, 61), torch.tensor([1e30, -1e30, 0.05, -0.05])]).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fake_quantisation_of_a_tensor(dtype: torch.dtype) -> None:
    check(lambda x: aten.fake_quantize_per_tensor_affine_cachemask.default(x, 0.1, 3, -20, 30), values(dtype))


def test_fake_quantisation_of_what_is_no_number() -> None:
    x = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.3])
    check(lambda x: aten.fake_quantize_per_tensor_affine_cachemask.default(x, 0.1, 3, -20, 30), x)


@pytest.mark.parametrize("enabled", [0, 1])
def test_fake_quantisation_by_tensors(enabled: int) -> None:
    op = aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default
    arguments = torch.tensor([0.1]), torch.tensor([3], dtype=torch.int32), torch.tensor([enabled])
    check(lambda x, s, z, e: op(x, s, z, e, -20, 30), values(), *arguments)


def test_fake_quantisation_of_channels() -> None:
    op = aten.fake_quantize_per_channel_affine_cachemask.default
    scale, zero = torch.tensor([0.1, 0.25, 3.0]), torch.tensor([0, -5, 7], dtype=torch.int32)
    check(lambda x, s, z: op(x, s, z, 1, -20, 30), torch.randn(4, 3, 5) * 9, scale, zero)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_product_with_an_int8_weight(dtype: torch.dtype) -> None:
    weight = torch.randint(-128, 128, (16, 32), dtype=torch.int8)
    op = aten._weight_int8pack_mm.default
    check(op, torch.randn(5, 32).to(dtype), weight, torch.rand(16).to(dtype), exact=False)


@pytest.mark.parametrize("out", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
def test_a_product_of_float8(out: torch.dtype, bias: bool) -> None:
    left, right = torch.randn(16, 32).to(torch.float8_e4m3fn), torch.randn(16, 32).to(torch.float8_e4m3fn).t()
    extra = [torch.randn(16).to(out)] if bias else []

    def fn(a, b, sa, sb, *rest):
        return aten._scaled_mm.default(a, b, sa, sb, *(rest or [None]), None, out)

    check(fn, left, right, torch.tensor(0.5), torch.tensor(2.0), *extra, exact=False)


def test_the_decomposed_ops_of_torch_ao() -> None:
    import torch.ao.quantization.fx._decomposed  # noqa: F401

    assert quantised.is_known()
    ops = torch.ops.quantized_decomposed
    scales, zeros = torch.tensor([0.1, 0.2, 0.5], dtype=torch.float64), torch.tensor([0, 3, -2])
    rows = torch.randn(3, 8) * 5
    int8 = (-128, 127, torch.int8)
    check(lambda x: ops.quantize_per_tensor.default(x, 0.07, 4, *int8), rows)
    check(lambda x, s, z: ops.quantize_per_tensor.tensor(x, s, z, *int8), rows, torch.tensor(0.07), torch.tensor(4))
    check(lambda x, s, z: ops.quantize_per_channel.default(x, s, z, 0, *int8), rows, scales, zeros)
    whole = torch.randint(-128, 128, (3, 8), dtype=torch.int8)
    check(lambda x: ops.dequantize_per_tensor.default(x, 0.07, 4, *int8), whole)
    check(lambda x, s, z: ops.dequantize_per_tensor.tensor(x, s, z, *int8), whole, torch.tensor(0.07), torch.tensor(4))
    check(lambda x, s, z: ops.dequantize_per_channel.default(x, s, z, 0, *int8), whole, scales, zeros)
    check(lambda x: ops.choose_qparams_per_token.default(x, torch.int8), rows, exact=False)
    tokens = torch.rand(3, 1, dtype=torch.float64) + 0.1, torch.zeros(3, 1, dtype=torch.int64)
    check(lambda x, s, z: ops.quantize_per_token.default(x, s, z, *int8), rows, *tokens)


def test_packed_int4_weights_stay_whole() -> None:
    assert not [op for op in quantised.table(False) if "int4" in str(op)]
