"""One executable of a compiled function: its bytes, what it takes and gives, and one launch of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch._C._dynamo.guards import _empty_strided_cpu as empty_strided

from tpud import _tpud, checks, errors, parameters, progress, session, stats
from tpud.encode import Encoded
from tpud.options import Options
from tpud.saved import Held, SavedTensor


class Loaded:
    """A piece on the device of one connection."""

    __slots__ = ("connection", "executable", "inputs", "residents")

    def __init__(self, connection: _tpud.Connection, executable: Any, inputs: list[Any]) -> None:
        self.connection = connection
        self.executable = executable
        # The inputs of a launch, with the constants filled in.
        self.inputs = inputs
        # The parameters that were used last, by slot.
        self.residents: dict[int, parameters.Resident] = {}


class Piece:
    """A compiled part of a graph. Values live in numbered slots of a list (see `tpud.program`)."""

    def __init__(self, encoded: Encoded, options: Options, record: stats.PieceRecord) -> None:
        self.graph = encoded.graph
        self.options = options.compile_options()
        self.timeout = options.timeout
        self.record = record
        self.constants = encoded.constants
        self.input_count = len(encoded.inputs)
        # (position among the executable's inputs, slot, bytes)
        self.host_inputs: list[tuple[int, int, int]] = []
        self.parameter_inputs: list[tuple[int, int, int]] = []
        # (position, slot)
        self.device_inputs: list[tuple[int, int]] = []
        # (slot, sizes, strides, dtype, bytes), "fetch" or "keep_fetch", in the order of the outputs; None: kept only
        self.fetches: list[tuple[int, Any, Any, torch.dtype, int, str] | None] = []
        # (position among the outputs, slot) of buffers that stay on the device: until the end of the program, and for
        # as long as autograd wants them
        self.kept: list[tuple[int, int]] = []
        self.saved: list[tuple[int, int]] = []
        # With any, the executable returns one number more: which of them is the first that is violated, or -1.
        self.checks: list[checks.Check] = []
        self._loaded: Loaded | None = None

    def adopt(self, result: _tpud.CompileResult, connection: _tpud.Connection) -> None:
        """Takes the executable of a finished compile."""
        inputs: list[Any] = [None] * self.input_count
        for position, tensor in self.constants:
            inputs[position] = parameters._upload(tensor, connection)
        self._loaded = Loaded(connection, result.executable, inputs)

    def loaded(self) -> Loaded:
        """The executable on the current connection; compiled again (a cache hit) if that is a new one."""
        loaded = self._loaded
        if loaded is not None and loaded.connection is session.current:
            return loaded
        connection = session.connection()
        result = request(connection, self.graph, self.options, self.timeout)
        self.adopt(result, connection)
        return self._loaded

    def forget_connection(self) -> None:
        """After the connection was lost: the next launch opens another one."""
        if self._loaded is not None:
            session.discard(self._loaded.connection)

    def launch(self, slots: list[Any]) -> None:
        """Runs once, reading its inputs from `slots` and writing its outputs there."""
        loaded = self.loaded()
        inputs = loaded.inputs.copy()
        # Temporaries whose memory the launch reads; they have to live until it returns.
        alive = []
        for position, slot, nbytes in self.host_inputs:
            tensor = slots[slot]
            if type(tensor) is SavedTensor:
                inputs[position] = tensor.buffer_on(loaded.connection)
                continue
            if not tensor.is_contiguous() or tensor.is_neg() or tensor.is_conj():
                tensor = dense(tensor)
                alive.append(tensor)
            inputs[position] = (tensor.data_ptr(), nbytes)
        for position, slot in self.device_inputs:
            inputs[position] = slots[slot]
        if self.parameter_inputs:
            self._fill_parameters(loaded, slots, inputs, alive)
        outputs: list[Any] = []
        for fetch in self.fetches:
            if fetch is None:
                outputs.append("keep")
                continue
            slot, sizes, strides, dtype, nbytes, how = fetch
            tensor = slots[slot] = empty_strided(sizes, strides, dtype)
            outputs.append((how, tensor.data_ptr(), nbytes))
        if self.checks:
            flag = empty_strided((), (), torch.int32)
            outputs.append(("fetch", flag.data_ptr(), flag.nbytes))
        if stats.is_listening():
            buffers = self._timed(loaded, inputs, outputs)
        else:
            buffers = loaded.executable.run(inputs, outputs)
        if self.checks and (violated := flag.item()) >= 0:
            checks.fail(self.checks[violated])
        for position, slot in self.kept:
            slots[slot] = buffers[position]
        for position, slot in self.saved:
            slots[slot] = Held(buffers[position], loaded.connection)

    def _fill_parameters(self, loaded: Loaded, slots: list[Any], inputs: list[Any], alive: list[Any]) -> None:
        residents = loaded.residents
        for position, slot, nbytes in self.parameter_inputs:
            tensor = slots[slot]
            resident = residents.get(slot)
            if resident is None or not resident.is_current(tensor):
                if not parameters.is_keepable(tensor):
                    tensor = dense(tensor)
                    alive.append(tensor)
                    inputs[position] = (tensor.data_ptr(), nbytes)
                    continue
                started = time.perf_counter()
                resident = residents[slot] = parameters.store.resident(tensor, loaded.connection)
                self.record.upload_seconds += time.perf_counter() - started
                self.record.uploaded_bytes += nbytes
            inputs[position] = resident.buffer

    def _timed(self, loaded: Loaded, inputs: list[Any], outputs: list[Any]) -> list[Any]:
        started = time.perf_counter()
        buffers = loaded.executable.run(inputs, outputs)
        self.record.run_seconds += time.perf_counter() - started
        self.record.calls += 1
        return buffers


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Row-major values of a tensor of any layout in memory."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def request(connection: _tpud.Connection, graph: bytes, options: dict[str, Any], timeout: float | None) -> Any:
    """Has the daemon compile and load a graph; raises `_tpud.RawError`."""
    with progress.line() as report:
        return connection.compile(graph, options, progress=report, timeout=timeout)


def compile_piece(encoded: Encoded, options: Options, encode_seconds: float) -> Piece:
    """Compiles an encoded graph, once more on a new connection if the first one is lost. Raises `_tpud.RawError` for
    what the daemon refuses."""
    for last in (False, True):
        connection = session.connection()
        started = time.perf_counter()
        try:
            result = request(connection, encoded.graph, options.compile_options(), options.timeout)
            record = stats.PieceRecord(
                nodes=len(encoded.nodes),
                graph_bytes=len(encoded.graph),
                result=result.to_dict(),
                encode_seconds=encode_seconds,
                request_seconds=time.perf_counter() - started,
            )
            piece = Piece(encoded, options, record)
            piece.checks = checks.of_result(result, encoded.nodes)
            piece.adopt(result, connection)
            return piece
        except _tpud.RawError as raw:
            if last or not errors.is_lost(raw):
                raise
            session.discard(connection)
    raise AssertionError("unreachable")
