"""From what AOTAutograd (or a plain function) gives to the graph we encode: static, functional, decomposed ATen."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from tpud import nested, seeds
from tpud.checks import is_check
from tpud.layout import fills_memory
from tpud.locations import locate
from tpud.outputs import VIEWS

aten = torch.ops.aten
prims = torch.ops.prims

# Ops that give their argument back: values have no storage here, so neither view nor copy-on-write means anything.
_IDENTITIES = frozenset(
    {
        aten.alias.default,
        aten.detach.default,
        aten.lift.default,
        aten.lift_fresh.default,
        aten.lift_fresh_copy.default,
    }
)

# Checks of what a static graph already knows.
_STATIC_CHECKS = frozenset(
    {
        aten._assert_tensor_metadata.default,
        aten._assert_scalar.default,
        aten.sym_constrain_range.default,
        aten.sym_constrain_range_for_size.default,
    }
)


@dataclasses.dataclass
class Captured:
    """A graph that is ready to be encoded.

    `gm` takes tensors only and returns a flat tuple. The last `len(assertions)` outputs are conditions; the message
    of a false one is raised after the call.
    """

    gm: fx.GraphModule
    assertions: list[str]


def is_static(gm: fx.GraphModule) -> bool:
    """Whether every input is a tensor and every value has plain integer sizes, also in nested graphs."""
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and not isinstance(value, torch.Tensor):
            return False
    return not any(has_symbols(node.meta.get("val")) for node in nested.all_nodes(gm) if node.op in ("placeholder", "call_function"))


def has_symbols(value: Any) -> bool:
    """Whether a node's value is, or is shaped by, a symbolic number."""
    if isinstance(value, torch.Tensor):
        # Also where every symbol has meanwhile become a number: such a tensor still refuses numel() and nbytes.
        return value._has_symbolic_sizes_strides
    if isinstance(value, (list, tuple)):
        return any(has_symbols(item) for item in value)
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def specialise(
    gm: fx.GraphModule, args: Sequence[Any], table: dict[Any, Callable[..., Any]] | None = None
) -> fx.GraphModule:
    """The graph at the sizes and Python numbers of `args`, whose tensors may be real or fake.

    Inputs that are numbers stay as unused inputs, so the order of the inputs is kept.
    """
    from torch._dispatch.python import enable_python_dispatcher
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    from tpud.decompositions import decompositions

    # A loop makes symbols while it is traced.
    mode = FakeTensorMode(allow_non_fake_inputs=True, static_shapes=True, shape_env=ShapeEnv())
    with mode:
        stand_ins = [_stand_in(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
    tensors = [arg for arg in stand_ins if isinstance(arg, torch.Tensor)]

    def run(*given: torch.Tensor) -> Any:
        remaining = iter(given)
        full = [next(remaining) if isinstance(arg, torch.Tensor) else arg for arg in stand_ins]
        outputs = fx.Interpreter(gm).run(*full, enable_io_processing=False)
        return tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)

    # The Python dispatcher is what AOTAutograd traces with: some ops are taken apart by it, and not by the table.
    # The graph already holds what inference mode and autocast did to it, and this may run inside of them again.
    with (
        torch.inference_mode(False),
        torch._C._DisableAutocast(),
        torch.no_grad(),
        mode,
        fx.traceback.preserve_node_meta(),
        enable_python_dispatcher(),
    ):
        traced = make_fx(run, decomposition_table=table or decompositions(), tracing_mode="real")(*tensors)
    _insert_numbers(traced, stand_ins)
    return traced


def _stand_in(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout != torch.strided:
        raise TypeError(f"a tensor of layout {tensor.layout} can't be compiled; only strided tensors can")
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def _insert_numbers(gm: fx.GraphModule, args: Sequence[Any]) -> None:
    """Puts the inputs that are not tensors back where they were, unused."""
    placeholders = iter([node for node in gm.graph.nodes if node.op == "placeholder"])
    first = next(iter(gm.graph.nodes))
    following = next(placeholders, None)
    for position, arg in enumerate(args):
        if isinstance(arg, torch.Tensor):
            following = next(placeholders, None)
            continue
        anchor = following
        if anchor is None:
            anchor = next((node for node in gm.graph.nodes if node.op != "placeholder"), first)
        with gm.graph.inserting_before(anchor):
            number = gm.graph.placeholder(f"number_{position}")
            number.meta["val"] = arg
    gm.recompile()


def normalise(gm: fx.GraphModule) -> Captured:
    """Removes what carries no value (aliases, static checks, dead code) and turns assertions into outputs.

    Works on a copy of the graph; tensor constants are shared with `gm`.
    """
    conditions: list[tuple[fx.Node, str]] = []
    module = _clean(gm, conditions)
    return Captured(module, [message for _, message in conditions])


def _clean(gm: fx.GraphModule, conditions: list[tuple[fx.Node, str]] | None) -> fx.GraphModule:
    """The work of `normalise`. In a nested graph (`conditions` is None) assertions stay, and so does what it returns."""
    graph = fx.Graph()
    attributes: dict[str, Any] = {}
    outputs = _copy_nodes(gm, graph, {}, attributes, conditions)
    if conditions is not None:
        flat = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        outputs = (*flat, *(condition for condition, _ in conditions))
    graph.output(outputs)
    module = fx.GraphModule(attributes, graph)
    module.meta.update(gm.meta)
    _remove_dead_code(module)
    seeds.complete(graph)
    nested.close(module)
    return module


def _copy_nodes(gm: fx.GraphModule, graph: fx.Graph, environment: dict[fx.Node, Any], attributes: dict[str, Any], conditions: Any) -> Any:
    """Copies what has a meaning into `graph`; returns the outputs."""

    def known(value: Any) -> Any:
        return fx.node.map_arg(value, lambda each: environment[each])

    for node in gm.graph.nodes:
        if node.op == "output":
            return known(node.args[0])
        if node in environment:
            continue
        if node.target in _IDENTITIES:
            environment[node] = environment[node.args[0]]
        elif node.target in _STATIC_CHECKS:
            continue
        elif is_check(node):
            _copy_node(graph, node, environment).meta.setdefault("val", None)
        elif _is_linalg_check(node):
            copy = graph.call_function(node.args[1], known(tuple(node.args[2:])), dict(node.kwargs))
            copy.meta = {**node.meta, "val": None}
            environment[node] = (None,)  # AOTAutograd passes None for a token, and takes it
        elif conditions is not None and node.target in (aten._assert_async.msg, aten._assert_async.default):
            message = node.args[1] if len(node.args) > 1 else "an assertion on a tensor failed"
            conditions.append((environment[node.args[0]], f"{message}\n    at {locate(node)}"))
        elif node.op == "get_attr":
            environment[node] = _copy_attribute(gm, graph, node, attributes)
        elif node.target in nested.INLINED:
            which, first = nested.INLINED[node.target]
            inner = nested.attribute(gm, node.args[which].target)
            placeholders = [each for each in inner.graph.nodes if each.op == "placeholder"]
            given = dict(zip(placeholders, known(node.args[first:]), strict=True))
            environment[node] = _copy_nodes(inner, graph, given, attributes, conditions)
        elif node.target is operator.getitem and isinstance(environment[node.args[0]], (list, tuple)):
            environment[node] = environment[node.args[0]][node.args[1]]
        else:
            environment[node] = _copy_node(graph, node, environment)
    return ()


def _copy_attribute(gm: fx.GraphModule, graph: fx.Graph, node: fx.Node, attributes: dict[str, Any]) -> fx.Node:
    """A nested graph is copied for each of its uses, because what is done to it depends on the use."""
    value = nested.attribute(gm, node.target)
    if isinstance(value, fx.GraphModule):
        value = _clean(value, None)
        name = f"graph_{len(attributes)}"
    else:
        name = next((name for name, each in attributes.items() if each is value), f"constant_{len(attributes)}")
    attributes[name] = value
    copy = graph.get_attr(name)
    copy.meta = dict(node.meta)
    return copy


def _is_linalg_check(node: fx.Node) -> bool:
    """AOTAutograd orders ops that only raise by a token, which it passes from one to the next."""
    return node.target is torch.ops.higher_order.with_effects and node.args[1] is aten._linalg_check_errors.default


def _copy_node(graph: fx.Graph, node: fx.Node, environment: dict[fx.Node, fx.Node]) -> fx.Node:
    copy = graph.node_copy(node, lambda each: environment[each])
    if node.target is prims.convert_element_type.default:
        source, dtype = copy.args
        copy.target, copy.args, copy.kwargs = aten._to_copy.default, (source,), {"dtype": dtype}
    if node.target is aten.as_strided.default:
        _take_from_whole(copy)
    return copy


def _take_from_whole(node: fx.Node) -> None:
    """Lets an `as_strided` of a view start from the value that fills the view's memory, if the graph holds it."""
    whole, view = node.args[0], node.args[0].meta["val"]
    while not fills_memory(whole.meta["val"]):
        if whole.target not in VIEWS or not isinstance(whole.args[0], fx.Node):
            return
        whole = whole.args[0]
    if whole is node.args[0] or whole.meta["val"].untyped_storage()._cdata != view.untyped_storage()._cdata:
        return
    offset = node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")
    offset = view.storage_offset() if offset is None else offset
    node.args, node.kwargs = (whole, node.args[1], node.args[2], offset), {}


def _remove_dead_code(gm: fx.GraphModule) -> None:
    """Drops unused nodes that have no effect. A random op has none: the numbers of the others come from a seed."""
    for node in reversed(gm.graph.nodes):
        if node.op in ("placeholder", "output") or node.users:
            continue
        if node.op == "get_attr" or nested.is_pure(gm, node):
            gm.graph.erase_node(node)
