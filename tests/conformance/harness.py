"""Conformance of single lowerings: each case is one op overload with samples, compared with eager PyTorch.

A case file under `cases/` holds `CASES = [case("aten.add.Tensor", samples), ...]`. A sample is `S(args..., **kwargs)`:
the arguments of the overload, tensors and all. The op is run as it is, without decomposition, so that its own rule is
what is tested.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree


class S:
    """One sample: the arguments of an op."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs

    def __repr__(self) -> str:
        def show(x: Any) -> str:
            return f"{str(x.dtype)[6:]}{list(x.shape)}" if isinstance(x, torch.Tensor) else repr(x)

        shown = pytree.tree_map(show, (self.args, self.kwargs))
        return f"S{shown}"


@dataclasses.dataclass
class Case:
    """An op overload, its samples, and how close its results must be to eager's."""

    op: str
    samples: Callable[[], Iterable[S]]
    rtol: float | None = None  # None: by dtype, as torch.testing does
    atol: float | None = None
    # For ops whose values are not determined (random, uninitialised): compare shape and dtype only, with a reason.
    values_undefined: str = ""
    # For ops that leave their outputs some freedom (signs of eigenvectors): what is determined, from sample and outputs.
    determined: Callable[[S, list[torch.Tensor]], list[torch.Tensor]] | None = None

    @property
    def overload(self) -> Any:
        if self.op.startswith("tpud."):
            importlib.import_module("tpud.bounded")  # defines our own ops
        return functools.reduce(getattr, self.op.split("."), torch.ops)


def case(op: str, samples: Callable[[], Iterable[S]], **tolerance: Any) -> Case:
    return Case(op, samples, **tolerance)


# Tensors for samples. Every sample function runs under its own seed, so cases don't depend on each other.


def rand(*sizes: int, dtype: torch.dtype = torch.float32, low: float = -3.0, high: float = 3.0) -> torch.Tensor:
    """Uniform values; integers include both bounds."""
    if dtype == torch.bool:
        return torch.rand(sizes) < 0.5
    if dtype.is_floating_point:
        return (torch.rand(sizes, dtype=torch.float64) * (high - low) + low).to(dtype)
    if dtype.is_complex:
        parts = torch.rand((2, *sizes), dtype=torch.float64) * (high - low) + low
        return torch.complex(parts[0], parts[1]).to(dtype)
    low = max(low, torch.iinfo(dtype).min)
    return torch.randint(int(low), int(high) + 1, sizes).to(dtype)


def special(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Edge values of a dtype: zeros of both signs, infinities, NaN, extremes; the limits of an integer."""
    if dtype == torch.bool:
        return torch.tensor([True, False])
    if dtype.is_floating_point:
        big = torch.finfo(dtype).max
        tiny = torch.finfo(dtype).tiny
        values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, big, -big, tiny, float("inf"), float("-inf"), float("nan")]
        return torch.tensor(values, dtype=torch.float64).to(dtype)
    info = torch.iinfo(dtype)
    return torch.tensor([0, 1, 2, 3, 7, info.max, info.min, info.max - 1, info.min + 1], dtype=dtype)


def traced(fn: Callable[..., Any], *examples: Any) -> fx.GraphModule:
    """`fn` as a graph: what a higher-order op takes. Its placeholders are `examples`, in order."""
    return make_fx(fn, tracing_mode="fake")(*examples)


FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def single_op_graph(overload: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[fx.GraphModule, list[torch.Tensor]]:
    """A graph with one node that calls `overload`, and the tensors it takes as inputs."""
    graph = fx.Graph()
    flat, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    mode = FakeTensorMode(allow_non_fake_inputs=False, static_shapes=True, shape_env=ShapeEnv())
    nodes, fakes, tensors = [], [], []
    root = torch.nn.Module()
    for item in flat:
        if isinstance(item, torch.Tensor):
            node = graph.placeholder(f"arg{len(tensors)}")
            node.meta["val"] = mode.from_tensor(item.contiguous(), static_shapes=True)
            tensors.append(item)
            nodes.append(node)
            fakes.append(node.meta["val"])
        elif isinstance(item, fx.GraphModule):
            # What a higher-order op runs.
            root.add_module(f"graph{len(nodes)}", item)
            nodes.append(graph.get_attr(f"graph{len(nodes)}"))
            fakes.append(item)
        else:
            nodes.append(item)
            fakes.append(item)
    call_args, call_kwargs = pytree.tree_unflatten(nodes, spec)
    node = graph.call_function(overload, call_args, call_kwargs)
    fake_args, fake_kwargs = pytree.tree_unflatten(fakes, spec)
    with mode:
        node.meta["val"] = overload(*fake_args, **fake_kwargs)
    value = node.meta["val"]
    if value is None:
        graph.output(())
    elif isinstance(value, (tuple, list)):
        items = []
        for i, item in enumerate(value):
            if isinstance(item, torch.Tensor):
                got = graph.call_function(__import__("operator").getitem, (node, i))
                got.meta["val"] = item
                items.append(got)
        graph.output(tuple(items))
    else:
        graph.output((node,))
    return fx.GraphModule(root, graph), tensors


def eager(overload: Any, sample: S) -> list[torch.Tensor]:
    """What eager PyTorch computes, flattened; outputs that are None are left out."""
    args, kwargs = pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, (sample.args, sample.kwargs))
    out = overload(*args, **kwargs)
    items = list(out) if isinstance(out, (tuple, list)) else [out]
    return [item for item in items if isinstance(item, torch.Tensor)]


def check(case: Case, sample: S, actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    """Fails with the sample unless dtypes, shapes and values agree."""
    where = f"{case.op} {sample}"
    if case.determined:
        assert [x.shape for x in actual] == [x.shape for x in expected], where
        actual, expected = case.determined(sample, list(actual)), case.determined(sample, list(expected))
    assert len(actual) == len(expected), f"{where}: {len(actual)} outputs, eager has {len(expected)}"
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        assert a.dtype == e.dtype, f"{where}: output {i} is {a.dtype}, eager's is {e.dtype}"
        assert a.shape == e.shape, f"{where}: output {i} is {list(a.shape)}, eager's is {list(e.shape)}"
        if case.values_undefined:
            continue
        torch.testing.assert_close(
            a, e, rtol=case.rtol, atol=case.atol, equal_nan=True, check_stride=False, msg=lambda m: f"{where}: output {i}: {m}"
        )
