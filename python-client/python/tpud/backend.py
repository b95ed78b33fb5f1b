"""The TorchDynamo backend: `torch.compile(model, backend="tpu")`, and `backend="tpud"`, which is always ours."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from tpud import options as option_module
from tpud import errors, joint, overlap, stats
from tpud.decompositions import decompositions
from tpud.executable import executable, raising
from tpud.options import Options
from tpud.roles import roles_of


def tpud(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles one Dynamo graph. See `tpud.options` for the options and modes."""
    from torch._dynamo.backends.common import aot_autograd
    from torch.nn.attention import SDPBackend, sdpa_kernel

    _check_name()
    try:
        parsed = option_module.parse(options, mode)
    except errors.OptionsError as error:
        return raising(error)
    backend = aot_autograd(
        fw_compiler=functools.partial(compile_graph, options=parsed, phase="forward"),
        bw_compiler=functools.partial(compile_graph, options=parsed, phase="backward"),
        inference_compiler=functools.partial(compile_graph, options=parsed, phase="inference"),
        decompositions=decompositions(),
        partition_fn=joint.split,
        keep_inference_input_mutations=False,
    )
    # On the CPU torch would trace a fused attention kernel, whose backward can't be taken apart.
    with sdpa_kernel(SDPBackend.MATH):
        return overlap.guarded(gm, example_inputs, backend(gm, example_inputs), parsed.fallback)


def tpu(gm: fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """The same as `tpud`, under the name that the world expects."""
    return tpud(gm, example_inputs, **kwargs)


def compile_graph(
    gm: fx.GraphModule, example_inputs: Sequence[Any], options: Options, phase: str = "inference"
) -> Callable[[list[Any]], Any]:
    """A compiler for AOTAutograd: takes a functional ATen graph, returns a callable in the boxed convention."""
    return executable(gm, roles_of(gm, phase), options, _name(gm))


def zoo_stats() -> dict[str, Any]:
    """{"fallback_ops": {op: count}, "compiles": ..., "graphs": ...} since the process started."""
    return stats.totals()


@functools.cache
def _check_name() -> None:
    """Another package may have taken the name "tpu" before us; ours is then still there as "tpud"."""
    from torch._dynamo.backends import registry

    registered = registry._COMPILER_FNS.get("tpu")
    if registered not in (None, tpu):
        warnings.warn(
            f'the Dynamo backend "tpu" belongs to {registered.__module__}; use backend="tpud" for tpud', stacklevel=3
        )


def _name(gm: fx.GraphModule) -> str:
    """The class of the outermost module in the graph, for people."""
    for node in gm.graph.nodes:
        for _, kind in (node.meta.get("nn_module_stack") or {}).values():
            return kind.rpartition(".")[2] if isinstance(kind, str) else kind.__name__
    return "graph"
