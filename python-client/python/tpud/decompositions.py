"""Which ATen ops are taken apart in the client (ATen to ATen), and which reach the server whole.

The table starts from torch's own core decompositions. `KEEP` names the ops that the server lowers better whole,
`TORCH` adds decompositions that torch has but does not count as core, and `OWN` holds ours, as do `linear_algebra.py`
and `neural.py`. An op is either in the table, and then it never reaches the server, or it is not, and then the server
needs a lowering for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tpud import linear_algebra, neural, quantised
from tpud.checks import checked

aten = torch.ops.aten
prims = torch.ops.prims

# Whole, although core decomposes them: one StableHLO op or a short emission, with better numerics or fewer nodes.
KEEP: dict[str, tuple[str, ...]] = {
    "attention": ("_scaled_dot_product_flash_attention_for_cpu",),
    "activations": ("silu", "hardswish", "hardsigmoid", "softplus", "log_sigmoid_forward"),
    "arithmetic": ("addcmul", "addcdiv", "baddbmm", "lerp", "rsub", "floor_divide", "clamp_min", "clamp_max", "sgn"),
    "selection": ("masked_fill", "tril", "triu", "roll", "index_add", "index_copy", "index_fill"),
    # The copy of a constant is one only by name (`tpud.capture`), and inside of a branch only torch's own op takes a
    # constant that is a real tensor.
    "construction": ("eye", "stack", "linspace", "diag_embed", "lift_fresh_copy"),
    "reductions": ("all", "linalg_vector_norm", "aminmax", "count_nonzero", "std", "std_mean"),
    "padding and resampling": (
        "reflection_pad1d",
        "reflection_pad2d",
        "reflection_pad3d",
        "replication_pad1d",
        "replication_pad2d",
        "replication_pad3d",
        "upsample_nearest1d",
        "upsample_nearest2d",
        "upsample_nearest3d",
        "upsample_linear1d",
        "upsample_bilinear2d",
        "upsample_trilinear3d",
        "upsample_bicubic2d",
    ),
}

# Taken apart with torch's own decomposition, although core keeps them. `split_with_sizes` must never be here: its
# decomposition in torch 2.15 is `as_strided`.
TORCH: dict[str, tuple[str, ...]] = {
    "batch norm variants": (
        "_batch_norm_with_update",
        "_batch_norm_with_update_functional",
        "_batch_norm_no_update",
        "batch_norm_backward",
    ),
    "matrix times vector": ("addmv",),
    "views that copy": ("narrow_copy", "view_copy", "permute_copy", "unbind_copy"),
    "rare arithmetic": (
        "_addmm_activation",
        "bitwise_and.Scalar_Tensor",
        "bitwise_or.Scalar_Tensor",
        "bitwise_xor.Scalar_Tensor",
        "dist",
        "polar",
        "tril_indices",
        "triu_indices",
        "ldexp",
    ),
}


def _empty(size: Sequence[int], *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> Tensor:
    """Uninitialised memory is zero here: the same program gives the same numbers every time."""
    return aten.full.default(size, 0, dtype=dtype or torch.get_default_dtype(), device=device)


def _empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **options: Any) -> Tensor:
    dense = _empty([size[dim] for dim in physical_layout], **options)
    return dense.permute([list(physical_layout).index(dim) for dim in range(len(size))])


def _empty_strided(size: Sequence[int], stride: Sequence[int], **options: Any) -> Tensor:
    layout = sorted(range(len(size)), key=lambda dim: -stride[dim])
    return _empty_permuted(size, layout, **options)


def _new_empty(self: Tensor, size: Sequence[int], *, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
    return _empty(size, dtype=dtype or self.dtype, device=device or self.device)


def _new_empty_strided(self: Tensor, size: Any, stride: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
    return _empty_strided(size, stride, dtype=dtype or self.dtype, device=device or self.device)


def _copy(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    return src.to(self.dtype).expand(self.shape).clone()


def _as_strided(self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:
    """Over the flat storage, when that is known: `self` fills it without gaps or overlap, in some order.

    Values are row-major in the graph, so what reaches the server is an `as_strided` of a contiguous tensor.
    """
    offset = self.storage_offset() if storage_offset is None else storage_offset
    if self.storage_offset() != 0 or (self.is_contiguous() and storage_offset is not None):
        return NotImplemented
    order = sorted(range(self.dim()), key=lambda dim: -self.stride(dim))
    flat = self.permute(order)
    if not flat.is_contiguous():
        return NotImplemented
    return aten.as_strided.default(flat, size, stride, offset)


def _diagonal_scatter(self: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Chooses between `self` and `src`, which is spread over rows or columns first."""
    moved = self.movedim((dim1, dim2), (-2, -1))
    rows, columns = moved.shape[-2:]
    diagonal = torch.arange(columns, device=self.device) - torch.arange(rows, device=self.device).unsqueeze(1) == offset
    across, down = (-1, rows) if offset >= 0 else (-2, columns)
    spread = aten.constant_pad_nd.default(src.to(self.dtype), [0, down - src.size(-1)], 0).unsqueeze(across)
    return torch.where(diagonal, spread, moved).movedim((-2, -1), (dim1, dim2))


