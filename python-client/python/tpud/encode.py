"""Encodes a captured graph as `tpud.v1.Graph` bytes: the one place in Python that knows the graph contract."""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import functools
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from tpud import _tpud, nested, seeds
from tpud.layout import fills_memory
from tpud.locations import Location, locate

# A constant of at most this many bytes travels inside of the graph; a larger one becomes an input that stays on the
# device.
INLINE_CONSTANT_BYTES = 64 * 1024

# The daemon refuses graphs that are nested deeper.
MAX_GRAPH_DEPTH = 16

# Arguments that say where and how a tensor is stored: they never change a value.
_STORAGE_ARGUMENTS = frozenset({"device", "layout", "pin_memory", "memory_format"})

# Random ops have `seed` and `stream` instead.
_LEFT_OUT = _STORAGE_ARGUMENTS | {"generator"}

DTYPES: dict[torch.dtype, str] = {
    getattr(torch, name): name
    for name in (
        "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 "
        "float8_e4m3fn float8_e5m2"
    ).split()
}


@dataclasses.dataclass(frozen=True)
class Issue:
    """One node that can't be compiled, and why."""

    op: str
    node: fx.Node | None
    message: str
    location: Location


class UnencodableError(Exception):
    """The graph holds nodes that the graph contract has no words for; `issues` has all of them."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = list(issues)
        super().__init__("; ".join(f"{issue.op}: {issue.message}" for issue in self.issues))


@dataclasses.dataclass
class Encoded:
    """A graph as bytes, and how its numbering relates to the FX graph."""

    graph: bytes
    # For each input of the encoded graph: the index of the FX placeholder, the tensor of a large constant, or how its
    # seed is drawn.
    inputs: list[int | torch.Tensor | seeds.Draw]
    # For each output of the FX graph: its fake tensor, or the constant (None, a number) that it always is.
    outputs: list[Any]
    # Node index in the encoded graph to FX node.
    nodes: list[fx.Node]

    @property
    def constants(self) -> list[tuple[int, torch.Tensor]]:
        """The inputs that are large constants: (input index, tensor)."""
        return [(index, each) for index, each in enumerate(self.inputs) if isinstance(each, torch.Tensor)]


class _Unencodable(Exception):
    """Why one node can't be encoded."""


class _NestedIssues(Exception):
    """The nodes of a nested graph that can't be encoded."""

    def __init__(self, issues: list[Issue]) -> None:
        self.issues = issues
        super().__init__(issues)


def encode_graph(
    gm: fx.GraphModule,
    input_roles: Sequence[str] | None = None,
    output_roles: Sequence[tuple[str, int | None]] | None = None,
    name: str = "graph",
) -> Encoded:
    """Encodes a static, functional ATen graph whose nodes carry fake tensors in `meta["val"]`.

    `input_roles` has a role for each placeholder ("user_input" by default), `output_roles` one for each output: a
    role, and for "mutation" the index of the placeholder. Raises `UnencodableError` with every node that doesn't fit.
    """
    return _Encoder(gm, name).encode(input_roles, output_roles)


