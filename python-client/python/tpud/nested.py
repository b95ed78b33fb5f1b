"""Graphs inside of graphs: the higher-order ops that can be compiled, and what is done to their graphs before that."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

hops = torch.ops.higher_order


@dataclasses.dataclass(frozen=True)
class Signature:
    """The arguments of a higher-order op in order: "graph", "predicate" or "tensors", by their names in the contract."""

    op: str
    arguments: tuple[tuple[str, str], ...]
    # Which lists of tensors a nested graph gets, one after the other.
    passed: tuple[str, ...]

    def position(self, name: str) -> int:
        """The index of an argument."""
        return [each for each, _ in self.arguments].index(name)


def _signature(op: str, arguments: str, passed: str) -> Signature:
    pairs = tuple((name, kind) for name, _, kind in (each.partition(":") for each in arguments.split()))
    return Signature(f"higher_order.{op}", pairs, tuple(passed.split()))


# What the server has lowerings for. The last list is where further operands can be added.
SIGNATURES: dict[Any, Signature] = {
    hops.cond: _signature("cond", "pred:predicate true_fn:graph false_fn:graph operands:tensors", "operands"),
    hops.while_loop: _signature(
        "while_loop",
        "cond_fn:graph body_fn:graph carried_inputs:tensors additional_inputs:tensors",
        "carried_inputs additional_inputs",
    ),
    hops.scan: _signature(
        "scan", "combine_fn:graph init:tensors xs:tensors additional_inputs:tensors", "init xs additional_inputs"
    ),
    hops.map_impl: _signature("map_impl", "f:graph xs:tensors pos_args:tensors", "xs pos_args"),
    hops.associative_scan: _signature(
        "associative_scan", "combine_fn:graph xs:tensors additional_inputs:tensors", "xs xs additional_inputs"
    ),
}

# Ops that only run their graph: (index of the graph, index of its first operand).
INLINED: dict[Any, tuple[int, int]] = {hops.invoke_subgraph: (0, 2)}


def attribute(gm: torch.nn.Module, target: str) -> Any:
    """What a `get_attr` node stands for."""
    return functools.reduce(getattr, target.split("."), gm)


def graphs(gm: fx.GraphModule) -> Iterator[fx.GraphModule]:
    """The graphs directly inside of `gm`."""
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            value = attribute(gm, node.target)
            if isinstance(value, fx.GraphModule):
                yield value


def all_nodes(gm: fx.GraphModule) -> Iterator[fx.Node]:
    """The nodes of a graph and of all graphs inside of it."""
    yield from gm.graph.nodes
    for inner in graphs(gm):
        yield from all_nodes(inner)


def is_pure(gm: fx.GraphModule, node: fx.Node) -> bool:
    """Whether an op of `gm` has no effect beside its results."""
    target = node.target
    if target is operator.getitem:
        return True
    if isinstance(target, torch._ops.OpOverload):
        return bool(not target._schema.is_mutable and target._schema.returns)
    if target not in SIGNATURES:
        return False
    inner = [attribute(gm, each.target) for each in node.all_input_nodes if each.op == "get_attr"]
    return all(
        is_pure(each, op)
        for each in inner
        if isinstance(each, fx.GraphModule)
        for op in each.graph.nodes
        if op.op == "call_function"
    )


def close(gm: fx.GraphModule) -> None:
    """Gives every nested graph of `gm` all that it reads as operands: its tensor constants too, and no numbers, which
    are put where they are used. Changes `gm`, whose nested graphs must be its own."""
    for node in list(gm.graph.nodes):
        signature = SIGNATURES.get(node.target)
        if signature is not None and not node.kwargs:
            _close_node(gm, node, signature)
    for node in list(gm.graph.nodes):
        if node.op == "get_attr" and not node.users:
            gm.graph.erase_node(node)
    gm.recompile()


def _close_node(gm: fx.GraphModule, node: fx.Node, signature: Signature) -> None:
    inner = [attribute(gm, node.args[signature.position(name)].target) for name, kind in signature.arguments if kind == "graph"]
    for each in inner:
        close(each)
    _drop_numbers(node, signature, inner)
    _lift_constants(gm, node, signature, inner)
    for each in inner:
        each.recompile()


def _drop_numbers(node: fx.Node, signature: Signature, inner: list[fx.GraphModule]) -> None:
    """A number among the operands that is the same in every round goes into the graphs."""
    fixed = signature.passed[-1]
    start = sum(len(node.args[signature.position(name)]) for name in signature.passed[:-1])
    values = list(node.args[signature.position(fixed)])
    numbers = {start + i: value for i, value in enumerate(values) if isinstance(value, (bool, int, float))}
    if not numbers:
        return
    for gm in inner:
        placeholders = [each for each in gm.graph.nodes if each.op == "placeholder"]
        for index, value in numbers.items():
            _substitute(placeholders[index], value)
    kept = [value for value in values if not isinstance(value, (bool, int, float))]
    node.update_arg(signature.position(fixed), type(node.args[signature.position(fixed)])(kept))


def _substitute(placeholder: fx.Node, value: Any) -> None:
    for user in list(placeholder.users):
        user.args = fx.node.map_arg(user.args, lambda each: value if each is placeholder else each)
        user.kwargs = fx.node.map_arg(user.kwargs, lambda each: value if each is placeholder else each)
    placeholder.graph.erase_node(placeholder)


def _lift_constants(gm: fx.GraphModule, node: fx.Node, signature: Signature, inner: list[fx.GraphModule]) -> None:
    position = signature.position(signature.passed[-1])
    for each in inner:
        for constant in [n for n in each.graph.nodes if n.op == "get_attr"]:
            value = attribute(each, constant.target)
            if not isinstance(value, torch.Tensor):
                continue
            outer = _outer_constant(gm, node, value)
            node.update_arg(position, type(node.args[position])([*node.args[position], outer]))
            for other in inner:
                placeholder = _add_placeholder(other, outer)
                if other is each:
                    constant.replace_all_uses_with(placeholder)
                    each.graph.erase_node(constant)


def _outer_constant(gm: fx.GraphModule, before: fx.Node, value: torch.Tensor) -> fx.Node:
    name = next(name for i in range(10**9) if not hasattr(gm, name := f"lifted_{i}"))
    setattr(gm, name, torch.nn.Buffer(value, persistent=False) if isinstance(value, torch.nn.Parameter) else value)
    with gm.graph.inserting_before(before):
        node = gm.graph.get_attr(name)
    node.meta["val"] = value
    return node


def _add_placeholder(gm: fx.GraphModule, like: fx.Node) -> fx.Node:
    nodes = list(gm.graph.nodes)
    last = [each for each in nodes if each.op == "placeholder"]
    with gm.graph.inserting_after(last[-1]) if last else gm.graph.inserting_before(nodes[0]):
        placeholder = gm.graph.placeholder(f"{like.name}_operand")
    placeholder.meta["val"] = like.meta["val"]
    return placeholder
