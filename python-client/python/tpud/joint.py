"""How AOTAutograd's joint graph becomes a forward and a backward graph."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch._functorch.partitioners import (
    CheckpointPolicy,
    _is_primal,
    default_partition,
    is_rng_op,
    min_cut_rematerialization_partition,
    must_recompute,
)

from tpud import seeds

# The min-cut takes time that grows faster than the graph: a loop unrolled into more nodes than this is split by what
# the backward names.
MIN_CUT_NODES = 5000

# Marks the inputs of a backward graph that are parameters (or buffers) of the model.
PARAMETER = "tpud_parameter"


def split(
    joint: fx.GraphModule,
    inputs: Any,
    *,
    num_fwd_outputs: int,
    static_lifetime_input_indices: list[int] | None = None,
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """A partitioner for AOTAutograd: torch's min-cut over what is cheap to compute twice; random values never are."""
    primals = [node.name for node in joint.graph.nodes if _is_primal(node)]
    static = {primals[index] for index in static_lifetime_input_indices or ()}
    _save_random_values(joint.graph)
    small = len(joint.graph.nodes) <= MIN_CUT_NODES
    partition = min_cut_rematerialization_partition if small else default_partition
    forward, backward = partition(
        joint,
        inputs,
        num_fwd_outputs=num_fwd_outputs,
        static_lifetime_input_indices=static_lifetime_input_indices,
    )
    # The partitioner names a saved input as it was named in the joint graph.
    for node in backward.graph.nodes:
        if node.op == "placeholder" and node.name in static:
            node.meta[PARAMETER] = True
    return forward, backward


def _save_random_values(graph: fx.Graph) -> None:
    """Bans random ops from being computed again in the backward pass, where they would draw other numbers.

    Inside of an activation checkpoint torch would replay the state of its generator. That can be compiled, too, but an
    op that runs in eager PyTorch in one of the two graphs would draw other numbers there. So the numbers are saved as at
    any other place, or what is made of them alone: a dropout mask has a quarter of the bytes of the numbers behind it.
    """
    numbers: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        sources = [each for each in node.all_input_nodes if isinstance(each.meta.get("val"), torch.Tensor)]
        if is_rng_op(node) or seeds.is_random(node.target):
            for each in (node, *(user for user in node.users if user.target is operator.getitem)):
                each.meta["recompute"] = CheckpointPolicy.MUST_SAVE
            if not sources or node.target._opname.endswith("_like"):
                numbers.add(node)
        elif sources and numbers.issuperset(sources):
            numbers.add(node)
            if must_recompute(node):
                del node.meta["recompute"]
