"""How the outputs of a compiled graph become the tensors that PyTorch expects."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

# What may stand between a value and another one that is an alias of it.
VIEWS = frozenset(
    {
        aten.view.default,
        aten._unsafe_view.default,
        aten.permute.default,
        aten.slice.Tensor,
        aten.select.int,
        aten.unsqueeze.default,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.expand.default,
        aten.diagonal.default,
        aten.split_with_sizes.default,
        aten.split.Tensor,
        aten.unbind.int,
        aten.unfold.default,
        aten.t.default,
        aten.transpose.int,
        aten.view_as_real.default,
        aten.view_as_complex.default,
        operator.getitem,
    }
)


@dataclasses.dataclass(frozen=True)
class Constant:
    """An output that is always the same: None or a number."""

    value: Any


@dataclasses.dataclass(frozen=True)
class Literal:
    """A tensor constant; every call returns a copy of its own."""

    tensor: torch.Tensor


@dataclasses.dataclass(frozen=True)
class Computed:
    """An output of the executable; `strides` is set when torch expects other ones than dense row-major, `offset` when
    it has to begin further on in its memory."""

    index: int
    strides: tuple[int, ...] | None
    offset: int = 0


@dataclasses.dataclass(frozen=True)
class Given:
    """An input, itself or as a copy."""

    index: int
    copy: bool


@dataclasses.dataclass(frozen=True)
class View:
    """A view of an input, or of another output: the same view ops run on the real tensor, so that it is an alias
    with the offset and strides that torch expects."""

    base: Computed | Given
    steps: tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...]


Plan = Constant | Literal | Computed | Given | View


def plan_outputs(gm: fx.GraphModule, aliases: Sequence[bool], fresh: range) -> tuple[list[Plan], list[fx.Node]]:
    """A plan for each output of `gm`, and the nodes that have to be computed.

    `aliases[i]` says that AOTAutograd regards output i as an alias of an input, so that it has to be one; outputs in
    `fresh` must not share memory with an input otherwise. Outputs that are views of one value share memory, as in
    eager PyTorch.
    """
    output = next(iter(reversed(gm.graph.nodes)))
    flat = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
    placeholders = {node: index for index, node in enumerate(gm.graph.nodes) if node.op == "placeholder"}
    chains = [_chain(value) if isinstance(value, fx.Node) else None for value in flat]
    groups: dict[tuple[fx.Node, bool], list[fx.Node]] = {}
    for index, chain in enumerate(chains):
        if chain is not None:
            groups.setdefault((chain[0], index in fresh), []).append(flat[index])
    computed: dict[fx.Node, Computed] = {}
    plans: list[Plan] = []
    for index, (value, chain) in enumerate(zip(flat, chains, strict=True)):
        if chain is None:
            plans.append(Constant(value))
            continue
        root, steps = chain
        may_alias = index not in fresh or (index < len(aliases) and aliases[index])
        if root in placeholders and (may_alias or not steps):
            known = root.meta.get("val")
            given = Given(placeholders[root], copy=not may_alias)
            plans.append((View(given, steps) if steps else given) if isinstance(known, torch.Tensor) else Constant(known))
        elif root.op == "get_attr" and not steps:
            plans.append(Literal(functools.reduce(getattr, root.target.split("."), gm)))
        elif steps and root.op == "call_function" and _share(groups[root, index in fresh]):
            plans.append(View(_computed(root, computed), steps))
        else:
            plan = _computed(value, computed)
            # AOTAutograd makes the alias from our output's sizes, strides and offset.
            aliased = index < len(aliases) and aliases[index]
            plans.append(dataclasses.replace(plan, offset=value.meta["val"].storage_offset()) if aliased else plan)
    return plans, list(computed)


def _chain(node: fx.Node) -> tuple[fx.Node, tuple[Any, ...]]:
    """The value that `node` is a view of, and the ops from there to `node`."""
    steps = []
    while node.target in VIEWS and isinstance(node.args[0], fx.Node):
        if node.target is operator.getitem and node.args[0].target not in VIEWS:
            break
        steps.append((node.target, tuple(node.args[1:]), dict(node.kwargs)))
        node = node.args[0]
    return node, tuple(reversed(steps))


def _share(views: Sequence[fx.Node]) -> bool:
    """Whether some of these views of one value may have elements in common."""
    ranges = sorted(_range(node.meta["val"]) for node in views)
    return any(start <= end for (_, end), (start, _) in itertools.pairwise(ranges))


def _range(value: torch.Tensor) -> tuple[int, int]:
    first = value.storage_offset()
    reach = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True) if size)
    return first, first + reach


def _computed(node: fx.Node, computed: dict[fx.Node, Computed]) -> Computed:
    if node not in computed:
        value = node.meta["val"]
        strides = tuple(value.stride())
        dense = dense_strides(value.shape)
        pairs = [(a, b) for size, a, b in zip(value.shape, strides, dense, strict=True) if size != 1]
        same = value.numel() == 0 or all(a == b for a, b in pairs)
        computed[node] = Computed(len(computed), None if same else strides)
    return computed[node]


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


def apply(plan: Plan, args: Sequence[Any], results: Sequence[torch.Tensor]) -> Any:
    """The tensor (or constant) of one output."""
    if type(plan) is Computed:
        result = results[plan.index]
        if plan.offset:
            return shift(result, plan.strides or result.stride(), plan.offset)
        return result if plan.strides is None else restride(result, plan.strides)
    if type(plan) is Given:
        return args[plan.index].clone() if plan.copy else args[plan.index]
    if type(plan) is View:
        value = apply(plan.base, args, results)
        for op, rest, options in plan.steps:
            value = op(value, *rest, **options)
        return value
    if type(plan) is Literal:
        return plan.tensor.clone()
    return plan.value
