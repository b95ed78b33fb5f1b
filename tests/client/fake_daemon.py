"""A stand-in for the daemon inside of the test process: it runs each piece with eager PyTorch from host memory.

It sees exactly what the extension would see (pointers, sizes, buffers, bytes), so the client's own logic is tested
without a compiler; the tests in tests/e2e run the same programs through the real daemon.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

import torch

from tpud import _tpud, encode
from tpud.seeds import Draw


def raw_error(code_name: str, reason: str, message: str, issues: list[dict] | None = None) -> _tpud.RawError:
    """A failure as the extension raises it."""
    error = _tpud.RawError(message)
    values = dict(code=0, code_name=code_name, reason=reason, message=message, issues=issues or [], hint="", log_tail="")
    for name, value in dict(values, needed_bytes=0, available_bytes=0).items():
        setattr(error, name, value)
    return error


class Buffer:
    """A tensor on the pretended device."""

    def __init__(self, tensor: torch.Tensor, owner: Connection) -> None:
        self.tensor = tensor
        self.owner = owner
        owner.buffers.add(self)

    def download(self, data_ptr: int, nbytes: int) -> None:
        if self.owner.pid != os.getpid():
            raise raw_error("UNAVAILABLE", "FORKED", "the connection is the parent's")
        if not self.owner.alive:
            raise raw_error("UNAVAILABLE", "CONNECTION_LOST", "the daemon is gone")
        assert nbytes == self.tensor.nbytes
        self.owner.fetched_bytes += nbytes
        if nbytes:
            ctypes.memmove(data_ptr, self.tensor.data_ptr(), nbytes)


class Executable:
    """Runs one graph; checks what it is given as the extension does."""

    def __init__(self, owner: Connection, gm: Any, encoded: encode.Encoded) -> None:
        self.owner = owner
        self.gm = gm
        self.encoded = encoded
        self.metas = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]

    def run(self, inputs: list[Any], outputs: list[Any], wait: bool = True) -> list[Any]:
        if not self.owner.alive:
            raise raw_error("UNAVAILABLE", "CONNECTION_LOST", "the daemon is gone")
        self.owner.runs += 1
        args: list[Any] = [None] * len(self.metas)
        for source, given in zip(self.encoded.inputs, inputs, strict=True):
            if isinstance(source, torch.Tensor):
                assert torch.equal(self._tensor(given, source), source)
            elif isinstance(source, Draw):
                self.owner.seeds.append(self._tensor(given, torch.empty(2, dtype=torch.int64)))
            else:
                args[source] = self._tensor(given, self.metas[source])
        results = self.gm.forward(*args)
        if self.owner.daemon.checks:
            results = (*results, torch.tensor(self.owner.daemon.violated, dtype=torch.int32))
        assert len(results) == len(outputs)
        return [self._deliver(result, wanted) for result, wanted in zip(results, outputs, strict=True)]

    def _tensor(self, given: Any, meta: torch.Tensor) -> torch.Tensor:
        if isinstance(given, Buffer):
            assert given.owner is self.owner, "a buffer of another connection"
            return given.tensor
        pointer, nbytes = given[:2]
        result = torch.empty(tuple(meta.shape), dtype=meta.dtype)
        assert nbytes == result.nbytes
        self.owner.host_bytes += nbytes
        if nbytes:
            ctypes.memmove(result.data_ptr(), pointer, nbytes)
        return result

    def _deliver(self, result: torch.Tensor, wanted: Any) -> Buffer | None:
        dense = result.contiguous()
        if wanted == "keep":
            return Buffer(dense.clone(), self.owner)
        how, pointer, nbytes = wanted
        assert nbytes == dense.nbytes
        self.owner.fetched_bytes += nbytes
        if nbytes:
            ctypes.memmove(pointer, dense.data_ptr(), nbytes)
        return Buffer(dense.clone(), self.owner) if how == "keep_fetch" else None


class Result:
    """A finished compile."""

    def __init__(self, executable: Executable, checks: list[dict[str, Any]]) -> None:
        self.executable = executable
        self.checks = checks

    def to_dict(self) -> dict[str, Any]:
        return {"graph_key": "0" * 64, "module_key": "1" * 64, "outcome": "compiled", "report": {}, "timings": {}}


class Connection:
    """One pretended session."""

    def __init__(self, daemon: FakeDaemon) -> None:
        self.daemon = daemon
        self.alive = True
        self.runs = 0
        self.uploads = 0
        self.host_bytes = 0
        self.fetched_bytes = 0
        self.pid = os.getpid()
        self.buffers: weakref.WeakSet[Buffer] = weakref.WeakSet()
        self.seeds: list[torch.Tensor] = []

    def compile(self, graph: bytes, options: Any = None, progress: Any = None, timeout: Any = None) -> Result:
        if not self.alive:
            raise raw_error("UNAVAILABLE", "CONNECTION_LOST", "the daemon is gone")
        self.daemon.compiles += 1
        self.daemon.options.append(options)
        gm, encoded = self.daemon.graphs[graph]
        refused = [
            dict(op=str(node.target), node=index, message="no lowering", file="", line=0, function="", code="", module_path="")
            for index, node in enumerate(encoded.nodes)
            if str(node.target) in self.daemon.unsupported
        ]
        if refused:
            raise raw_error("UNIMPLEMENTED", "UNSUPPORTED_OP", "unsupported ops", refused)
        return Result(Executable(self, gm, encoded), self.daemon.checks)

    def upload(self, data_ptr: int, nbytes: int, dtype: str, sizes: list[int]) -> Buffer:
        if not self.alive:
            raise raw_error("UNAVAILABLE", "CONNECTION_LOST", "the daemon is gone")
        self.uploads += 1
        tensor = torch.empty(sizes, dtype=getattr(torch, dtype))
        assert tensor.nbytes == nbytes
        if nbytes:
            ctypes.memmove(tensor.data_ptr(), data_ptr, nbytes)
        return Buffer(tensor, self)


class FakeDaemon:
    """Counts what it is asked for; refuses the ops in `unsupported`."""

    def __init__(self) -> None:
        self.unsupported: set[str] = set()
        self.graphs: dict[bytes, Any] = {}
        self.options: list[Any] = []
        self.connections: list[Connection] = []
        self.compiles = 0
        self.available = True
        # What each executable checks, and the number that it returns then.
        self.checks: list[dict[str, Any]] = []
        self.violated = -1

    def open(self) -> Connection:
        if not self.available:
            raise raw_error("UNAVAILABLE", "DAEMON_START_FAILED", "no daemon")
        self.connections.append(Connection(self))
        return self.connections[-1]

    def kill(self) -> None:
        for connection in self.connections:
            connection.alive = False

    @property
    def connection(self) -> Connection:
        return self.connections[-1]
