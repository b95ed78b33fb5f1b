"""How the outputs of a compiled graph become the tensors that PyTorch expects."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import fx

from tpud.layout import dense_strides, restride, shift
from tpud.saved import Held, SavedTensor, on_host

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
class Saved:
    """An output of the executable for the backward pass: it stays on the device. `strides` are those that torch
    expects of the tensor that stands for it."""

    index: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype


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


Plan = Constant | Literal | Computed | Saved | Given | View


@dataclasses.dataclass
class Plans:
    """A plan for each output of a graph, and the nodes that these are made of."""

    plans: list[Plan]
    computed: list[fx.Node]  # wanted on the host
    saved: list[fx.Node]  # wanted on the device

    @property
    def nodes(self) -> list[fx.Node]:
        """All that has to be computed."""
        return list(dict.fromkeys(self.computed + self.saved))


def plan_outputs(
    gm: fx.GraphModule, aliases: Sequence[bool], fresh: range, saved: range = range(0), mutated: Collection[int] = ()
) -> Plans:
    """How the outputs of `gm` come about.

    `aliases[i]` says that AOTAutograd regards output i as an alias of an input, so that it has to be one; outputs in
    `fresh` must not share memory with an input otherwise. Outputs that are views of one value share memory, as in
    eager PyTorch. Outputs in `saved` are for the backward pass, which wants them as they were before the inputs in
    `mutated` were written to.
    """
    output = next(iter(reversed(gm.graph.nodes)))
    flat = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
    placeholders = {node: index for index, node in enumerate(gm.graph.nodes) if node.op == "placeholder"}
    chains = [_chain(value) if isinstance(value, fx.Node) else None for value in flat]
    groups: dict[tuple[fx.Node, bool], list[fx.Node]] = {}
    for index, chain in enumerate(chains):
        if chain is not None and index not in saved:
            groups.setdefault((chain[0], index in fresh), []).append(flat[index])
    computed: dict[fx.Node, Computed] = {}
    kept: dict[fx.Node, Saved] = {}
    plans: list[Plan] = []
    for index, (value, chain) in enumerate(zip(flat, chains, strict=True)):
        if chain is None:
            plans.append(Constant(value))
            continue
        root, steps = chain
        may_alias = index not in fresh or (index < len(aliases) and aliases[index])
        if root in placeholders and (may_alias or not steps):
            known = root.meta.get("val")
            position = placeholders[root]
            given = Given(position, copy=not may_alias or (index in saved and position in mutated))
            plans.append((View(given, steps) if steps else given) if isinstance(known, torch.Tensor) else Constant(known))
        elif root.op == "get_attr" and not steps:
            plans.append(Literal(functools.reduce(getattr, root.target.split("."), gm)))
        elif index in saved:
            plans.append(kept.setdefault(value, _saved(value, len(kept))))
        elif steps and root.op == "call_function" and _share(groups[root, index in fresh]):
            plans.append(View(_computed(root, computed), steps))
        else:
            plan = _computed(value, computed)
            # AOTAutograd makes the alias from our output's sizes, strides and offset.
            aliased = index < len(aliases) and aliases[index]
            plans.append(dataclasses.replace(plan, offset=value.meta["val"].storage_offset()) if aliased else plan)
    return Plans(plans, list(computed), list(kept))


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


def _saved(node: fx.Node, index: int) -> Saved:
    value = node.meta["val"]
    return Saved(index, tuple(value.shape), tuple(value.stride()), value.dtype)


def apply(plan: Plan, args: Sequence[Any], results: Sequence[torch.Tensor], kept: Sequence[Any] = ()) -> Any:
    """The tensor (or constant) of one output. `results` are the computed values, `kept` those saved for backward:
    `Held` where a piece made them, a tensor where eager PyTorch did."""
    if type(plan) is Computed:
        result = results[plan.index]
        if plan.offset:
            return shift(result, plan.strides or result.stride(), plan.offset)
        return result if plan.strides is None else restride(result, plan.strides)
    if type(plan) is Saved:
        value = kept[plan.index]
        if type(value) is Held:
            return SavedTensor(value, plan.sizes, plan.strides, plan.dtype)
        return value
    if type(plan) is Given:
        value = on_host(args[plan.index])
        return value.clone() if plan.copy else value
    if type(plan) is View:
        value = apply(plan.base, args, results)
        for op, rest, options in plan.steps:
            value = op(value, *rest, **options)
        return value
    if type(plan) is Literal:
        return plan.tensor.clone()
    return plan.value
