"""The Dynamo backend `tpu_aot`: compiles every graph for a TPU ahead of time and runs it in eager PyTorch.

There is no TPU where the sweeps run, so this says one thing only: whether libtpu accepts the module. What it refuses
is kept for the row of the model, in `zoo_stats`, with libtpu's message. Importing this turns the process's tpud into
that backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch import fx

from tpud import backend, errors, executable, piece
from tpud.capture import is_static, specialise
from tpud.options import Options
from tpud.roles import Roles, roles_of
from tpud.stepwise import makers

TARGET = "v6e:1x1"
OPTIONS = Options(fallback="error", target=TARGET)

# Of this process: graphs that were compiled, and [phase, message] of those that were not.
_compiled = 0
_refused: list[list[str]] = []


def tpu_aot(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """tpud, with `compile_graph` below in place of its own."""
    return backend.tpud(gm, example_inputs)


def compile_graph(graph: fx.GraphModule, inputs: Sequence[Any], options: Options, phase: str = "inference") -> Callable[..., Any]:
    """Compiles one graph of AOTAutograd, or at each call with new sizes what becomes of it; returns it as it is."""
    roles, seen = roles_of(graph, phase), set()
    if is_static(graph):
        attempt(graph, roles)
        return make_boxed_func(graph.forward)

    def run(*args: Any) -> Any:
        key = tuple(tuple(arg.shape) if isinstance(arg, torch.Tensor) else arg for arg in args)
        if key not in seen:
            seen.add(key)
            attempt(graph if makers(graph) else specialise(graph, args), roles)
        return graph.forward(*args)

    return make_boxed_func(run)


def attempt(graph: fx.GraphModule, roles: Roles) -> None:
    """Compiles a graph for the target; what comes of it is counted."""
    global _compiled
    try:
        if makers(graph):
            raise errors.UnsupportedOpError("sizes depend on data", "DATA_DEPENDENT_SIZE")
        executable.compile_static(graph, roles, OPTIONS, backend._name(graph))
        _compiled += 1
    except errors.Error as error:
        _refused.append([roles.phase, str(error)[:2000]])


def request(connection: Any, graph: bytes, options: dict[str, Any], timeout: float | None) -> Any:
    """Has the daemon compile a graph, without loading what comes of it: there is no such device."""
    return connection.compile(graph, options, executable=False, timeout=timeout)


def zoo_stats() -> dict[str, Any]:
    """What the row of a model says of its graphs."""
    return {"target": TARGET, "compiled": _compiled, "refused": _refused}


piece.request = request
backend.compile_graph = compile_graph
