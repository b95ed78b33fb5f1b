"""What this process has compiled so far, and who is listening (`tpud.explain`)."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

from tpud.encode import Issue


# How a graph that runs in eager PyTorch as a whole is counted among the ops that fall back.
WHOLE_GRAPH = "(whole graph)"


@dataclasses.dataclass
class PieceRecord:
    """One executable: what the daemon said about it, and the seconds that its calls took."""

    nodes: int
    graph_bytes: int
    result: dict[str, Any]
    encode_seconds: float
    request_seconds: float
    calls: int = 0
    run_seconds: float = 0.0
    upload_seconds: float = 0.0
    uploaded_bytes: int = 0


@dataclasses.dataclass
class GraphRecord:
    """One graph of a compiled function: its pieces, and the ops that run in eager PyTorch."""

    name: str
    phase: str
    ops: dict[str, int]
    pieces: list[PieceRecord] = dataclasses.field(default_factory=list)
    issues: list[Issue] = dataclasses.field(default_factory=list)
    whole_in_eager: str = ""


class _Totals:
    def __init__(self) -> None:
        self.graphs = 0
        self.compiles = 0
        self.fallback_ops: collections.Counter[str] = collections.Counter()
        self.lock = threading.Lock()


_totals = _Totals()
_listeners: list[list[GraphRecord]] = []


def add(record: GraphRecord) -> None:
    """Counts a compiled graph and tells who listens."""
    with _totals.lock:
        _totals.graphs += 1
        _totals.compiles += len(record.pieces)
        _totals.fallback_ops.update(issue.op for issue in record.issues)
        if record.whole_in_eager:
            _totals.fallback_ops[WHOLE_GRAPH] += 1
        for listener in _listeners:
            listener.append(record)


def totals() -> dict[str, Any]:
    """{"graphs", "compiles", "fallback_ops": {op: count}} of this process."""
    with _totals.lock:
        return {
            "graphs": _totals.graphs,
            "compiles": _totals.compiles,
            "fallback_ops": dict(sorted(_totals.fallback_ops.items())),
        }


def is_listening() -> bool:
    """Whether calls have to be timed."""
    return bool(_listeners)


@contextlib.contextmanager
def listen() -> Iterator[list[GraphRecord]]:
    """Collects the graphs that are compiled inside of the block."""
    records: list[GraphRecord] = []
    with _totals.lock:
        _listeners.append(records)
    try:
        yield records
    finally:
        with _totals.lock:
            _listeners[:] = [each for each in _listeners if each is not records]
