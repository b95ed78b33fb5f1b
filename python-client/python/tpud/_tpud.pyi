"""Types of the Rust extension: the graph encoder, the connection to a daemon, and its auto-start.

Importing the module creates no thread and no socket. Every blocking call releases the GIL. Nothing that was made
before a fork works in the child: such an object raises `RawError` (UNAVAILABLE, reason "FORKED"), and dropping it
there does nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict

__version__: str
"""The version of the extension, e.g. "0.1.0"."""

INLINE_LIMIT: int
"""Calls that move at most this many bytes of host memory carry them in the message (64 KiB)."""

PROTOCOL_MIN: int
PROTOCOL_MAX: int
"""The oldest and the newest protocol version this extension speaks."""

Expr = int | tuple[Any, ...]
"""A size: an int, `("sym", index)`, or a call `(function, a, b, ...)` over expressions, where function is "add",
"mul", "floor_div", "ceil_div", "mod", "min", "max" or "pow"."""

DTypeName = str
"""torch's name without the prefix: "float32", "bfloat16", "int64", "bool", "float8_e4m3fn", ..."""

Role = Literal["user_input", "parameter", "constant", "symbol", "seed"]
OutputRole = Literal["user_output", "mutation", "saved"]

class Ref:
    """A reference to the tensor with this value number, as an argument of a node."""

    id: int
    def __init__(self, id: int) -> None: ...

class DType:
    """A dtype as an argument of a node."""

    name: DTypeName
    def __init__(self, name: DTypeName) -> None: ...

class Sym:
    """A symbolic integer as an argument of a node."""

    expr: Expr
    def __init__(self, expr: Expr) -> None: ...

Value = None | bool | int | float | complex | str | Ref | DType | Sym | Subgraph | list[Any] | tuple[Any, ...]
"""An argument of a node; lists and tuples nest. An int outside of int64 raises OverflowError."""

OutputMeta = tuple[DTypeName, Sequence[Expr], Sequence[Expr] | None] | None
"""(dtype, sizes, strides); strides None: contiguous. None: torch returned None for this output."""

class GraphBuilder:
    """Builds and encodes one `tpud.v1.Graph`. Equal calls give equal bytes on any host.

    Values are numbered in the order of encoding: all inputs, then all constants, then every output of every node
    (absent ones too). Adding an input after a constant or a node, or a constant after a node, raises ValueError, and
    so does a reference to a value that does not exist yet.
    """

    node_count: int
    value_count: int
    def __init__(self, name: str) -> None: ...
    def add_symbol(self, name: str, min: int, max: int, hint: int) -> int:
        """Adds a named size and returns its index, for `("sym", index)`."""
    def add_input(
        self,
        role: Role,
        dtype: DTypeName,
        sizes: Sequence[Expr],
        strides: Sequence[Expr] | None = None,
        storage_offset: Expr = 0,
        symbol: int | None = None,
    ) -> int:
        """Adds an input and returns its value number. Role "symbol" needs `symbol`, the others must not have it."""
    def add_constant(self, dtype: DTypeName, sizes: Sequence[int], data: bytes) -> int:
        """Adds a dense row-major little-endian tensor (a bool is one byte) and returns its value number."""
    def location(self, file: str, line: int, function: str = "", code: str = "", module_path: str = "") -> int:
        """The id of a user's source line, for `add_node`. Equal locations share an id; 0 is never returned."""
    def add_node(
        self, op: str, args: Sequence[tuple[str, Value]], outputs: Sequence[OutputMeta], location: int = 0
    ) -> int:
        """Adds a node and returns the value number of its first output (the next ones follow)."""
    def add_output(self, role: OutputRole, value: int, input: int | None = None) -> None:
        """Adds an output. Role "mutation" needs `input`, the value number of the mutated input."""
    def finish(self) -> bytes:
        """The encoded graph. The builder stays usable."""

class SubgraphBuilder:
    """Builds a graph that a node runs: a branch, the body of a loop. It sees nothing but its own inputs, and numbers its
    values from 0. Symbols and locations are those of the graph around it."""

    def __init__(self, around: GraphBuilder) -> None: ...
    def add_input(self, dtype: DTypeName, sizes: Sequence[Expr]) -> int:
        """Adds an input and returns its value number."""
    def add_node(
        self, op: str, args: Sequence[tuple[str, Value]], outputs: Sequence[OutputMeta], location: int = 0
    ) -> int:
        """As `GraphBuilder.add_node`; `location` is an id of the builder around."""
    def finish(self, outputs: Sequence[int]) -> Subgraph:
        """The nested graph. The builder stays usable."""

