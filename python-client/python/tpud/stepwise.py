"""Graphs whose sizes or numbers depend on data: compiled up to each op that makes such a size, which the host then knows.

Some are computed by their bound (`tpud.bounded`), the others run in eager PyTorch; what follows is compiled for the
size that came out. Sizes that never repeat would compile for ever, so a part that has met many of them runs in eager
PyTorch for new ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from tpud import bounded, errors, stats
from tpud.encode import Issue
from tpud.locations import locate
from tpud.options import Options
from tpud.partition import Stage, partition
from tpud.program import EagerStep
from tpud.roles import Roles
from tpud.saved import on_host

aten = torch.ops.aten

# So many sets of sizes that depend on data are compiled for one part of a graph.
MAX_SPECIALISATIONS = 16

# Reading a number is what the host has to do anyway, and what it asserts about numbers it asserts itself.
_READS = frozenset({aten._local_scalar_dense.default, aten.equal.default, bounded.cut})
_CHECKS = frozenset({aten._assert_scalar.default})


def makers(gm: fx.GraphModule) -> list[fx.Node]:
    """The nodes whose results have sizes, or are numbers, that nothing before them knows."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    known: set[Any] = set()
    found = []
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        symbols = set() if value is None else set(free_unbacked_symbols(value))
        # A backward graph may compute again what makes a size that it is also given.
        if node.op == "call_function" and (symbols - known or node.target in _READS or (symbols and _searches(node))):
            found.append(node)
        known |= symbols
    return found


def _searches(node: fx.Node) -> bool:
    """Whether the size of a result depends on the values of the arguments, whatever their sizes are."""
    if torch.Tag.dynamic_output_shape not in getattr(node.target, "tags", ()):
        return False
    if node.target is not aten.index.Tensor:
        return node.kwargs.get("output_size") is None
    indices = [each.meta["val"] for each in node.args[1] if each is not None]
    return any(each.dtype in (torch.bool, torch.uint8) for each in indices)


class Stepwise:
    """Runs the parts of a graph in turn."""

    def __init__(self, gm: fx.GraphModule, roles: Roles, options: Options, name: str, compile_part: Callable[..., Any]) -> None:
        gm = bounded.rewrite(gm)
        self.placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        output = next(iter(reversed(gm.graph.nodes)))
        flat = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
        self.outputs = list(flat)
        self.roles = roles
        eager = makers(gm)
        self._announce([node for node in eager if node.target not in _READS], roles, options, name)
        eager += [node for node in gm.graph.nodes if node.target in _CHECKS]
        stages = partition(gm, eager, [each for each in flat if isinstance(each, fx.Node)])
        self.slots = {node: index for index, node in enumerate(self.placeholders)}
        for stage in stages:
            for node in stage.outputs:
                self.slots[node] = len(self.slots)
        self.steps = [self._step(stage, options, name, compile_part) for stage in stages]
        self.plan = [self._result(index, value) for index, value in enumerate(flat)]

    def _announce(self, nodes: list[fx.Node], roles: Roles, options: Options, name: str) -> None:
        message = "the size of its result depends on data, so it runs in eager PyTorch, between compiled pieces"
        issues = [Issue(str(node.target), node, message, locate(node)) for node in nodes]
        if not issues:
            return
        if options.fallback == "error":
            text = f"this graph has sizes that depend on data: {errors.headline(issues)}\n" + errors.describe_issues(issues)
            hint = "compute such values outside of the compiled function"
            raise errors.UnsupportedOpError(text, "DATA_DEPENDENT_SIZE", hint, issues)
        warnings.warn("tpud: " + errors.describe_issues(issues).strip(), errors.FallbackWarning, stacklevel=2)
        stats.add(stats.GraphRecord(name, roles.phase, {}, issues=issues))

    def _step(self, stage: Stage, options: Options, name: str, compile_part: Callable[..., Any]) -> EagerStep | CompiledStep:
        if not stage.compiled:
            return EagerStep(stage, self.slots)
        given = {node: index for index, node in enumerate(self.placeholders)}
        kept = frozenset(i for i, node in enumerate(stage.inputs) if given.get(node) in self.roles.parameters)
        flags = dict(zip(self.outputs, self.roles.aliases, strict=False))
        roles = Roles("inference", kept, (), tuple(flags.get(node, False) for node in stage.outputs), len(stage.outputs))
        return CompiledStep(stage, self.slots, compile_part(stage.gm, roles, options, name))

    def _result(self, index: int, value: Any) -> tuple[int | None, Any]:
        """Where an output is, and whether it needs a copy (an input that is given back); or what it always is."""
        if not isinstance(value, fx.Node):
            return None, value
        results = self.roles.results if self.roles.results is not None else len(self.outputs)
        aliased = index < len(self.roles.aliases) and self.roles.aliases[index]
        fresh = self.roles.phase != "backward" and len(self.roles.mutated) <= index < results and not aliased
        tensor = isinstance(value.meta.get("val"), torch.Tensor)
        return self.slots[value], fresh and tensor and value.op == "placeholder"

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        slots = [*args, *[None] * (len(self.slots) - len(args))]
        for step in self.steps:
            step.launch(slots)
        return [extra if slot is None else slots[slot].clone() if extra else slots[slot] for slot, extra in self.plan]


class CompiledStep:
    """A part that is compiled for the sizes it meets."""

    def __init__(self, stage: Stage, slots: dict[fx.Node, int], run: Callable[[Sequence[Any]], Any]) -> None:
        self.run = run
        self.forward = stage.gm.forward
        self.inputs = [slots[node] for node in stage.inputs]
        self.outputs = [slots[node] for node in stage.outputs]
        self.warned = False

    def launch(self, slots: list[Any]) -> None:
        """Runs once, reading its inputs from `slots` and writing its outputs there."""
        args = [slots[slot] for slot in self.inputs]
        results = self._in_eager(args) if self._has_met_many(args) else self.run(args)
        for slot, result in zip(self.outputs, results, strict=True):
            slots[slot] = result

    def _has_met_many(self, args: list[Any]) -> bool:
        programs = getattr(self.run, "programs", ())
        return len(programs) >= MAX_SPECIALISATIONS and self.run._key(args) not in programs

    def _in_eager(self, args: list[Any]) -> Any:
        if not self.warned:
            self.warned = True
            text = f"tpud: a part of a graph has met {MAX_SPECIALISATIONS} sets of sizes that depend on data; it runs in eager PyTorch for others"
            warnings.warn(text, errors.FallbackWarning, stacklevel=2)
        with torch.no_grad(), torch._C._DisableAutocast():
            return self.forward(*map(on_host, args))
