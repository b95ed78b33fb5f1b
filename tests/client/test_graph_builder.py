"""The graph encoder: what it writes, what it refuses, and that it writes it the same way every time."""

import math
import subprocess
import sys
import time

import pytest
from loopback import ROOT

from tpud._tpud import DType, GraphBuilder, Ref, Sym


def decode(encoded: bytes) -> str:
    """The text form of a graph, by protoc."""
    command = ["protoc", "--decode=tpud.v1.Graph", "-I", "proto", "proto/tpud/v1/graph.proto"]
    return subprocess.run(command, cwd=ROOT, input=encoded, stdout=subprocess.PIPE, check=True).stdout.decode()


def one_argument(value) -> str:
    builder = GraphBuilder("g")
    builder.add_symbol("s0", 1, 8, 4)
    builder.add_input("user_input", "float32", [2])
    builder.add_node("aten.x.default", [("a", value)], [None])
    text = decode(builder.finish())
    start = text.index("value {") if "value {" in text else text.index("value")
    return " ".join(text[start : text.index("outputs {")].split())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "value { }"),
        (True, "boolean: true"),
        (False, "boolean: false"),
        (0, "integer: 0"),
        (-(2**63), "integer: -9223372036854775808"),
        (2**63 - 1, "integer: 9223372036854775807"),
        (-0.0, "floating: -0"),
        (math.nan, "floating: nan"),
        (-math.inf, "floating: -inf"),
        (5e-324, "floating: 4.94065645841247e-324"),
        (complex(1.5, -0.0), "complex { real: 1.5 imag: -0 }"),
        ("ü", 'text: "\\303\\274"'),
        (Ref(0), "tensor: 0"),
        (DType("bfloat16"), "dtype: BFLOAT16"),
        (Sym(7), "integer: 7"),
        (Sym(("sym", 0)), "symbolic { symbol: 0 }"),
        ([], "list { }"),
        ([1, (None, [Ref(0)])], "list { items { integer: 1 } items { list { items { } items { list {"),
        (Sym(("floor_div", ("add", ("sym", 0), -1), 2)), "function: FLOOR_DIV"),
    ],
)
def test_values(value, text):
    assert text in one_argument(value)


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (2**63, OverflowError, "64-bit"),
        ([-(2**63) - 1], OverflowError, "64-bit"),
        (object(), TypeError, "object"),
        ({"a": 1}, TypeError, "dict"),
        (Ref(1), ValueError, "does not exist yet"),
        (Sym(("sym", 1)), ValueError, "symbol 1"),
    ],
)
def test_refused_values(value, error, words):
    builder = GraphBuilder("g")
    builder.add_symbol("s0", 1, 8, 4)
    builder.add_input("user_input", "float32", [2])
    with pytest.raises(error, match=words) as caught:
        builder.add_node("aten.x.default", [("a", value)], [None])
    assert "aten.x.default" in str(caught.value) and '"a"' in str(caught.value)
    assert (builder.node_count, builder.value_count) == (0, 1), "a refused node leaves no trace"


def test_nesting_is_bounded():
    deep: list = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ValueError, match="deeper"):
        GraphBuilder("g").add_node("aten.x.default", [("a", deep)], [])
    with pytest.raises(ValueError, match="deeper"):
        expr: object = 1
        for _ in range(100):
            expr = ("add", expr, 1)
        Sym(expr)


@pytest.mark.parametrize("expr", [(), ("sym",), ("sym", 0, 1), ("add", 1), ("sub", 1, 2), (1, 2), "s0", 1.5, True])
def test_malformed_expressions(expr):
    with pytest.raises((ValueError, TypeError)):
        Sym(expr)


def test_numbering_and_order():
    builder = GraphBuilder("g")
    assert builder.add_symbol("s0", 2, 64, 8) == 0
    assert builder.add_input("user_input", "float32", [("sym", 0), 4], [4, 1], 2) == 0
    assert builder.add_input("symbol", "int32", [], symbol=0) == 1
    assert builder.add_constant("int64", [2], bytes(16)) == 2
    with pytest.raises(ValueError, match="before constants"):
        builder.add_input("user_input", "float32", [])
    here = builder.location("a.py", 3, "f", "y = x.sort()", "encoder.0")
    assert builder.location("a.py", 3, "f", "y = x.sort()", "encoder.0") == here == 1
    assert builder.location("a.py", 4) == 2
    sort = [("int64", [2], [1]), None, ("int64", [2], None)]
    assert builder.add_node("aten.sort.default", [("self", Ref(2))], sort, here) == 3
    assert builder.add_node("aten.neg.default", [("self", Ref(5))], [("int64", [2], [1])]) == 6
    with pytest.raises(ValueError, match="before nodes"):
        builder.add_constant("int64", [], bytes(8))
    builder.add_output("user_output", 6)
    builder.add_output("mutation", 3, input=0)
    text = decode(builder.finish())
    assert text.count("locations {") == 2 and "storage_offset" in text and "role: MUTATION" in text
    assert builder.value_count == 7


@pytest.mark.parametrize(
    "call",
    [
        lambda b: b.add_input("argument", "float32", []),
        lambda b: b.add_input("user_input", "float31", []),
        lambda b: b.add_input("symbol", "int32", []),
        lambda b: b.add_input("user_input", "int32", [], symbol=0),
        lambda b: b.add_input("user_input", "float32", [2, 3], [1]),
        lambda b: b.add_constant("float32", [2], bytes(7)),
        lambda b: b.add_output("user_output", 0),
        lambda b: b.add_symbol("s0", 4, 2, 3),
        lambda b: b.add_node("aten.x.default", [], [], 1),
    ],
)
def test_refused_calls(call):
    with pytest.raises(ValueError):
        call(GraphBuilder("g"))


SCRIPT = """
import sys
from tpud._tpud import GraphBuilder, Ref
b = GraphBuilder("g")
x = b.add_input("user_input", "float32", [2])
for i in range(50):
    x = b.add_node("aten.neg.default", [("self", Ref(x))], [("float32", [2], [1])], b.location(f"f{i % 7}.py", i % 11))
b.add_output("user_output", x)
sys.stdout.buffer.write(b.finish())
"""


def test_equal_bytes_in_every_process():
    runs = {
        subprocess.run([sys.executable, "-c", SCRIPT], env={"PYTHONHASHSEED": seed}, stdout=-1, check=True).stdout
        for seed in ("0", "1", "77")
    }
    assert len(runs) == 1 and len(runs.pop()) > 1000


def test_twenty_thousand_nodes():
    builder = GraphBuilder("g")
    value = builder.add_input("user_input", "float32", [8, 16])
    began = time.process_time()
    for index in range(20_000):
        args = [("self", Ref(value)), ("other", Ref(0)), ("alpha", 1)]
        here = builder.location("model.py", index, "forward", "x = x + y", "layers.0")
        value = builder.add_node("aten.add.Tensor", args, [("float32", [8, 16], [16, 1])], here)
    encoded = builder.finish()
    assert builder.node_count == 20_000 and len(encoded) > 1_000_000
    assert time.process_time() - began < 3, "about 0.1 s in a release build and 0.5 s unoptimised"