class Subgraph:
    """A nested graph as an argument of a node."""

    node_count: int

class IssueDict(TypedDict):
    op: str
    node: int
    message: str
    file: str
    line: int
    function: str
    code: str
    module_path: str

class RawError(Exception):
    """Any failure of the daemon or of the way to it; `tpud.errors` turns it into a class of its own.

    Reasons of the extension itself: "CONNECTION_LOST" (connect, or a connection that died: open a new one; handles
    are gone), "SESSION_EXPIRED", "FORKED", "CLOSED", "DEADLINE_EXCEEDED", "MESSAGE_TOO_LARGE", "SHARED_MEMORY",
    "INVALID_ADDRESS", "DAEMON_NOT_FOUND" (no `tpud` binary), "DAEMON_START_FAILED" (with log_tail),
    "UNSAFE_RUNTIME_DIRECTORY", "BAD_REPLY". Others come from the daemon (docs/ERRORS.md).
    """

    code: int
    """The gRPC status code."""
    code_name: str
    """e.g. "UNAVAILABLE"."""
    reason: str
    message: str
    issues: list[IssueDict]
    hint: str
    log_tail: str
    needed_bytes: int
    available_bytes: int

HostInput = tuple[int, int] | tuple[int, int, DTypeName, Sequence[int]]
"""(data_ptr, nbytes) or (data_ptr, nbytes, dtype, sizes) of a dense row-major CPU tensor. The short form takes dtype
and sizes from the executable's signature, and nbytes has to fit them. The caller keeps the tensor alive, and its
memory unchanged, until the call returns."""

HostOutput = Literal["keep"] | tuple[Literal["fetch"], int, int] | tuple[Literal["keep_fetch"], int, int] | None
""""keep": leave the output on the device, as a Buffer. ("fetch", data_ptr, nbytes): copy it into a dense tensor of
exactly that many bytes. ("keep_fetch", ...): both. None: not wanted."""

class Buffer:
    """A tensor on the daemon's device. Dropping it releases it (lazily, with the next command)."""

    handle: int
    nbytes: int
    """Bytes of the dense host form."""
    def download(self, data_ptr: int, nbytes: int) -> None:
        """Copies the content into a dense tensor of exactly that many bytes."""
    def free(self) -> None:
        """Releases the buffer now rather than when dropped; using it afterwards raises ValueError."""

class LoadedExecutable:
    """An executable on the daemon's device. Dropping it unloads it (lazily)."""

    handle: int
    num_inputs: int
    num_outputs: int
    def run(
        self,
        inputs: Sequence[Buffer | HostInput],
        outputs: Sequence[HostOutput],
        wait: bool = True,
    ) -> list[Buffer | None]:
        """Runs once and returns one entry per output: a Buffer for a kept one, else None.

        wait=False (needs that nothing is fetched) returns once the command is sent: an error is raised by the next
        call that uses one of the kept buffers.
        """
    def free(self) -> None: ...

class CompileResult:
    """What compiling gave."""

    graph_key: str
    module_key: str
    outcome: Literal["compiled", "memory_hit", "disk_hit", "module_hit", "shared", "unspecified"]
    executable: LoadedExecutable | None
    """Set when it was asked for."""
    signature: dict[str, list[dict[str, Any]]]
    """{"inputs": [{"dtype": str, "sizes": [Expr]}], "outputs": [...]}"""
    report: dict[str, Any]
    """{"memory": {"available", "argument_bytes", "output_bytes", "temporary_bytes", "alias_bytes", "code_bytes",
    "peak_bytes", "device_bytes"}, "cost": {"available", "flops", "bytes_accessed", "optimal_seconds"},
    "executable_bytes": int, "module_bytes": int, "ops": {overload: count}}"""
    timings: dict[str, float]
    """queue_seconds, lower_seconds, serialize_seconds, compile_seconds, load_seconds, total_seconds."""
    graph_key_components: list[dict[str, str]]
    """[{"name", "value", "digest"}], in order."""
    module_key_components: list[dict[str, str]]
    serialized: bytes
    """The executable's bytes when they were asked for, else empty."""
    def to_dict(self) -> dict[str, Any]:
        """Everything above but `executable` and `serialized`, ready for JSON."""

class CompileOptions(TypedDict, total=False):
    """An unknown key raises ValueError with the known ones."""

    platform: str
    """ "cpu" or "tpu"; empty: the daemon's own device."""
    topology: str
    """e.g. "v6e:2x2"; empty for cpu."""
    precision: Literal["highest", "high", "medium"]
    xla_flags: dict[str, bool | int | float | str]

