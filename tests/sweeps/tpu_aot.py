"""The Dynamo backend `tpu_aot`: compiles every graph for a TPU ahead of time and runs it in eager PyTorch.

There is no TPU where the sweeps run, so this says one thing only: whether libtpu accepts the module. What it refuses
is kept for the row of the model, in `zoo_stats`, with libtpu's message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from tpud import backend, decompositions, errors, executable
from tpud.capture import has_unbacked_symbols, is_static, specialise
from tpud.options import Options

TARGET = "v6e:1x1"
OPTIONS = Options(fallback="error", target=TARGET)

# Of this process: graphs that were compiled, and [phase, message] of those that were not.
_compiled = 0
_refused: list[list[str]] = []


def tpu_aot(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """AOTAutograd as the backend `tpu` has it, with executables that are made and not run."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def compiler(phase: str) -> Callable[..., Any]:
        def compile_graph(graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            if is_static(graph):
                attempt(graph, phase)
                return make_boxed_func(graph.forward)
            return make_boxed_func(at_each_size(graph, phase))

        return compile_graph

    aot = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions.decompositions(),
        keep_inference_input_mutations=False,
    )
    with sdpa_kernel(SDPBackend.MATH):
        return aot(gm, example_inputs)


def at_each_size(graph: fx.GraphModule, phase: str) -> Callable[..., Any]:
    """The graph in eager PyTorch, compiled for the TPU whenever it is called with new sizes."""
    seen = set()

    def run(*args: Any) -> Any:
        key = tuple(tuple(arg.shape) if isinstance(arg, torch.Tensor) else arg for arg in args)
        if key not in seen:
            seen.add(key)
            attempt(graph if has_unbacked_symbols(graph) else specialise(graph, args), phase)
        return graph.forward(*args)

    return run


def attempt(graph: fx.GraphModule, phase: str) -> None:
    """Compiles a graph for the target; what comes of it is counted."""
    global _compiled
    try:
        if has_unbacked_symbols(graph):
            raise errors.UnsupportedOpError("sizes depend on data", "DATA_DEPENDENT_SIZE")
        executable.compile_static(graph, backend._roles(phase), OPTIONS, backend._name(graph))
        _compiled += 1
    except errors.Error as error:
        _refused.append([phase, str(error)[:2000]])


def zoo_stats() -> dict[str, Any]:
    """What the row of a model says of its graphs."""
    return {"target": TARGET, "compiled": _compiled, "refused": _refused}
