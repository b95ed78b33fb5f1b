"""Encoding: the same bytes everywhere, every argument of the schema, and refusals that name the node."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tpud import encode
from tpud.locations import locate
from tpud.testing import encode_op, trace_op

PROGRAM = """
import hashlib, sys, torch
from tpud.capture import normalise
from tpud.encode import encode_graph
from tpud.testing import trace_op
torch.manual_seed(0)
model = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
parameters = {name: p.detach() for name, p in model.named_parameters()}
def fn(x, parameters):
    return torch.func.functional_call(model, parameters, (x,))
gm = trace_op(fn, (torch.randn(2, 5, 16), parameters))
for node in gm.graph.nodes:
    node.meta.pop("stack_trace", None)
print(hashlib.sha256(encode_graph(gm).graph).hexdigest(), len(gm.graph.nodes))
"""


def digest(tmp_path, name: str, seed: str) -> str:
    directory = tmp_path / name
    directory.mkdir()
    script = directory / "program.py"
    script.write_text(PROGRAM)
    environment = dict(os.environ, PYTHONHASHSEED=seed, USER=name, HOME=str(directory))
    done = subprocess.run([sys.executable, script], cwd=directory, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_equal_bytes_for_other_seeds_users_and_directories(tmp_path) -> None:
    first = digest(tmp_path, "anna", "1")
    assert first == digest(tmp_path, "bert", "4242")
    assert int(first.split()[1]) > 20


def call_of(gm, name: str):
    return next(node for node in gm.graph.nodes if name in str(node.target))


def arguments(fn, *args, op: str):
    """The arguments of one node, as they are sent."""
    gm = trace_op(fn, args)
    encoder = encode._Encoder(gm, "test")
    nodes = list(gm.graph.nodes)
    encoder.add_placeholders([n for n in nodes if n.op == "placeholder"], None)
    for node in nodes:
        if node.op != "call_function":
            continue
        if op in str(node.target):
            return encoder.arguments(node.target, node.args, node.kwargs)
        encoder.add_call(node)
    raise AssertionError(f"{op} is not in the graph")


def test_defaults_are_filled_in_and_storage_arguments_dropped() -> None:
    x = torch.randn(2, 3)
    names = [name for name, _ in arguments(lambda x: x.to(torch.float64), x, op="_to_copy")]
    assert names == ["self", "dtype", "non_blocking"]
    sent = dict(arguments(lambda x: torch.add(x, 1, alpha=2), x, op="aten.add.Tensor"))
    assert (sent["other"], sent["alpha"]) == (1, 2)
    sent = dict(arguments(lambda x: x.sum(0), x, op="aten.sum"))
    assert (sent["dim"], sent["keepdim"], sent["dtype"]) == ([0], False, None)
    sent = dict(arguments(lambda x: x[:, 1:], x, op="aten.slice"))
    assert (sent["dim"], sent["start"], sent["step"]) == (1, 1, 1)
    image = torch.randn(1, 1, 4, 4)
    sent = dict(arguments(lambda x: torch.nn.functional.max_pool2d(x, 2), image, op="max_pool2d"))
    assert (sent["kernel_size"], sent["padding"], sent["dilation"], sent["ceil_mode"]) == ([2, 2], [0, 0], [1, 1], False)


def test_integers_in_float_places_become_floats() -> None:
    sent = dict(arguments(lambda x: torch.nn.functional.layer_norm(x, (3,), eps=1), torch.randn(2, 3), op="layer_norm"))
    assert type(sent["eps"]) is float


def test_outputs_of_multi_output_nodes_are_numbered() -> None:
    encoded = encode_op(lambda x: x.topk(2), (torch.randn(5),))
    assert [str(node.target) for node in encoded.nodes] == ["aten.topk.default"]
    assert [value.dtype for value in encoded.outputs] == [torch.float32, torch.int64]


def test_aliases_are_gone() -> None:
    gm = trace_op(lambda x: (x.detach() + 1).detach(), (torch.randn(2),))
    assert [str(node.target) for node in gm.graph.nodes if node.op == "call_function"] == ["aten.add.Tensor"]


def test_small_constants_travel_inside_and_large_ones_as_inputs() -> None:
    small, large = torch.arange(10), torch.randn(200, 200)
    gm = make_fx(lambda x: x + small.sum() + large, tracing_mode="fake", _allow_non_fake_inputs=True)(torch.ones(200, 200))
    encoded = encode.encode_graph(gm)
    assert [index for index, _ in encoded.constants] == [1]
    assert torch.equal(encoded.constants[0][1], large)
    assert len(encoded.graph) < 10_000


@pytest.mark.parametrize("dtype", list(encode.DTYPES), ids=str)
def test_every_dtype_of_the_contract(dtype) -> None:
    x = torch.zeros(2, 3, dtype=dtype)
    encoded = encode_op(lambda x: x.view(3, 2), (x,))
    assert encoded.outputs[0].dtype == dtype


def test_all_nodes_that_do_not_fit_are_named() -> None:
    def fn(x):
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize() + 1

    gm = make_fx(fn, tracing_mode="fake")(torch.randn(3))
    with pytest.raises(encode.UnencodableError) as caught:
        encode.encode_graph(gm)
    assert any("quantize" in issue.op for issue in caught.value.issues)


def test_locations_are_the_users_lines() -> None:
    graphs = []

    def keep(gm, inputs):
        graphs.append(gm)
        return gm.forward

    class Inner(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.gelu(x)  # the line

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([Inner(), Inner()])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    from torch._dynamo.backends.common import aot_autograd

    torch._dynamo.reset()
    torch.compile(Outer(), backend=aot_autograd(fw_compiler=keep))(torch.randn(3))
    places = [locate(node) for node in graphs[0].graph.nodes if node.op == "call_function"]
    assert [place.module_path for place in places] == ["layers.0", "layers.1"]
    assert all(place.file == __file__ and "# the line" in place.code for place in places)


def branches(x, w, fine="sin"):
    op = getattr(torch, fine)
    return torch.cond(x.sum() > 0, lambda a: op(a @ w), lambda a: a.cos() @ w + torch.tensor([1.0, 2.0]), (x,))


def nested_graphs(gm):
    return [each for node in gm.graph.nodes if node.op == "get_attr" and isinstance(each := getattr(gm, node.target), torch.fx.GraphModule)]


def test_branches_take_all_they_read_as_operands() -> None:
    gm = trace_op(branches, (torch.randn(3, 2), torch.randn(2, 2)))
    call = next(node for node in gm.graph.nodes if node.target is torch.ops.higher_order.cond)
    # x, w and the constant of one branch.
    assert len(call.args[3]) == 3
    for inner in nested_graphs(gm):
        assert not [node for node in inner.graph.nodes if node.op == "get_attr"]
        assert len([node for node in inner.graph.nodes if node.op == "placeholder"]) == 3

    def plain(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.cos(), (x,))

    sent = dict(arguments(plain, torch.randn(3), op="cond"))
    assert list(sent) == ["pred", "true_fn", "false_fn", "operands"]
    assert (sent["true_fn"].node_count, sent["false_fn"].node_count) == (2, 1)
    encoded = encode.encode_graph(gm)
    assert str(encoded.nodes[-1].target) == "cond"


def test_unused_branches_are_dropped_unless_they_draw_numbers() -> None:
    def fn(x):
        torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return x + 1

    assert [str(node.target) for node in trace_op(fn, (torch.randn(3),)).graph.nodes if node.op == "call_function"] == ["aten.add.Tensor"]


def test_nodes_in_branches_that_do_not_fit_are_named_with_the_outer_node() -> None:
    def fn(x):
        return torch.cond(x.sum() > 0, lambda x: torch.rand_like(x), lambda x: x.cos(), (x,))

    gm = trace_op(fn, (torch.randn(3),))
    with pytest.raises(encode.UnencodableError) as caught:
        encode.encode_graph(gm)
    (issue,) = caught.value.issues
    assert "rand" in issue.op and "draw the numbers before it" in issue.message
    assert issue.node.target is torch.ops.higher_order.cond


def test_branches_nested_too_deeply_are_refused() -> None:
    def deep(levels, x):
        if not levels:
            return x.sin()
        return torch.cond(x.sum() > 0, lambda x: deep(levels - 1, x), lambda x: x.cos(), (x,))

    encode.encode_graph(trace_op(lambda x: deep(3, x), (torch.randn(3),)))
    with pytest.raises(encode.UnencodableError, match="nested deeper than 2 levels"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "MAX_GRAPH_DEPTH", 2)
        encode.encode_graph(trace_op(lambda x: deep(3, x), (torch.randn(3),)))


def test_names_in_branches_do_not_change_the_bytes() -> None:
    def other(first, second):
        def one(argument):
            return torch.sin(argument @ second)

        def two(argument):
            return argument.cos() @ second + torch.tensor([1.0, 2.0])

        return torch.cond(first.sum() > 0, one, two, (first,))

    def of(fn):
        gm = trace_op(fn, (torch.randn(3, 2), torch.randn(2, 2)))
        for graph in [gm, *nested_graphs(gm)]:
            for node in graph.graph.nodes:
                node.meta.pop("stack_trace", None)
        return encode.encode_graph(gm).graph

    assert of(branches) == of(other)
    assert of(branches) != of(lambda x, w: branches(x, w, "tan"))
