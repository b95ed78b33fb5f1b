"""Dense values under other strides: what torch expects of a tensor's memory, and what the server gives."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def fills_memory(value: torch.Tensor) -> bool:
    """Whether a value's memory is what the server sees: its elements in order, from the start."""
    return value.is_contiguous() and value.storage_offset() == 0


def dense_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, as torch counts them: an empty dimension counts as one."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * max(size, 1))
    return tuple(reversed(strides)) if sizes else ()


def restride(dense: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The same values under other strides; expanded dimensions (stride 0) stay expanded."""
    sizes = dense.shape
    if any(stride == 0 and size > 1 for size, stride in zip(sizes, strides, strict=True)):
        kept = [1 if stride == 0 else size for size, stride in zip(sizes, strides, strict=True)]
        corner = dense[tuple(slice(0, size) for size in kept)]
        inner = tuple(stride or 1 for stride in strides)
        return restride(corner, inner).expand(sizes)
    if _overlaps(sizes, strides):
        return _overlapping(dense, strides, 0)
    result = torch.empty_strided(sizes, strides, dtype=dense.dtype)
    return result.copy_(dense)


def _overlapping(dense: torch.Tensor, strides: tuple[int, ...], offset: int) -> torch.Tensor:
    """The same values in memory that several of them share, because they are windows of one value."""
    reach = sum((size - 1) * stride for size, stride in zip(dense.shape, strides, strict=True))
    places = torch.arange(offset + reach + 1).as_strided(dense.shape, strides, offset)
    memory = torch.empty(offset + reach + 1, dtype=dense.dtype)
    memory[places.reshape(-1)] = dense.reshape(-1)
    return memory.as_strided(dense.shape, strides, offset)


def shift(dense: torch.Tensor, strides: tuple[int, ...], offset: int) -> torch.Tensor:
    """The same values under other strides, `offset` elements into their memory."""
    if 0 not in strides and _overlaps(dense.shape, strides):
        return _overlapping(dense, strides, offset)
    placed = restride(dense, strides)
    kept = placed[tuple(slice(0, 1 if stride == 0 else None) for stride in placed.stride())]
    reach = sum((size - 1) * stride for size, stride in zip(placed.shape, placed.stride(), strict=True) if size)
    memory = torch.empty(offset + reach + 1, dtype=dense.dtype)
    memory.as_strided(kept.shape, placed.stride(), offset).copy_(kept)
    return memory.as_strided(placed.shape, placed.stride(), offset)


def _overlaps(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    reach = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size > 1 and stride <= reach:
            return True
        reach += (size - 1) * stride
    return False
