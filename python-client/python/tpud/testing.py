"""For tests of lowerings: one op or a small function to a graph, to bytes, or through the daemon, without Dynamo."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx


def trace_op(fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> fx.GraphModule:
    """The graph that `fn(*args, **kwargs)` is compiled from: the same functional, decomposed ATen as in production.

    Sizes are static, and arguments that are not tensors are constants. `kwargs` may hold tensors; they become inputs
    after those of `args`.
    """
    from tpud.capture import is_static, normalise, specialise

    graphs: list[fx.GraphModule] = []

    def keep(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        static = gm if is_static(gm) else specialise(gm, example_inputs)
        graphs.append(normalise(static).gm)
        return gm.forward

    _through_aot(fn, args, kwargs or {}, keep)
    return graphs[0]


def encode_op(fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
    """`trace_op`, then `tpud.encode.encode_graph`: an `Encoded`."""
    from tpud.encode import encode_graph

    return encode_graph(trace_op(fn, args, kwargs), name=getattr(fn, "__name__", "op"))


def run_op(fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
    """What `fn(*args, **kwargs)` returns when the daemon computes it. Unsupported ops raise."""
    from tpud.backend import compile_graph
    from tpud.options import Options

    options = Options(fallback="error")
    return _through_aot(fn, args, kwargs or {}, lambda gm, inputs: compile_graph(gm, inputs, options))


def _through_aot(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], compiler: Any) -> Any:
    """Runs AOTAutograd for inference over the tensors in the arguments and calls the result once."""
    from torch._functorch.aot_autograd import aot_function
    from torch.utils import _pytree as pytree

    from tpud.decompositions import decompositions

    flat, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    is_tensor = [isinstance(each, torch.Tensor) for each in flat]

    def over_tensors(*tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        filled = [next(given) if tensor else each for each, tensor in zip(flat, is_tensor, strict=True)]
        call_args, call_kwargs = pytree.tree_unflatten(filled, spec)
        return fn(*call_args, **call_kwargs)

    tensors = [each for each in flat if isinstance(each, torch.Tensor)]
    compiled = aot_function(
        over_tensors,
        fw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=decompositions(),
        keep_inference_input_mutations=False,
    )
    with torch.no_grad():
        return compiled(*tensors)
