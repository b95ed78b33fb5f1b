"""A compiled graph: its pieces, the ops between them that run in eager PyTorch, and its outputs."""

from __future__ import annotations

import collections
import dataclasses
import operator
import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from tpud import _tpud, errors, stats
from tpud.capture import Captured
from tpud.encode import Encoded, Issue, UnencodableError, encode_graph
from tpud.locations import locate
from tpud.options import Options
from tpud.outputs import Computed, Plan, apply, dense_strides, plan_outputs
from tpud.partition import Stage, partition
from tpud.piece import Piece, compile_piece


@dataclasses.dataclass(frozen=True)
class Roles:
    """What AOTAutograd knows about a graph's inputs and outputs."""

    phase: str = "inference"
    parameters: frozenset[int] = frozenset()  # inputs that stay on the device between calls
    mutated: tuple[int, ...] = ()  # the first outputs are the new content of these inputs
    aliases: tuple[bool, ...] = ()  # outputs that AOTAutograd regards as aliases
    results: int | None = None  # outputs that the user sees, the mutated ones included; the rest is saved for backward

    def of_output(self, index: int) -> tuple[str, int | None]:
        """The role of one output in the graph contract."""
        if index < len(self.mutated):
            return "mutation", self.mutated[index]
        return ("saved", None) if self.results is not None and index >= self.results else ("user_output", None)


class EagerStep:
    """Ops that run in PyTorch between two pieces."""

    def __init__(self, stage: Stage, slots: dict[fx.Node, int]) -> None:
        self.forward = stage.gm.forward
        self.inputs = [(slots[node], _needed_strides(node, stage)) for node in stage.inputs]
        self.outputs = [slots[node] for node in stage.outputs]

    def launch(self, slots: list[Any]) -> None:
        """Runs once, reading its inputs from `slots` and writing its outputs there."""
        args = []
        for slot, strides in self.inputs:
            value = slots[slot]
            if strides is not None and value.stride() != strides:
                value = torch.empty_strided(value.shape, strides, dtype=value.dtype).copy_(value)
            args.append(value)
        # Casts of autocast are in the graph already.
        with torch.no_grad(), torch._C._DisableAutocast():
            results = self.forward(*args)
        for slot, result in zip(self.outputs, results, strict=True):
            slots[slot] = result


def _needed_strides(node: fx.Node, stage: Stage) -> tuple[int, ...] | None:
    """`as_strided` looks at memory, so its input has to lie as it did while tracing."""
    uses = [user for user in node.users if user.target is torch.ops.aten.as_strided.default and user in stage.nodes]
    value = node.meta.get("val")
    # An input of the whole graph lies in the user's own memory.
    if not uses or node.op == "placeholder" or not isinstance(value, torch.Tensor):
        return None
    if value.storage_offset() or value.untyped_storage().nbytes() != value.nbytes:
        message = "`as_strided` reaches outside of the tensor that it is given"
        raise errors.UnsupportedOpError(message, "UNSUPPORTED_OP", issues=[Issue("as_strided", node, message, locate(node))])
    return value.stride()


class Program:
    """Runs a compiled graph: takes its inputs, returns its outputs.

    While it runs, values live in a list of slots: first the inputs, then what pieces and eager ops give to each
    other. A value that is needed both on the host and on the device has two slots.
    """

    def __init__(self, steps: list[Any], plans: list[Plan], results: list[int], assertions: list[str], size: int) -> None:
        self.steps = steps
        self.plans = plans
        self.results = results
        self.assertions = assertions
        self.spare = [None] * size
        # The common case: every output is what the executable gave, as it is.
        self.plain = not assertions and plans == [Computed(index, None) for index in range(len(results))]

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        try:
            return self._run(args)
        except _tpud.RawError as raw:
            if not errors.is_lost(raw):
                errors.raise_from(raw, "running a compiled graph", kind=errors.Error)
            for step in self.steps:
                if isinstance(step, Piece):
                    step.forget_connection()
        # The daemon went away, or this is a fork: everything is registered again, once.
        try:
            return self._run(args)
        except _tpud.RawError as raw:
            errors.raise_from(raw, "running a compiled graph on a new connection", kind=errors.Error)

    def _run(self, args: Sequence[Any]) -> list[Any]:
        slots = [*args, *self.spare]
        for step in self.steps:
            step.launch(slots)
        results = [slots[slot] for slot in self.results]
        if self.plain:
            return results
        outputs = [apply(plan, args, results) for plan in self.plans]
        if self.assertions:
            outputs, conditions = outputs[: -len(self.assertions)], outputs[-len(self.assertions) :]
            for message, condition in zip(self.assertions, conditions, strict=True):
                if not condition.item():
                    raise errors.AssertionFailedError(message, "ASSERTION_FAILED")
        return outputs


