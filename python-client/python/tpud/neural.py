"""Decompositions of what neural networks use and torch has no decomposition for (ATen to ATen)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _weight_norm_backward(grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Gradients of `v * g / norm(v)`, the norm being over every dimension but `dim`; computed in the norms' type."""
    others = [each for each in range(saved_v.dim()) if each != dim % saved_v.dim()]
    dtype = saved_norms.dtype
    grad, v, g = grad_w.to(dtype), saved_v.to(dtype), saved_g.to(dtype)
    along = (grad * v).sum(others, keepdim=True) if others else grad * v
    grad_v = g / saved_norms * (grad - v * along / (saved_norms * saved_norms))
    return grad_v.to(saved_v.dtype), (along / saved_norms).to(saved_g.dtype)


def _trilinear(
    i1: Tensor, i2: Tensor, i3: Tensor, expand1: Sequence[int], expand2: Sequence[int], expand3: Sequence[int],
    sumdim: Sequence[int], unroll_dim: int = 1,
) -> Tensor:
    """The product of three tensors, each first given dimensions of size 1, summed over `sumdim`: two contractions."""
    rank = i1.dim() + len(expand1)
    letters = [chr(ord("a") + each) for each in range(rank)]
    summed = {each % rank for each in sumdim}

    def name(expanded: Sequence[int]) -> str:
        added = {each % rank for each in expanded}
        return "".join(letter for each, letter in enumerate(letters) if each not in added)

    result = "".join(letter for each, letter in enumerate(letters) if each not in summed)
    return torch.einsum(f"{name(expand1)},{name(expand2)},{name(expand3)}->{result}", i1, i2, i3)


def _embedding_renorm(self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Rows that are looked up and longer than `max_norm` are scaled down to it."""
    used = torch.zeros(self.size(0), dtype=torch.bool, device=self.device)
    used = aten.index_put.default(used, [indices.reshape(-1)], torch.ones((), dtype=torch.bool, device=self.device))
    norms = aten.linalg_vector_norm.default(self, norm_type, [1], True)
    shorter = (self * (max_norm / (norms + 1e-7))).to(self.dtype)
    return torch.where(used.unsqueeze(1) & (norms > max_norm), shorter, self)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten._weight_norm_interface_backward.default: _weight_norm_backward,
    aten._trilinear.default: _trilinear,
    aten.embedding_renorm.default: _embedding_renorm,
}