class Connection:
    """One session with a daemon: the lease is kept by a heartbeat, commands go through one ordered stream.

    Safe to use from several threads. It is closed at interpreter exit.
    """

    address: str
    session_id: str
    daemon_version: str
    protocol: int
    epoch: str
    """Changes when the daemon restarts."""
    lease_seconds: int
    shared_directory: str | None
    """Where tensors are exchanged with a daemon on this machine; None: they travel in messages."""
    max_message_bytes: int
    devices: list[dict[str, Any]]
    """[{"id", "platform", "kind", "description", "memory_bytes", "memory_used_bytes"}], as of the handshake."""
    pid: int
    """The process that opened it."""
    alive: bool
    """False once it was closed, lost or forked away: open a new one."""

    @staticmethod
    def open(address: str, client_version: str, torch_version: str, timeout: float = 10.0) -> Connection:
        """Connects to "unix:///path", "http://host:port" or "https://host:port" and opens a session."""
    def compile(
        self,
        graph: bytes,
        options: CompileOptions | None = None,
        executable: bool = True,
        progress: Callable[[str, float, int], object] | None = None,
        timeout: float | None = None,
        want_serialized: bool = False,
    ) -> CompileResult:
        """Compiles an encoded graph and, with `executable`, loads it on the daemon's device.

        `progress(stage, elapsed_seconds, queue_position)` is called with stage "queued", "lowering", "compiling",
        "loading" or "waiting" on the calling thread; what it raises cancels the compile.
        """
    def lower(self, graph: bytes, options: CompileOptions | None = None, timeout: float | None = None) -> dict[str, Any]:
        """{"text": StableHLO, "module_digest": str, "module_bytes": int}"""
    def ops(self) -> list[str]:
        """Every op overload that the daemon can lower, sorted."""
    def status(self) -> dict[str, Any]:
        """StatusReply as a dict, with "workers", "devices", "counters" (docs in status.proto)."""
    def list_devices(self) -> dict[str, list[dict[str, Any]]]:
        """{"devices": [...], "platforms": [{"platform", "available", "plugin_path", "plugin_identity", "detail",
        "topologies"}]}"""
    def cache_list(self, limit: int = 0) -> dict[str, Any]:
        """{"entries": [{"key", "kind", "tier", "bytes", "last_used_unix_seconds", "components"}], "total_entries",
        "total_bytes"}"""
    def cache_explain(self, subject: str | bytes, options: CompileOptions | None = None) -> dict[str, Any]:
        """For a key (or a prefix) or an encoded graph: {"key", "stored", "components", "nearest": dict | None,
        "differing": [str]}"""
    def cache_verify(self) -> dict[str, Any]:
        """{"checked": int, "quarantined": [key]}"""
    def cache_prune(self, max_bytes: int) -> dict[str, int]:
        """{"removed": int, "freed_bytes": int}"""
    def upload(self, data_ptr: int, nbytes: int, dtype: DTypeName, sizes: Sequence[int]) -> Buffer:
        """Copies a dense CPU tensor to the device. The tensor's memory is free to change when this returns; an error
        of the device is raised by the first call that uses the buffer."""
    def synchronize(self) -> None:
        """Waits until every command sent so far was answered and raises the first error that no call has raised."""
    def transfer_stats(self) -> dict[str, int]:
        """{"runs", "uploads", "downloads", "inline_bytes", "shared_bytes", "chunked_bytes", "segments",
        "segment_bytes", "freed_handles"} since the connection was opened."""
    def shutdown_daemon(self) -> None:
        """Asks the daemon to finish its work and exit (Unix socket only)."""
    def close(self) -> None:
        """Ends the session and releases all it holds. Calling it again does nothing."""

def default_socket_path() -> str:
    """$TPUD_RUNTIME_DIR/daemon.sock, else $XDG_RUNTIME_DIR/tpud/daemon.sock, else /tmp/tpud-<uid>/daemon.sock."""

def find_binary() -> str | None:
    """The `tpud` binary: $TPUD_BIN, else tpud/bin/tpud in this package, else beside the interpreter, else on PATH."""

def daemon_address(timeout: float = 10.0) -> str:
    """The address to connect to: $TPUD_ADDRESS if set (nothing is started), else the per-user daemon's socket, after
    starting `tpud serve` if nothing accepts there. Raises RawError with the tail of the daemon's log if none comes
    up within `timeout` seconds."""
