"""Inputs that share memory: a graph which writes to one of its inputs is right only for the sharing it was traced with.

Dynamo guards the identity of inputs, not whether two different ones overlap, so the calls that differ in this are
found here. They run as the user wrote them.
"""

from __future__ import annotations

import collections
import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._C._dynamo.guards import compute_overlapping_tensors
from torch._guards import TracingContext

from tpud import errors

MESSAGE = (
    "tpud: inputs of a compiled function share memory in another way than when it was compiled, and it writes to one "
    "of them"
)


def guarded(
    gm: fx.GraphModule, example_inputs: Sequence[Any], run: Callable[..., Any], fallback: str
) -> Callable[..., Any]:
    """`run`, the compiled form of `gm`; or, if `gm` writes to an input, something that first looks at how the inputs
    overlap. To be called while Dynamo's tracing context is there."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return run
    static = frozenset(metadata.static_input_indices or ())
    mutated = frozenset(metadata.mutated_inp_runtime_indices) - static
    tensors = [index for index, each in enumerate(example_inputs) if isinstance(each, torch.Tensor)]
    if not mutated or len(tensors) < 2:
        return run
    mode = context.fake_mode
    shape_env = mode.shape_env if mode is not None else None
    with shape_env.suppress_guards() if shape_env is not None else contextlib.nullcontext():
        # When inputs overlap while tracing, AOTAutograd merges them, and its numbering is not ours any more.
        expected = overlapping(example_inputs, tensors, frozenset(tensors))
    writers = frozenset(tensors) if expected else mutated

    def call(*args: Any) -> Any:
        if overlapping(args, tensors, writers) == expected:
            return run(*args)
        if fallback == "error":
            raise errors.UnsupportedOpError(MESSAGE, "INPUTS_OVERLAP", "pass a `clone()` of one of them")
        warnings.warn(f"{MESSAGE}; such calls run in eager PyTorch", errors.FallbackWarning, stacklevel=2)
        return gm.forward(*args)

    return call


def overlapping(args: Sequence[Any], tensors: Sequence[int], writers: frozenset[int]) -> frozenset[int]:
    """Those of `tensors` (positions in `args`) that have memory in common with one of `writers`."""
    storages = [args[index].untyped_storage()._cdata for index in tensors]
    if len(set(storages)) == len(storages):
        return frozenset()
    groups = collections.defaultdict(list)
    for index, storage in zip(tensors, storages, strict=True):
        groups[storage].append(index)
    found: set[int] = set()
    for group in groups.values():
        if len(group) > 1 and not writers.isdisjoint(group):
            members = [args[index] for index in group]
            found.update(group[position] for position in compute_overlapping_tensors(members, symbolic=_symbolic(members)))
    return frozenset(found)


def _symbolic(tensors: Sequence[torch.Tensor]) -> bool:
    return any(each._has_symbolic_sizes_strides for each in tensors)
