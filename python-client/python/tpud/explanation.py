"""`tpud.explain(fn)(*args)`: what became of a function, graph by graph."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from tpud import errors, stats


@dataclasses.dataclass
class Explanation:
    """The report of one compiled and executed call. `str()` is for reading, `to_dict()` for programs."""

    graphs: list[stats.GraphRecord]
    result: Any
    seconds: dict[str, float]

    @property
    def fallback_ops(self) -> dict[str, int]:
        """Ops that run in eager PyTorch, and how often they occur."""
        counts: dict[str, int] = {}
        for graph in self.graphs:
            for issue in graph.issues:
                counts[issue.op] = counts.get(issue.op, 0) + 1
        return counts

    def to_dict(self) -> dict[str, Any]:
        """The report without the function's result, ready for JSON."""
        return {
            "seconds": self.seconds,
            "fallback_ops": self.fallback_ops,
            "graphs": [_graph_dict(graph) for graph in self.graphs],
        }

    def __str__(self) -> str:
        lines = [f"{len(self.graphs)} graph(s), {sum(len(g.pieces) for g in self.graphs)} executable(s)"]
        for index, graph in enumerate(self.graphs):
            lines += _graph_lines(index, graph)
        parts = [f"{name} {_time(seconds)}" for name, seconds in self.seconds.items()]
        lines.append("Time: " + ", ".join(parts))
        if not self.graphs:
            lines.append("Nothing was compiled: the function ran in eager PyTorch (see TORCH_LOGS=graph_breaks).")
        return "\n".join(lines)


def explain(fn: Callable[..., Any], **options: Any) -> Callable[..., Explanation]:
    """A function that compiles `fn` afresh, calls it once, and reports. `options` are those of torch.compile, such
    as `dynamic=` and `options=`."""

    def run(*args: Any, **kwargs: Any) -> Explanation:
        # Dynamo keeps its code caches on the function; without a reset it would reuse earlier graphs.
        torch._dynamo.reset()
        compiled = torch.compile(fn, backend="tpud", **options)
        with stats.listen() as graphs, warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.FallbackWarning)
            started = time.perf_counter()
            result = compiled(*args, **kwargs)
            total = time.perf_counter() - started
        return Explanation(graphs, result, _seconds(graphs, total))

    return run


def _seconds(graphs: list[stats.GraphRecord], total: float) -> dict[str, float]:
    """Where the first call's time went; "trace" is Dynamo, AOTAutograd and whatever else is not named."""
    pieces = [piece for graph in graphs for piece in graph.pieces]
    timings = [piece.result.get("timings", {}) for piece in pieces]
    known = {
        "encode": sum(piece.encode_seconds for piece in pieces),
        "queue": sum(each.get("queue_seconds", 0.0) for each in timings),
        "lower": sum(each.get("lower_seconds", 0.0) + each.get("serialize_seconds", 0.0) for each in timings),
        "compile": sum(each.get("compile_seconds", 0.0) for each in timings),
        "load": sum(each.get("load_seconds", 0.0) for each in timings),
        "upload": sum(piece.upload_seconds for piece in pieces),
        "run": sum(piece.run_seconds for piece in pieces),
    }
    requests = sum(piece.request_seconds for piece in pieces)
    inside = sum(known[name] for name in ("queue", "lower", "compile", "load"))
    known["transport"] = max(requests - inside, 0.0)
    return {"trace": max(total - sum(known.values()), 0.0), **known, "total": total}


def _graph_dict(graph: stats.GraphRecord) -> dict[str, Any]:
    return {
        "name": graph.name,
        "phase": graph.phase,
        "ops": graph.ops,
        "nodes": sum(graph.ops.values()),
        "whole_in_eager": graph.whole_in_eager,
        "fallback": [
            {"op": each.op, "message": each.message, **each.location._asdict()} for each in graph.issues
        ],
        "executables": [
            {**dataclasses.asdict(piece), **{key: piece.result.get(key) for key in ("graph_key", "module_key", "outcome")}}
            for piece in graph.pieces
        ],
    }


def _graph_lines(index: int, graph: stats.GraphRecord) -> list[str]:
    top = ", ".join(f"{op} ×{count}" for op, count in list(graph.ops.items())[:6])
    more = f", and {len(graph.ops) - 6} other kinds" if len(graph.ops) > 6 else ""
    lines = ["", f"graph {index}: {graph.name} ({graph.phase}), {sum(graph.ops.values())} ops: {top}{more}"]
    for piece in graph.pieces:
        result = piece.result
        lines.append(f"  executable: {piece.nodes} ops, graph {piece.graph_bytes:,} bytes, {result['outcome'].replace('_', ' ')}")
        lines.append(f"    graph key {result['graph_key'][:16]}, module key {result['module_key'][:16]}")
        lines += [f"    {text}" for text in _report_lines(result.get("report", {}))]
    if graph.issues:
        lines.append(f"  in eager PyTorch: {len(graph.issues)} ops")
        lines += ["  " + line for line in errors.describe_issues(graph.issues).splitlines()]
    return lines


def _report_lines(report: dict[str, Any]) -> list[str]:
    lines = []
    memory, cost = report.get("memory", {}), report.get("cost", {})
    if memory.get("available"):
        names = ("argument", "output", "temporary", "alias", "code", "peak")
        parts = [f"{name} {_bytes(memory[f'{name}_bytes'])}" for name in names if memory.get(f"{name}_bytes")]
        lines.append("memory: " + ", ".join(parts))
    if cost.get("available"):
        estimate = f", estimated {_time(cost['optimal_seconds'])}" if cost.get("optimal_seconds", 0) > 0 else ""
        lines.append(f"cost: {cost['flops']:.3g} flops, {_bytes(cost['bytes_accessed'])} accessed{estimate}")
    return lines


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
