"""The TorchDynamo backend: `torch.compile(model, backend="tpu")`, and `backend="tpud"`, which is always ours."""

from __future__ import annotations

import contextlib
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

    _check_name()
    try:
        parsed = option_module.parse(options, mode)
    except errors.OptionsError as error:
        return raising(error)
    backend = aot_autograd(
        fw_compiler=functools.partial(compile_graph, options=parsed, phase="forward"),
        bw_compiler=functools.partial(compile_graph, options=parsed, phase="backward"),
        inference_compiler=functools.partial(compile_graph, options=parsed, phase="inference"),
        decompositions=decompositions(parsed.checks),
        partition_fn=joint.split,
        keep_inference_input_mutations=False,
    )
    with attention_path(example_inputs):
        return overlap.guarded(gm, example_inputs, backend(gm, example_inputs), parsed.fallback)


def tpu(gm: fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """The same as `tpud`, under the name that the world expects."""
    return tpud(gm, example_inputs, **kwargs)


def attention_path(example_inputs: Sequence[Any]) -> contextlib.AbstractContextManager[Any]:
    """How `scaled_dot_product_attention` is traced: whole for inference, by torch's math path for training.

    Whole, its gradient computes the probabilities again instead of saving them, which takes up to half more time on the
    CPU. Who would rather save the memory turns the math path off, with `torch.nn.attention.sdpa_kernel`.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    trains = torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in example_inputs)
    math = trains and torch.backends.cuda.math_sdp_enabled()
    return sdpa_kernel(SDPBackend.MATH) if math else contextlib.nullcontext()


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
