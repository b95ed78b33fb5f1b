"""Decompositions of quantised and 8-bit ops: what is stored narrow is widened, computed in f32 and narrowed again.

Products of int8 matrices reach the server whole (`aten._int_mm`). torch's packed int4 formats depend on the processor
that packed them, and are not taken apart.
"""

from __future__ import annotations

import functools
import math
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

_MODULE = "torch.ao.quantization.fx._decomposed"
_F8 = frozenset({torch.float8_e4m3fn, torch.float8_e5m2})


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _inverse(scale: float) -> float:
    """1 / scale, both as f32."""
    single = struct.unpack("f", struct.pack("f", scale))[0]
    return struct.unpack("f", struct.pack("f", 1.0 / single))[0] if single else math.inf


def _weight_int8pack_mm(self: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    wide = _wide(self.dtype)
    return (torch.mm(self.to(wide), mat2.to(wide).t()) * scales.to(wide)).to(self.dtype)


def _scaled_mm(
    self: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Any:
    """One scale for a matrix, or one for each row of the left and each column of the right."""
    rows, columns = self.size(0), mat2.size(1)
    if scale_a.dtype != torch.float32 or (scale_a.numel() != 1 and scale_a.numel() != rows):
        return NotImplemented  # scales of blocks
    if scale_b.dtype != torch.float32 or (scale_b.numel() != 1 and scale_b.numel() != columns):
        return NotImplemented
    left = self.to(torch.float32) * scale_a.reshape(-1, 1)
    right = mat2.to(torch.float32) * scale_b.reshape(1, -1)
    out = torch.mm(left, right)
    if bias is not None:
        out = out + bias.to(torch.float32)
    dtype = out_dtype or self.dtype
    if scale_result is not None and dtype in _F8:
        out = out * scale_result.reciprocal()
    return out.to(dtype)


def _fake(self: Tensor, scale: Any, inverse: Any, zero: Any, low: int, high: int) -> tuple[Tensor, Tensor]:
    """What quantising and back gives, and where nothing was cut off. NaN becomes the lowest value, as in torch."""
    wide = self.to(_wide(self.dtype))
    place = torch.round(wide * inverse) + zero
    place = torch.where(place.isnan(), -math.inf, place)
    output = (place.clamp(low, high) - zero) * scale
    return output.to(self.dtype), (place >= low) & (place <= high)


def _fake_per_tensor(self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int) -> Any:
    return _fake(self, scale, _inverse(scale), zero_point, quant_min, quant_max)


def _fake_by_tensors(
    self: Tensor, scale: Tensor, zero_point: Tensor, fake_quant_enabled: Tensor, quant_min: int, quant_max: int
) -> Any:
    scale, zero = scale.reshape(()).to(torch.float32), zero_point.reshape(()).to(torch.float32)
    output, mask = _fake(self, scale, scale.reciprocal(), zero, quant_min, quant_max)
    enabled = fake_quant_enabled.reshape(()) != 0
    return torch.where(enabled, output, self), mask | ~enabled


def _fake_per_channel(self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int) -> Any:
    if zero_point.is_floating_point():
        return NotImplemented  # torch rounds after adding such a zero point
    sizes = [-1 if dim == axis % self.dim() else 1 for dim in range(self.dim())]
    scale, zero = scale.to(torch.float32).reshape(sizes), zero_point.to(torch.float32).reshape(sizes)
    return _fake(self, scale, scale.reciprocal(), zero, quant_min, quant_max)


def _quantise(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: Any, quant_max: Any, dtype: torch.dtype
) -> Tensor:
    """With the parameters of one quantisation as tensors. torch reads them as Python numbers, of 64 bits."""
    wide = input.to(_wide(input.dtype))
    inverse = scale.reshape(()).to(torch.float64).reciprocal().to(wide.dtype)
    place = torch.round(wide * inverse) + zero_point.reshape(()).to(wide.dtype)
    low, high = (each.reshape(()).to(wide.dtype) if isinstance(each, Tensor) else each for each in (quant_min, quant_max))
    return torch.clamp(place, low, high).to(dtype)


def _dequantise(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: Any,
    quant_max: Any,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    wide = torch.float32 if out_dtype is None else out_dtype
    return (input.to(wide) - zero_point.reshape(()).to(wide)) * scale.reshape(()).to(wide)


_ATEN: dict[Any, Callable[..., Any]] = {
    aten._weight_int8pack_mm.default: _weight_int8pack_mm,
    aten._scaled_mm.default: _scaled_mm,
    aten.fake_quantize_per_tensor_affine_cachemask.default: _fake_per_tensor,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _fake_by_tensors,
    aten.fake_quantize_per_channel_affine_cachemask.default: _fake_per_channel,
}

# Ops of torch.ao whose Python implementation is their decomposition. Those that choose parameters for a whole tensor
# are not here: they look at its values from Python.
_DECOMPOSED: Sequence[tuple[str, str, str]] = (
    ("quantize_per_tensor", "default", "quantize_per_tensor"),
    ("dequantize_per_tensor", "default", "dequantize_per_tensor"),
    ("quantize_per_channel", "default", "quantize_per_channel"),
    ("dequantize_per_channel", "default", "dequantize_per_channel"),
    ("quantize_per_token", "default", "quantize_per_token"),
    ("dequantize_per_token", "default", "dequantize_per_token"),
    ("quantize_per_channel_group", "default", "quantize_per_channel_group"),
    ("dequantize_per_channel_group", "default", "dequantize_per_channel_group"),
    ("choose_qparams_per_token", "default", "choose_qparams_per_token"),
    ("convert_element_type", "no_fuse", "convert_element_type"),
)


def is_known() -> bool:
    """Whether the ops of `torch.ao`'s decomposed quantisation exist in this process."""
    return _MODULE in sys.modules


@functools.cache
def table(with_decomposed: bool) -> dict[Any, Callable[..., Any]]:
    """The decompositions, with those of `quantized_decomposed` ops if that library is loaded."""
    found = dict(_ATEN)
    if with_decomposed:
        module, ops = sys.modules[_MODULE], torch.ops.quantized_decomposed
        for name, overload, function in _DECOMPOSED:
            found[getattr(getattr(ops, name), overload)] = getattr(module, function)
        for overload in ("tensor", "tensor2"):
            found[getattr(ops.quantize_per_tensor, overload)] = _quantise
            found[getattr(ops.dequantize_per_tensor, overload)] = _dequantise
    return found
