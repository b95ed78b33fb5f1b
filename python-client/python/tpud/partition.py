"""Splits a graph around the ops that the server can't lower: compiled pieces with eager PyTorch between them."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Collection, Sequence

from torch import fx


@dataclasses.dataclass
class Stage:
    """A part of a graph which runs as one: compiled, or in eager PyTorch."""

    compiled: bool
    nodes: list[fx.Node]  # of the whole graph, in its order
    gm: fx.GraphModule
    inputs: list[fx.Node]  # of the whole graph: what `gm` takes
    outputs: list[fx.Node]  # of the whole graph: what `gm` returns
    origin: dict[fx.Node, fx.Node]  # from the nodes of `gm` to those of the whole graph


def partition(gm: fx.GraphModule, unsupported: Collection[fx.Node], results: Sequence[fx.Node]) -> list[Stage]:
    """The stages of `gm` in the order in which they run; `results` are the nodes that are wanted in the end.

    Each node goes into the earliest stage of its kind that comes after its inputs' stages, so as many nodes as
    possible share a stage and the stages alternate as rarely as the graph allows.
    """
    by_level: dict[int, list[fx.Node]] = {}
    for node, level in _levels(gm, unsupported).items():
        by_level.setdefault(level, []).append(node)
    wanted = set(results)
    return [_extract(gm, by_level[level], wanted, compiled=level % 2 == 0) for level in sorted(by_level)]


def _levels(gm: fx.GraphModule, unsupported: Collection[fx.Node]) -> dict[fx.Node, int]:
    """Even levels are compiled, odd ones are not."""
    levels: dict[fx.Node, int] = {}
    for node in gm.graph.nodes:
        if node.op != "call_function":
            continue
        after = max((levels.get(each, 0) for each in node.all_input_nodes), default=0)
        if node.target is operator.getitem:
            levels[node] = levels[node.args[0]]
        elif node in unsupported:
            levels[node] = after if after % 2 else after + 1
        else:
            levels[node] = after + 1 if after % 2 else after
    return levels


def _extract(gm: fx.GraphModule, nodes: list[fx.Node], wanted: Collection[fx.Node], compiled: bool) -> Stage:
    inside = set(nodes)
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    inputs = list(dict.fromkeys(each for node in nodes for each in node.all_input_nodes if each not in inside))
    tensors = [each for each in inputs if each.op != "get_attr"]
    for each in tensors:
        copies[each] = graph.placeholder(each.name)
        copies[each].meta = dict(each.meta)
    for each in inputs:
        if each.op == "get_attr":
            copies[each] = graph.node_copy(each)
    for node in nodes:
        copies[node] = graph.node_copy(node, lambda each: copies[each])
    outputs = [node for node in nodes if node in wanted or any(user not in inside and user.op != "output" for user in node.users)]
    graph.output(tuple(copies[node] for node in outputs))
    origin = {copy: node for node, copy in copies.items()}
    return Stage(compiled, nodes, fx.GraphModule(gm, graph), tensors, outputs, origin)