def _as_strided_copy(
    self: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    return torch.as_strided(self, size, stride, storage_offset).clone(memory_format=torch.contiguous_format)


def _memory_end(size: Sequence[int], stride: Sequence[int], offset: int) -> int:
    return offset + 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if 0 not in size else 0


def _as_strided_scatter(
    self: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """Into the memory that the tensor's elements lie in, and back; what is written beside them is lost."""
    first, own = self.storage_offset(), self.stride()
    offset = first if storage_offset is None else storage_offset
    length = max(_memory_end(self.shape, own, first), _memory_end(size, stride, offset))
    places = torch.arange(length, device=self.device)
    if first == 0 and self.is_contiguous() and length == self.numel():
        memory = self.reshape(-1)
    else:
        memory = aten.full.default([length], 0, dtype=self.dtype, device=self.device)
        memory = aten.index_put.default(memory, [places.as_strided(self.shape, own, first).reshape(-1)], self.reshape(-1))
    written = places.as_strided(size, stride, offset).reshape(-1)
    memory = aten.index_put.default(memory, [written], src.to(self.dtype).reshape(-1))
    return memory.as_strided(self.shape, own, first).clone(memory_format=torch.contiguous_format)


def _group_mask(offsets: Tensor, rows: int) -> Tensor:
    """[groups, rows]: which rows belong to which group, from the running ends of the groups."""
    row = torch.arange(rows, dtype=offsets.dtype, device=offsets.device)
    start = torch.cat([offsets.new_zeros(1), offsets[:-1]])
    return (row >= start.unsqueeze(1)) & (row < offsets.unsqueeze(1))


def _grouped_rows(rows: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    """Each row times the matrix of its group."""
    custom = getattr(torch.ops.transformers, "grouped_mm_fallback", None)
    if custom is not None:
        # transformers' op is the one that the server has a lowering for, whose work grows with the rows only.
        return custom.default(rows, weight, offsets)
    # Every group multiplies all rows, the foreign ones zeroed.
    mask = _group_mask(offsets, rows.size(0)).unsqueeze(-1)
    masked = torch.where(mask, rows.unsqueeze(0), rows.new_zeros(()))
    return torch.bmm(masked, weight).sum(0, dtype=rows.dtype)


def _grouped_columns(left: Tensor, right: Tensor, offsets: Tensor) -> Tensor:
    """[groups, m, n]: `left[:, group] @ right[group]`, one product for each group of the shared dimension."""
    mask = _group_mask(offsets, right.size(0)).unsqueeze(-1)
    masked = torch.where(mask, right.unsqueeze(0), right.new_zeros(()))
    clean = torch.where(mask.transpose(1, 2), left.unsqueeze(0), left.new_zeros(()))
    return torch.bmm(clean, masked)


def _grouped_mm(
    self: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: torch.dtype | None = None
) -> Tensor:
    if offs is None:
        out = torch.bmm(self, mat2)
    elif self.dim() == 2 and mat2.dim() == 3:
        out = _grouped_rows(self, mat2, offs)
    elif self.dim() == 3 and mat2.dim() == 2:
        out = _grouped_rows(mat2.t(), self.transpose(1, 2), offs).t()
    else:
        out = _grouped_columns(self, mat2, offs)
    out = out if bias is None else out + bias
    return out if out_dtype is None else out.to(out_dtype)


def _convert_element_type(a: Tensor, dtype: torch.dtype) -> Tensor:
    return aten._to_copy.default(a, dtype=dtype)


def _iota(length: int, *, start: int, step: int, dtype: torch.dtype, device: Any, requires_grad: bool) -> Tensor:
    return aten.arange.start_step(start, start + length * step, step, dtype=dtype, device=device)


OWN: dict[Any, Callable[..., Any]] = {
    # Memory that torch leaves uninitialised.
    aten.empty.memory_format: _empty,
    aten.empty_permuted.default: _empty_permuted,
    aten.empty_strided.default: _empty_strided,
    aten.new_empty.default: _new_empty,
    aten.new_empty_strided.default: _new_empty_strided,
    # Storage tricks in terms of values.
    aten.copy.default: _copy,
    aten.as_strided.default: _as_strided,
    aten.as_strided_copy.default: _as_strided_copy,
    aten.as_strided_scatter.default: _as_strided_scatter,
    aten.diagonal_scatter.default: _diagonal_scatter,
    aten._grouped_mm.default: _grouped_mm,
    # prims that torch's own decompositions leave behind.
    prims.convert_element_type.default: _convert_element_type,
    prims.iota.default: _iota,
}


def _overloads(name: str) -> list[Any]:
    packet, _, overload = name.partition(".")
    op = getattr(aten, packet)
    return [getattr(op, overload)] if overload else [getattr(op, each) for each in op.overloads()]


def decompositions(checks: bool = False) -> dict[Any, Callable[..., Any]]:
    """The whole table. With `checks` it also asserts what eager PyTorch checks in ops that are taken apart."""
    return _table(quantised.is_known(), checks)


@functools.cache
def _table(with_quantised: bool, checks: bool) -> dict[Any, Callable[..., Any]]:
    from torch._decomp import _core_aten_decompositions_post_autograd, decomposition_table

    table = dict(_core_aten_decompositions_post_autograd())
    for names in KEEP.values():
        for name in names:
            for op in _overloads(name):
                table.pop(op, None)
    for names in TORCH.values():
        for name in names:
            table.update({op: decomposition_table[op] for op in _overloads(name) if op in decomposition_table})
    table.update(OWN)
    table.update(linear_algebra.DECOMPOSITIONS)
    table.update(neural.DECOMPOSITIONS)
    table.update(quantised.table(with_quantised))
    return checked(table) if checks else table
