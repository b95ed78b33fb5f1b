"""Random numbers: which ops draw them, and the seeds that each call of a compiled graph takes from torch's generators.

A compiled graph has an input for the seed, so nothing random is burned into it. The seed comes from the generator that
eager PyTorch would use, so `torch.manual_seed` makes a run repeatable, and consecutive calls differ. The numbers
themselves are not eager's: only their distribution is.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch
from torch import fx
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch._subclasses.fake_tensor import FakeTensorMode

aten = torch.ops.aten

# Ops that draw, although torch does not tag them.
_UNTAGGED = frozenset({aten.random, aten.binomial, aten._sample_dirichlet})

# How activation checkpointing draws the same numbers in the forward and in the backward graph.
CHECKPOINTS = frozenset({run_and_save_rng_state, run_with_rng_state})

SEED_BYTES = 16


@dataclasses.dataclass(frozen=True)
class Draw:
    """An input that is drawn anew for every call; without a generator from torch's own for the CPU."""

    generator: torch.Generator | None = None

    def words(self) -> torch.Tensor:
        """128 random bits."""
        return torch.empty(2, dtype=torch.int64, device="cpu").random_(-(2**63), None, generator=self.generator)


def is_random(target: Any) -> bool:
    """Whether an op draws random numbers."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return torch.Tag.nondeterministic_seeded in target.tags or target.overloadpacket in _UNTAGGED


def drawing(node: fx.Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """The random op of a node, its positional and its keyword arguments; None for another op."""
    if node.target is run_and_save_rng_state:
        return node.args[0], node.args[1:], node.kwargs
    if node.target is run_with_rng_state:
        return node.args[1], node.args[2:], node.kwargs
    return (node.target, node.args, node.kwargs) if is_random(node.target) else None


def generator_of(node: fx.Node) -> Any:
    """The generator that a random op was given, or None; a node if it is an input of the graph."""
    target, args, kwargs = drawing(node)
    names = [argument.name for argument in target._schema.arguments]
    if "generator" not in names:
        return None
    index = names.index("generator")
    given = args[index] if index < len(args) else kwargs.get("generator")
    if isinstance(given, fx.Node) and given.op == "get_attr":
        return functools.reduce(getattr, given.target.split("."), given.graph.owning_module)
    return given


def complete(graph: fx.Graph) -> None:
    """Gives the nodes of activation checkpointing the fake results that torch's partitioner does not give them."""
    for node in graph.nodes:
        if node.target not in CHECKPOINTS or "val" in node.meta:
            continue
        target, args, kwargs = drawing(node)
        args, kwargs = fx.node.map_arg((args, kwargs), lambda each: each.meta["val"])
        known = [each.fake_mode for each in (*args, *kwargs.values()) if isinstance(each, torch._subclasses.FakeTensor)]
        with known[0] if known else FakeTensorMode():
            result = target(*args, **kwargs)
        state = next((user.meta["val"] for user in node.users if user.args[1:] == (0,)), None)
        node.meta["val"] = (state, result) if node.target is run_and_save_rng_state else result
