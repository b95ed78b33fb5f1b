"""Results whose size depends on data, by their bound: what the device computes, and what the host cuts from it.

`tpud::nonzero` is an op of the graph contract: the positions at the largest size they can have (zeros behind those that
count), and their count. `rewrite` expresses torch's ops through it: the piece before computes the bounded positions, the
host reads the count and cuts, and what follows is compiled for the size that came out.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx

aten = torch.ops.aten


@torch.library.custom_op("tpud::nonzero", mutates_args=())
def nonzero(self: Tensor) -> tuple[Tensor, Tensor]:
    """The positions of nonzero elements, in order, in the first rows of [numel, dim]; and how many there are."""
    found = torch.nonzero(self)
    data = found.new_zeros((self.numel(), self.dim()))
    data[: len(found)] = found
    return data, torch.tensor(len(found))


@nonzero.register_fake
def _(self: Tensor) -> tuple[Tensor, Tensor]:
    return self.new_empty((self.numel(), self.dim()), dtype=torch.int64), self.new_empty((), dtype=torch.int64)


def cut(data: Tensor, count: Tensor) -> Tensor:
    """The rows that count. Runs on the host."""
    return data[: int(count)]


def rewrite(gm: fx.GraphModule) -> fx.GraphModule:
    """A copy of a graph in which ops with sizes that depend on data are expressed through bounded ones."""
    graph = fx.Graph()
    environment: dict[fx.Node, fx.Node] = {}
    for node in gm.graph.nodes:
        make = _REWRITES.get(node.target) if node.op == "call_function" else None
        copy = make(_Rewriter(graph, environment, node)) if make is not None else None
        environment[node] = graph.node_copy(node, lambda each: environment[each]) if copy is None else copy
    return fx.GraphModule(gm, graph)


class _Rewriter:
    """Adds nodes to the copy in the place of one node, with its line and their fake tensors."""

    def __init__(self, graph: fx.Graph, environment: dict[fx.Node, fx.Node], node: fx.Node) -> None:
        self.graph, self.environment, self.node = graph, environment, node
        self.mode = next(v.fake_mode for v in _values(node) if isinstance(v, torch._subclasses.FakeTensor))

    def argument(self, index: int, default: Any = None) -> Any:
        """An argument of the node, in the copy."""
        value = self.node.args[index] if index < len(self.node.args) else default
        return fx.node.map_arg(value, lambda each: self.environment[each])

    def add(self, target: Any, *args: Any, val: Any = None) -> fx.Node:
        """A further node; its fake result is computed unless it is given."""
        added = self.graph.call_function(target, args)
        added.meta = {key: value for key, value in self.node.meta.items() if key not in ("val", "unbacked_bindings")}
        if val is None:
            with self.mode:
                val = target(*fx.node.map_arg(args, lambda each: each.meta["val"]))
        added.meta["val"] = val
        return added

    def rows(self, x: fx.Node, val: Tensor) -> fx.Node:
        """The positions of the nonzero elements of `x`, cut to those that count."""
        pair = self.add(torch.ops.tpud.nonzero.default, x)
        data, found = (self.add(operator.getitem, pair, i, val=pair.meta["val"][i]) for i in (0, 1))
        return self.add(cut, data, found, val=val)

    def positions(self, mask: fx.Node, count: Any) -> list[fx.Node]:
        """The coordinates, a vector for each dimension, of the true elements of a mask; `count` is their number."""
        rank = mask.meta["val"].dim()
        with self.mode:
            rows = self.rows(mask, torch.empty((count, rank), dtype=torch.int64))
        return [self.add(aten.select.int, rows, 1, dim) for dim in range(rank)]


def _values(node: fx.Node) -> list[Any]:
    value = node.meta.get("val")
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _unbacked(sizes: Any) -> Any:
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return next((size for size in sizes if isinstance(size, torch.SymInt) and free_unbacked_symbols(size)), None)


def _nonzero(at: _Rewriter) -> fx.Node | None:
    return at.rows(at.argument(0), at.node.meta["val"])


def _masked_select(at: _Rewriter) -> fx.Node | None:
    x, mask, value = at.argument(0), at.argument(1), at.node.meta["val"]
    sizes = list(torch.broadcast_shapes(x.meta["val"].shape, mask.meta["val"].shape))
    if not all(isinstance(size, int) for size in sizes):
        return None
    x, mask = (at.add(aten.expand.default, each, sizes) for each in (x, mask))
    if not sizes:
        x, mask = (at.add(aten.unsqueeze.default, each, 0) for each in (x, mask))
    return at.add(aten.index.Tensor, x, at.positions(mask, value.shape[0]), val=value)


def _index(at: _Rewriter) -> fx.Node | None:
    """Masks become the coordinates that they select, as torch itself does it."""
    value, indices = at.node.meta["val"], list(at.argument(1))
    masks = [each for each in indices if each is not None and each.meta["val"].dtype in (torch.bool, torch.uint8)]
    count = _unbacked(value.shape)
    if len(masks) != 1 or count is None or masks[0].meta["val"].dim() == 0:
        return None
    expanded: list[fx.Node | None] = []
    for each in indices:
        expanded += at.positions(each, count) if each is masks[0] else [each]
    return at.add(aten.index.Tensor, at.argument(0), expanded, val=value)


def _repeat_interleave(at: _Rewriter) -> fx.Node | None:
    """The size is the sum of the counts: a number that the host reads."""
    value = at.node.meta["val"]
    if at.node.kwargs.get("output_size") is not None or _unbacked(value.shape) is None:
        return None
    total = at.add(aten.sum.default, at.argument(0))
    total = at.add(aten._local_scalar_dense.default, total, val=value.shape[0])
    return at.add(_sized_repeat, at.argument(0), total, val=value)


def _sized_repeat(repeats: Tensor, size: int) -> Tensor:
    return aten.repeat_interleave.Tensor(repeats, output_size=size)


_REWRITES = {
    aten.nonzero.default: _nonzero,
    aten.masked_select.default: _masked_select,
    aten.index.Tensor: _index,
    aten.repeat_interleave.Tensor: _repeat_interleave,
}
