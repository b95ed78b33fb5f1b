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

from tpud import _tpud, errors, nested, stats
from tpud.capture import Captured
from tpud.encode import Encoded, Issue, UnencodableError, encode_graph
from tpud.layout import dense_strides
from tpud.locations import Location, locate
from tpud.options import Options
from tpud.outputs import Computed, Plan, Saved, apply, plan_outputs
from tpud.partition import Stage, partition
from tpud.piece import Piece, compile_piece
from tpud.roles import Roles
from tpud.saved import on_host
from tpud.seeds import CHECKPOINTS, SEED_BYTES, Draw


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
            value = on_host(slots[slot])
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
    other. A value that is needed both on the host and on the device has two slots, and a third if it is saved for
    backward.
    """

    def __init__(
        self,
        steps: list[Any],
        plans: list[Plan],
        results: list[int],
        kept: list[int],
        assertions: list[str],
        size: int,
        draws: Sequence[tuple[int, Draw]] = (),
    ) -> None:
        self.steps = steps
        self.draws = draws  # (slot, how its seed is drawn)
        self.plans = plans
        self.results = results
        self.kept = kept
        self.assertions = assertions
        self.spare = [None] * size
        # The common case: every output is what the executable gave, as it is.
        self.plain = not assertions and plans == [Computed(index, None) for index in range(len(results))]

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        # Once, whatever happens: the second attempt after a lost connection draws the same numbers.
        seeds = [draw.words() for _, draw in self.draws]
        try:
            return self._run(args, seeds)
        except _tpud.RawError as raw:
            if not errors.is_lost(raw):
                errors.raise_from(raw, "running a compiled graph", kind=errors.Error)
            for step in self.steps:
                if isinstance(step, Piece):
                    step.forget_connection()
        # The daemon went away, or this is a fork: everything is registered again, once.
        try:
            return self._run(args, seeds)
        except _tpud.RawError as raw:
            errors.raise_from(raw, "running a compiled graph on a new connection", kind=errors.Error)

    def _run(self, args: Sequence[Any], seeds: Sequence[torch.Tensor]) -> list[Any]:
        slots = [*args, *self.spare]
        for (slot, _), seed in zip(self.draws, seeds, strict=True):
            slots[slot] = seed
        for step in self.steps:
            step.launch(slots)
        results = [slots[slot] for slot in self.results]
        if self.plain:
            return results
        kept = [slots[slot] for slot in self.kept]
        outputs = [apply(plan, args, results, kept) for plan in self.plans]
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
        fresh = range(roles.first_result, outputs) if roles.phase != "backward" else range(0)
        everything = len(next(iter(reversed(self.gm.graph.nodes))).args[0])
        saved = range(outputs, everything - len(captured.assertions))
        self.outputs = plan_outputs(self.gm, roles.aliases, fresh, saved, roles.mutated)
        self.wanted = self.outputs.nodes
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
        needed = set(self.wanted)
        output = next(iter(reversed(self.gm.graph.nodes)))
        for node in reversed(self.gm.graph.nodes):
            if node in needed or (node.op == "call_function" and _has_effect(self.gm, node)):
                needed.update(node.all_input_nodes)
                needed.add(node)
        output.args = (tuple(self.wanted),)
        for node in reversed(self.gm.graph.nodes):
            if node.op in ("call_function", "get_attr") and node not in needed:
                self.gm.graph.erase_node(node)

    def _compile_all(self) -> list[Stage]:
        unsupported: dict[fx.Node, None] = {}
        while True:
            stages = partition(self.gm, unsupported.keys(), self.wanted)
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
            if any(issue.node.target in CHECKPOINTS for issue in refused):
                raise checkpoint_error(refused)
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
        for index, plan in enumerate(self.outputs.plans):
            if isinstance(plan, (Computed, Saved)):
                nodes = self.outputs.computed if isinstance(plan, Computed) else self.outputs.saved
                first.setdefault(nodes[plan.index], index)
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
                # Inside of a nested graph, the line is that of the inner op.
                place = Location(*(entry[field] for field in Location._fields)) if node.target in nested.SIGNATURES else None
                issues.append(Issue(entry["op"] or str(node.target), node, entry["message"], place or locate(node)))
        return list({(issue.node, issue.op, issue.location): issue for issue in issues}.values())

    def _assemble(self, stages: list[Stage]) -> Program:
        """Gives every value that crosses a stage its slots, and wires the pieces to them."""
        slots = _Slots(self.placeholders)
        on_host = set(self.outputs.computed) | {node for stage in stages if not stage.compiled for node in stage.inputs}
        on_device = {node for stage in stages if stage.compiled for node in stage.inputs}
        kept = set(self.outputs.saved)
        for stage in stages:
            for node in stage.outputs:
                if node in on_host or not stage.compiled:
                    slots.add(slots.host, node)
                if stage.compiled and node in on_device:
                    slots.add(slots.device, node)
                if stage.compiled and node in kept:
                    slots.add(slots.kept, node)
        steps: list[Any] = []
        draws: list[tuple[int, Draw]] = []
        for stage in stages:
            if stage.compiled:
                encoded, piece = self.pieces[tuple(stage.nodes)]
                self._wire(stage, encoded, piece, slots)
                draws += _wire_seeds(encoded, piece, slots)
                steps.append(piece)
            else:
                steps.append(EagerStep(stage, slots.host))
        results = [slots.host[node] for node in self.outputs.computed]
        saved = [slots.kept[node] if node in slots.kept else slots.host[node] for node in self.outputs.saved]
        spare = slots.size - len(self.placeholders)
        return Program(steps, self.outputs.plans, results, saved, self.captured.assertions, spare, draws)

    def _wire(self, stage: Stage, encoded: Encoded, piece: Piece, slots: _Slots) -> None:
        piece.host_inputs, piece.parameter_inputs, piece.device_inputs = [], [], []
        piece.fetches, piece.kept, piece.saved = [], [], []
        for position, source in enumerate(encoded.inputs):
            if not isinstance(source, int):
                continue
            node = stage.inputs[source]
            if node in slots.device:
                piece.device_inputs.append((position, slots.device[node]))
                continue
            slot = slots.host[node]
            keep = slot in self.roles.parameters and slot < len(self.placeholders)
            target = piece.parameter_inputs if keep else piece.host_inputs
            target.append((position, slot, node.meta["val"].nbytes))
        for position, node in enumerate(stage.outputs):
            if node in slots.device:
                piece.kept.append((position, slots.device[node]))
            if node in slots.kept:
                piece.saved.append((position, slots.kept[node]))
            if node not in slots.host:
                piece.fetches.append(None)
                continue
            value = node.meta["val"]
            sizes = tuple(value.shape)
            how = "keep_fetch" if node in slots.device or node in slots.kept else "fetch"
            piece.fetches.append((slots.host[node], sizes, dense_strides(sizes), value.dtype, value.nbytes, how))


def _wire_seeds(encoded: Encoded, piece: Piece, slots: _Slots) -> list[tuple[int, Draw]]:
    """A slot for each seed of a piece, and how it is drawn."""
    draws = []
    for position, source in enumerate(encoded.inputs):
        if isinstance(source, Draw):
            piece.host_inputs.append((position, slots.size, SEED_BYTES))
            draws.append((slots.size, source))
            slots.size += 1
    return draws


class _Slots:
    """Where the values of a program are while it runs: as tensors, as buffers between its pieces, and as buffers that
    are saved for backward."""

    def __init__(self, placeholders: list[fx.Node]) -> None:
        self.host = {node: index for index, node in enumerate(placeholders)}
        self.device: dict[fx.Node, int] = {}
        self.kept: dict[fx.Node, int] = {}
        self.size = len(placeholders)

    def add(self, kind: dict[fx.Node, int], node: fx.Node) -> None:
        """A slot for a value."""
        kind[node] = self.size
        self.size += 1


def _is_op(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target is not operator.getitem


def _has_effect(gm: fx.GraphModule, node: fx.Node) -> bool:
    """Unused, but not removed by `normalise`: it may have an effect."""
    return not node.users and not nested.is_pure(gm, node)


def unsupported_error(issues: Sequence[Issue]) -> errors.UnsupportedOpError:
    """The error for `options={"fallback": "error"}`."""
    text = f"{len(issues)} ops of this graph can't be compiled: {errors.headline(issues)}\n" + errors.describe_issues(issues)
    hint = 'use `options={"fallback": "eager"}` (the default) to run them in eager PyTorch'
    return errors.UnsupportedOpError(text, "UNSUPPORTED_OP", hint, issues)


def checkpoint_error(issues: Sequence[Issue]) -> errors.UnsupportedOpError:
    """A checkpointed random op must draw the same numbers twice, in two graphs that are compiled apart, so it can't run
    in eager PyTorch in one of them."""
    text = "random ops under activation checkpointing can't be compiled:\n" + errors.describe_issues(issues)
    hint = "leave them out of the checkpointed region, or pass `preserve_rng_state=False` to `checkpoint`"
    return errors.UnsupportedOpError(text, "UNSUPPORTED_OP", hint, issues)


def fallback_message(issues: Sequence[Issue]) -> str:
    """The text of the one warning about everything that runs in eager PyTorch."""
    return (
        f"tpud runs {len(issues)} ops of this graph in eager PyTorch, between compiled pieces:\n"
        + errors.describe_issues(issues)
        + '\nThe answer is right, but slower. `options={"fallback": "error"}` makes this an error.'
    )