class Builder:
    """Compiles a captured graph into a `Program`, splitting it around what the server refuses."""

    def __init__(self, captured: Captured, roles: Roles, options: Options, name: str) -> None:
        self.captured = captured
        self.gm = captured.gm
        self.roles = roles
        self.options = options
        self.name = options.name or name
        self.placeholders = [node for node in self.gm.graph.nodes if node.op == "placeholder"]
        outputs = roles.results if roles.results is not None else 10**9
        fresh = range(len(roles.mutated), outputs) if roles.phase != "backward" else range(0)
        self.plans, self.computed = plan_outputs(self.gm, roles.aliases, fresh)
        self.issues: list[Issue] = []
        self.pieces: dict[tuple[fx.Node, ...], tuple[Encoded, Piece]] = {}

    def build(self) -> tuple[Program, stats.GraphRecord]:
        """Compiles everything. Raises tpud's exceptions."""
        self._drop_unneeded()
        ops = collections.Counter(str(node.target) for node in self.gm.graph.nodes if _is_op(node))
        stages = self._compile_all()
        record = stats.GraphRecord(self.name, self.roles.phase, dict(ops.most_common()), issues=self.issues)
        record.pieces = [piece.record for _, piece in self.pieces.values()]
        if self.issues:
            warnings.warn(fallback_message(self.issues), errors.FallbackWarning, stacklevel=2)
        stats.add(record)
        return self._assemble(stages), record

    def _drop_unneeded(self) -> None:
        """Removes what only views and constants among the outputs needed."""
        needed = set(self.computed)
        output = next(iter(reversed(self.gm.graph.nodes)))
        for node in reversed(self.gm.graph.nodes):
            if node in needed or (node.op == "call_function" and _has_effect(node)):
                needed.update(node.all_input_nodes)
                needed.add(node)
        output.args = (tuple(self.computed),)
        for node in reversed(self.gm.graph.nodes):
            if node.op in ("call_function", "get_attr") and node not in needed:
                self.gm.graph.erase_node(node)

    def _compile_all(self) -> list[Stage]:
        unsupported: dict[fx.Node, None] = {}
        while True:
            stages = partition(self.gm, unsupported.keys(), self.computed)
            refused: list[Issue] = []
            kept = {tuple(stage.nodes): self.pieces.get(tuple(stage.nodes)) for stage in stages if stage.compiled}
            self.pieces = {key: piece for key, piece in kept.items() if piece is not None}
            for stage in stages:
                if stage.compiled and tuple(stage.nodes) not in self.pieces:
                    refused += self._compile_stage(stage)
            if not refused:
                order = [tuple(stage.nodes) for stage in stages if stage.compiled]
                self.pieces = {key: self.pieces[key] for key in order}
                return stages
            self.issues += refused
            if self.options.fallback == "error":
                raise unsupported_error(self.issues)
            unsupported.update((issue.node, None) for issue in refused)

    def _compile_stage(self, stage: Stage) -> list[Issue]:
        """Compiles one stage, or returns the nodes that can't be."""
        started = time.perf_counter()
        index = {node: position for position, node in enumerate(self.placeholders)}
        inputs = ["parameter" if index.get(node) in self.roles.parameters else "user_input" for node in stage.inputs]
        try:
            encoded = encode_graph(stage.gm, inputs, self._output_roles(stage), self.name)
        except UnencodableError as error:
            return [dataclasses.replace(issue, node=stage.origin[issue.node]) for issue in error.issues]
        try:
            piece = compile_piece(encoded, self.options, time.perf_counter() - started)
        except _tpud.RawError as raw:
            issues = self._issues_of(raw, stage, encoded)
            if issues and raw.reason.startswith("UNSUPPORTED"):
                return issues
            errors.raise_from(raw, f"compiling the graph {self.name!r}", issues)
        self.pieces[tuple(stage.nodes)] = encoded, piece
        return []

    def _output_roles(self, stage: Stage) -> list[tuple[str, int | None]]:
        """Roles for what a stage returns. A mutation is one only in the piece that also takes the mutated input."""
        given = {node: index for index, node in enumerate(self.placeholders)}
        positions = {given[node]: index for index, node in enumerate(stage.inputs) if node in given}
        first: dict[fx.Node, int] = {}
        for index, plan in enumerate(self.plans):
            if isinstance(plan, Computed):
                first.setdefault(self.computed[plan.index], index)
        roles = []
        for node in stage.outputs:
            role, target = self.roles.of_output(first[node]) if node in first else ("user_output", None)
            if role == "mutation":
                target = positions.get(target)
                role = "user_output" if target is None else role
            roles.append((role, target))
        return roles

    def _issues_of(self, raw: Any, stage: Stage, encoded: Encoded) -> list[Issue]:
        issues = []
        for entry in raw.issues:
            if entry["node"] < len(encoded.nodes):
                node = stage.origin[encoded.nodes[entry["node"]]]
                issues.append(Issue(entry["op"] or str(node.target), node, entry["message"], locate(node)))
        return list({issue.node: issue for issue in issues}.values())

    def _assemble(self, stages: list[Stage]) -> Program:
        """Gives every value that crosses a stage its slots, and wires the pieces to them."""
        host: dict[fx.Node, int] = {node: index for index, node in enumerate(self.placeholders)}
        device: dict[fx.Node, int] = {}
        wanted = set(self.computed)
        on_host = wanted | {node for stage in stages if not stage.compiled for node in stage.inputs}
        on_device = {node for stage in stages if stage.compiled for node in stage.inputs}
        size = len(self.placeholders)
        for stage in stages:
            for node in stage.outputs:
                if node in on_host or not stage.compiled:
                    host[node] = size
                    size += 1
                if stage.compiled and node in on_device:
                    device[node] = size
                    size += 1
        steps: list[Any] = []
        for stage in stages:
            if stage.compiled:
                encoded, piece = self.pieces[tuple(stage.nodes)]
                self._wire(stage, encoded, piece, host, device)
                steps.append(piece)
            else:
                steps.append(EagerStep(stage, host))
        results = [host[node] for node in self.computed]
        return Program(steps, self.plans, results, self.captured.assertions, size - len(self.placeholders))

    def _wire(self, stage: Stage, encoded: Encoded, piece: Piece, host: dict, device: dict) -> None:
        piece.host_inputs, piece.parameter_inputs, piece.device_inputs = [], [], []
        piece.fetches, piece.kept = [], []
        for position, source in enumerate(encoded.inputs):
            if isinstance(source, torch.Tensor):
                continue
            node = stage.inputs[source]
            if node in device:
                piece.device_inputs.append((position, device[node]))
                continue
            keep = host[node] in self.roles.parameters and host[node] < len(self.placeholders)
            target = piece.parameter_inputs if keep else piece.host_inputs
            target.append((position, host[node], node.meta["val"].nbytes))
        for position, node in enumerate(stage.outputs):
            if node in device:
                piece.kept.append((position, device[node]))
            if node not in host:
                piece.fetches.append(None)
                continue
            value = node.meta["val"]
            sizes = tuple(value.shape)
            strides = dense_strides(sizes)
            how = "keep_fetch" if node in device else "fetch"
            piece.fetches.append((host[node], sizes, strides, value.dtype, value.nbytes, how))


def _is_op(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target is not operator.getitem


def _has_effect(node: fx.Node) -> bool:
    """Unused, but not removed by `normalise`: it has an effect, such as moving torch's random generator."""
    from tpud.capture import _is_pure

    return not node.users and node.target is not operator.getitem and not _is_pure(node.target)


def unsupported_error(issues: Sequence[Issue]) -> errors.UnsupportedOpError:
    """The error for `options={"fallback": "error"}`."""
    text = f"{len(issues)} ops of this graph can't be compiled: {errors.headline(issues)}\n" + errors.describe_issues(issues)
    hint = 'use `options={"fallback": "eager"}` (the default) to run them in eager PyTorch'
    return errors.UnsupportedOpError(text, "UNSUPPORTED_OP", hint, issues)


def fallback_message(issues: Sequence[Issue]) -> str:
    """The text of the one warning about everything that runs in eager PyTorch."""
    return (
        f"tpud runs {len(issues)} ops of this graph in eager PyTorch, between compiled pieces:\n"
        + errors.describe_issues(issues)
        + '\nThe answer is right, but slower. `options={"fallback": "error"}` makes this an error.'
    )