class _Encoder:
    def __init__(self, gm: fx.GraphModule, name: str) -> None:
        self.gm = gm
        self.depth = 0
        self.builder = self.locations = _tpud.GraphBuilder(name)
        # A node's value: a number, or for several outputs a list of numbers.
        self.values: dict[fx.Node, int | list[int]] = {}
        self.inputs: list[int | torch.Tensor | seeds.Draw] = []
        self.nodes: list[fx.Node] = []
        self.issues: list[Issue] = []
        # Inputs and constants that can't be sent, and why. The nodes that use them are refused: those have lines.
        self.unsent: dict[fx.Node, str] = {}
        self.placeholders: dict[int, int] = {}
        # The seed input of each generator; how many nodes draw from a seed so far.
        self.seeds: dict[torch.Generator | None, int] = {}
        self.streams: collections.Counter[int] = collections.Counter()

    def encode(self, input_roles: Any, output_roles: Any) -> Encoded:
        nodes = list(self.gm.graph.nodes)
        self.add_placeholders([node for node in nodes if node.op == "placeholder"], input_roles)
        self.add_seeds([node for node in nodes if node.op == "call_function"])
        self.add_constants([node for node in nodes if node.op == "get_attr"])
        for node in nodes:
            if node.op == "call_function":
                self.add_call(node)
        if self.issues:
            raise UnencodableError(self.issues)
        outputs = self.add_outputs(nodes[-1], output_roles)
        return Encoded(self.builder.finish(), self.inputs, outputs, self.nodes)

    def add_placeholders(self, nodes: list[fx.Node], roles: Sequence[str] | None) -> None:
        for index, node in enumerate(nodes):
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor):
                self.unsent[node] = f"it is a {type(value).__name__}, not a tensor"
                continue
            try:
                dtype, sizes, _ = describe(value)
            except _Unencodable as error:
                self.unsent[node] = str(error)
                continue
            number = self.builder.add_input(roles[index] if roles else "user_input", dtype, sizes)
            self.values[node] = self.placeholders[index] = number
            self.inputs.append(index)

    def add_seeds(self, nodes: list[fx.Node]) -> None:
        """One for each generator that some node draws from."""
        for node in nodes:
            if seeds.drawing(node) is None or node.target is seeds.run_with_rng_state:
                continue
            generator = seeds.generator_of(node)
            if generator in self.seeds or not (generator is None or isinstance(generator, torch.Generator)):
                continue
            self.seeds[generator] = self.builder.add_input("seed", "uint64", [2])
            self.inputs.append(seeds.Draw(generator))

    def add_constants(self, nodes: list[fx.Node]) -> None:
        """Large constants first: they are inputs, and inputs come before constants."""
        known: dict[str, int] = {}
        tensors = [(node, nested.attribute(self.gm, node.target)) for node in nodes]
        large = [(n, t) for n, t in tensors if isinstance(t, torch.Tensor) and t.nbytes > INLINE_CONSTANT_BYTES]
        small = [(n, t) for n, t in tensors if isinstance(t, torch.Tensor) and t.nbytes <= INLINE_CONSTANT_BYTES]
        for node, tensor in large + small:
            if node.target not in known:
                try:
                    known[node.target] = self.add_constant(tensor)
                except _Unencodable as error:
                    self.unsent[node] = str(error)
                    continue
            self.values[node] = known[node.target]

    def add_constant(self, tensor: torch.Tensor) -> int:
        dtype, sizes, _ = describe(tensor)
        dense = dense_host(tensor)
        if tensor.nbytes > INLINE_CONSTANT_BYTES:
            self.inputs.append(dense)
            return self.builder.add_input("constant", dtype, sizes)
        data = ctypes.string_at(dense.data_ptr(), dense.nbytes) if dense.nbytes else b""
        return self.builder.add_constant(dtype, sizes, data)

    def add_call(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            source = self.values.get(node.args[0])
            if isinstance(source, list):
                self.values[node] = source[node.args[1]]
            return
        try:
            if node.target is torch.ops.aten.as_strided.default:
                check_as_strided(node)
            if seeds.drawing(node) is None:
                self.values[node] = self.add_node(node, node.target, self.arguments(node.target, node.args, node.kwargs))
            else:
                self.values[node] = self.add_random(node)
        except _NestedIssues as error:
            # The whole node is refused, for what is in its graphs.
            self.issues += [dataclasses.replace(issue, node=node) for issue in error.issues]
        except (_Unencodable, OverflowError) as error:
            self.refuse(node, str(error))

    def place(self, node: fx.Node) -> int:
        """The id of the line that made a node."""
        location = locate(node)
        return self.locations.location(*location) if location.file or location.module_path else 0

    def add_node(self, node: fx.Node, op: Any, args: list[tuple[str, Any]], value: Any = None) -> int | list[int]:
        """The number of the result; a list of numbers for several results. `value` is the result if it is not that of
        the FX node."""
        value = _value(node) if value is None else value
        several = isinstance(value, (list, tuple))
        outputs = [describe(each) for each in (value if several else [value])]
        first = self.builder.add_node(op_name(op), args, outputs, self.place(node))
        self.nodes.append(node)
        return [first + offset for offset in range(len(outputs))] if several else first

    def add_random(self, node: fx.Node) -> Any:
        """A node that draws; in a checkpointed forward graph also its state, from which the backward graph draws the
        same numbers again."""
        target, args, kwargs = seeds.drawing(node)
        encoded = self.arguments(target, args, kwargs)
        if node.target is seeds.run_with_rng_state:
            state = self.argument(node.args[0], "Tensor")
            seed = self.add_node(node, "tpud.load_rng_state.default", [("state", state)], torch.empty(2, dtype=torch.uint64))
        else:
            generator = seeds.generator_of(node)
            if generator not in self.seeds:
                raise _Unencodable(f"its generator is a {type(generator).__name__} that is not known while compiling")
            seed = self.seeds[generator]
        source = [("seed", _tpud.Ref(seed)), ("stream", self.streams[seed])]
        self.streams[seed] += 1
        if node.target is not seeds.run_and_save_rng_state:
            return self.add_node(node, target, encoded + source)
        state, result = _value(node)
        saved = None if state is None else self.add_node(node, "tpud.save_rng_state.default", source, state)
        return [saved, self.add_node(node, target, encoded + source, result)]

    def arguments(self, target: Any, args: Sequence[Any], kwargs: Any) -> list[tuple[str, Any]]:
        """Every argument of the schema in its order, defaults filled in."""
        signature = nested.SIGNATURES.get(target)
        if signature is not None:
            return [(name, self.operand(args[i], kind)) for i, (name, kind) in enumerate(signature.arguments)]
        if not isinstance(target, torch._ops.OpOverload):
            raise _Unencodable("this is not an ATen operator")
        if target is torch.ops.aten.as_strided.default and not fills_memory(args[0].meta["val"]):
            raise _Unencodable("it looks at memory around a view; a copy of the view made by `clone()` can be compiled")
        result = []
        for index, (name, kind, default) in enumerate(_signature(target)):
            value = args[index] if index < len(args) else kwargs.get(name, default)
            if name not in _LEFT_OUT:
                result.append((name, self.argument(value, kind)))
        return result

    def operand(self, value: Any, kind: str) -> Any:
        """An argument of a higher-order op."""
        if kind == "graph":
            return _Nested(nested.attribute(self.gm, value.target), self).subgraph()
        if kind == "predicate":
            return self.argument(value, "Tensor")
        numbers = [each for each in value if not isinstance(each, fx.Node)]
        if numbers:
            raise _Unencodable(f"{numbers[0]!r} among its operands is a number that changes; pass a tensor")
        return [self.argument(each, "Tensor") for each in value]

    def argument(self, value: Any, kind: str) -> Any:
        if isinstance(value, fx.Node):
            number = self.values.get(value)
            if not isinstance(number, int):
                why = self.unsent.get(value, "it could not be encoded")
                raise _Unencodable(f"its argument `{value.name}` can't be sent: {why}")
            return _tpud.Ref(number)
        if isinstance(value, (list, tuple)):
            return [self.argument(item, kind.removesuffix("[]")) for item in value]
        if kind.endswith("[]") and value is not None:
            return [self.argument(value, kind.removesuffix("[]"))]
        if isinstance(value, torch.dtype):
            return _tpud.DType(dtype_name(value))
        if kind == "float" and isinstance(value, int):
            return float(value)
        if value is None or isinstance(value, (bool, int, float, complex, str)):
            return value
        raise _Unencodable(f"an argument of type {type(value).__name__} can't be sent")

    def add_outputs(self, output: fx.Node, roles: Any) -> list[Any]:
        flat = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
        results: list[Any] = []
        for index, value in enumerate(flat):
            if not isinstance(value, fx.Node) or value.op == "placeholder" and value not in self.values:
                results.append(value if not isinstance(value, fx.Node) else value.meta["val"])
                continue
            role, target = roles[index] if roles else ("user_output", None)
            mutated = None if target is None else self.placeholders[target]
            number = self.values.get(value)
            if not isinstance(number, int):
                raise UnencodableError([Issue("output", value, f"output {index} is not a tensor", locate(value))])
            self.builder.add_output(role, number, mutated)
            results.append(_single(value))
        return results

    def refuse(self, node: fx.Node, message: str) -> None:
        self.issues.append(Issue(op_name(node.target), node, message, locate(node)))


class _Nested(_Encoder):
    """Encodes a graph that is an argument of a node."""

    def __init__(self, gm: fx.GraphModule, around: _Encoder) -> None:
        self.gm = gm
        self.depth = around.depth + 1
        self.builder = _tpud.SubgraphBuilder(around.locations)
        self.locations = around.locations
        self.values, self.nodes, self.issues, self.unsent = {}, [], [], {}

    def subgraph(self) -> _tpud.Subgraph:
        """The encoded graph. Raises `_NestedIssues` with every node that doesn't fit."""
        if self.depth > MAX_GRAPH_DEPTH:
            raise _Unencodable(f"branches and loops are nested deeper than {MAX_GRAPH_DEPTH} levels")
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self.add_placeholder(node)
            elif node.op == "call_function":
                self.add_call(node)
            elif node.op == "output":
                outputs = self.results(node)
        if self.issues:
            raise _NestedIssues(self.issues)
        return self.builder.finish(outputs)

    def add_placeholder(self, node: fx.Node) -> None:
        value = node.meta.get("val")
        dtype, sizes, _ = describe(value)
        self.values[node] = self.builder.add_input(dtype, sizes)

    def add_call(self, node: fx.Node) -> None:
        if seeds.drawing(node) is not None:
            self.refuse(node, "random ops inside of a branch or a loop can't be compiled; draw the numbers before it")
        else:
            super().add_call(node)

    def results(self, output: fx.Node) -> list[int]:
        flat = output.args[0] if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
        if self.issues:
            return []
        for value in flat:
            if not isinstance(self.values.get(value) if isinstance(value, fx.Node) else None, int):
                raise _Unencodable(f"a branch or loop inside of it returns {value!r}, which is not a tensor")
        return [self.values[value] for value in flat]


def op_name(target: Any) -> str:
    """The name of an op in the graph contract."""
    return nested.SIGNATURES[target].op if target in nested.SIGNATURES else str(target)


def dtype_name(dtype: torch.dtype) -> str:
    """The contract's name of a dtype."""
    name = DTYPES.get(dtype)
    if name is None:
        raise _Unencodable(f"dtype {dtype} is not supported")
    return name


def describe(value: Any) -> Any:
    """What the graph says about a value: dtype and sizes. Values are dense, so strides are left out."""
    if value is None:
        return None
    if not isinstance(value, torch.Tensor):
        raise _Unencodable(f"it returns a Python {type(value).__name__}, which depends on the data of a tensor")
    if value.layout != torch.strided or value.is_quantized:
        raise _Unencodable(f"tensors of layout {value.layout} are not supported")
    if value.device.type != "cpu":
        raise _Unencodable(f"tensors on device {value.device} are not supported; those in host memory are")
    sizes = list(value.shape)
    if not all(isinstance(size, int) for size in sizes):
        raise _Unencodable(f"its size {tuple(sizes)} is not known before it runs")
    return dtype_name(value.dtype), sizes, None


def check_as_strided(node: fx.Node) -> None:
    """Values are dense and row-major in the graph, so `as_strided` must have been traced on such a tensor, and stay
    inside of it."""
    source, size, stride = node.args[:3]
    value = source.meta["val"]
    offset = node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")
    last = (offset or 0) + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if value.storage_offset() or not value.is_contiguous() or (0 not in size and last >= value.numel()):
        raise _Unencodable("it looks at memory outside of the tensor that it is given")


def dense_host(tensor: torch.Tensor) -> torch.Tensor:
    """A dense row-major copy of the values in host memory, or the tensor itself if it is that."""
    if isinstance(tensor, torch._subclasses.FakeTensor):
        raise _Unencodable("a constant has no data (it is a fake tensor)")
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return tensor.cpu().contiguous()


def _value(node: fx.Node) -> Any:
    if "val" not in node.meta:
        raise _Unencodable("its result is unknown (the graph carries no fake tensor for it)")
    return node.meta["val"]


def _single(node: fx.Node) -> Any:
    value = node.meta["val"]
    return value[0] if isinstance(value, (list, tuple)) else value


@functools.cache
def _signature(op: torch._ops.OpOverload) -> list[tuple[str, str, Any]]:
    """(name, kind, default) of each argument; the kind is the schema's type without `?` and sizes."""
    result = []
    for argument in op._schema.arguments:
        default = argument.default_value if argument.has_default_value() else None
        result.append((argument.name, _kind(argument.type), default))
    return result


def _kind(type_: Any) -> str:
    name = type_.kind()
    if name == "OptionalType":
        return _kind(type_.getElementType())
    if name == "ListType":
        return _kind(type_.getElementType()) + "[]"
    return {"FloatType": "float", "IntType": "int", "SymIntType": "int", "TensorType": "Tensor"}.get(name, name)
