"""Seeds: drawn once for a call from the generator that eager PyTorch would use, one stream for each random node."""

from __future__ import annotations

import functools

import pytest
import torch
import torch.nn.functional as F
from fake_daemon import FakeDaemon
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch.utils.checkpoint import checkpoint

import tpud
from tpud import encode, seeds
from tpud.backend import compile_graph
from tpud.capture import normalise
from tpud.decompositions import decompositions
from tpud.options import Options
from tpud.testing import trace_op


def drawing_graph(*generators: torch.Generator | None) -> fx.GraphModule:
    """A graph with one `rand` for each of the generators."""
    root, graph, nodes = torch.nn.Module(), fx.Graph(), []
    for index, generator in enumerate(generators):
        source = None
        if generator is not None:
            setattr(root, f"generator_{index}", generator)
            source = graph.get_attr(f"generator_{index}")
        node = graph.call_function(torch.ops.aten.rand.generator, ([3],), {"generator": source})
        with torch._subclasses.FakeTensorMode():
            node.meta["val"] = torch.empty(3)
        nodes.append(node)
    graph.output(tuple(nodes))
    return fx.GraphModule(root, graph)


def sent(gm: fx.GraphModule, monkeypatch: pytest.MonkeyPatch) -> tuple[list[tuple[str, dict]], encode.Encoded]:
    """The nodes as they are sent: op and arguments."""
    calls = []

    add_node = encode._Encoder.add_node

    def spy(self, node, op, args, value=None):
        calls.append((str(op), dict(args)))
        return add_node(self, node, op, args, value)

    monkeypatch.setattr(encode._Encoder, "add_node", spy)
    return calls, encode.encode_graph(gm)


def test_a_seed_for_each_generator_and_a_stream_for_each_node(monkeypatch) -> None:
    first, second = torch.Generator(), torch.Generator()
    calls, encoded = sent(drawing_graph(None, first, None, second, first), monkeypatch)
    assert encoded.inputs == [seeds.Draw(None), seeds.Draw(first), seeds.Draw(second)]
    assert [args["stream"] for _, args in calls] == [0, 0, 1, 0, 1]
    assert all("generator" not in args for _, args in calls)


def test_other_ops_have_no_seed(monkeypatch) -> None:
    calls, encoded = sent(trace_op(lambda x: x.sin() + 1, (torch.randn(3),)), monkeypatch)
    assert encoded.inputs == [0] and not any("seed" in args for _, args in calls)


def test_a_generator_of_the_graph_is_the_one_that_moves(daemon: FakeDaemon) -> None:
    generator = torch.Generator().manual_seed(1)
    call = compile_graph(drawing_graph(generator), [], Options())
    state = torch.get_rng_state()
    call([])
    call([])
    assert torch.equal(torch.get_rng_state(), state)
    # The pretended daemon itself draws from the generator, so only the first seed is known here.
    first, second = daemon.connection.seeds
    assert torch.equal(first, seeds.Draw(generator.manual_seed(1)).words())
    assert not torch.equal(first, second)


def test_an_unknown_generator_is_refused() -> None:
    gm = drawing_graph(None)
    with gm.graph.inserting_before(next(iter(gm.graph.nodes))):
        unknown = gm.graph.placeholder("generator")
    next(node for node in gm.graph.nodes if node.op == "call_function").kwargs = {"generator": unknown}
    with pytest.raises(encode.UnencodableError, match="its generator is a Node that is not known while compiling"):
        encode.encode_graph(gm)


def test_a_call_draws_once_even_if_the_connection_is_lost(daemon: FakeDaemon) -> None:
    torch._dynamo.reset()
    call = torch.compile(lambda x: F.dropout(x, 0.5), backend="tpud")
    call(torch.ones(3))
    torch.manual_seed(9)
    expected = seeds.Draw().words()
    torch.manual_seed(9)
    daemon.kill()
    call(torch.ones(3))
    assert torch.equal(daemon.connection.seeds[-1], expected)


def test_pieces_draw_seeds_of_their_own(daemon: FakeDaemon) -> None:
    daemon.unsupported = {"aten.sin.default"}
    torch._dynamo.reset()
    call = torch.compile(lambda x: torch.rand_like(torch.rand_like(x).sin()) + 1 + x.sin(), backend="tpud")
    with pytest.warns(tpud.FallbackWarning):
        call(torch.ones(3))
    drawn = daemon.connection.seeds
    assert len({tuple(each.tolist()) for each in drawn}) == len(drawn) > 0


def test_unused_random_ops_are_dropped() -> None:
    gm = normalise(trace_op(lambda x: (torch.rand(3), x + 1)[1], (torch.ones(3),))).gm
    assert not any(seeds.is_random(node.target) for node in gm.graph.nodes)


def test_ops_that_torch_does_not_tag() -> None:
    for op in ("random.from", "binomial.default", "_sample_dirichlet.default", "rand.default", "native_dropout.default"):
        name, overload = op.split(".")
        assert seeds.is_random(getattr(getattr(torch.ops.aten, name), overload)), op
    assert not seeds.is_random(torch.ops.aten.native_dropout_backward.default)


def test_a_checkpointed_random_op_never_runs_in_eager(daemon: FakeDaemon) -> None:
    """Its twin in the other graph would draw other numbers. Torch's own partitioner makes such graphs."""

    def fn(x):
        return checkpoint(lambda x: F.dropout(x.sin(), 0.5).exp(), x, use_reentrant=False)

    daemon.unsupported = {str(seeds.run_and_save_rng_state)}
    torch._dynamo.reset()
    compilers = {f"{name}_compiler": functools.partial(compile_graph, options=Options()) for name in ("fw", "bw")}
    backend = aot_autograd(**compilers, decompositions=decompositions())
    with pytest.raises(tpud.UnsupportedOpError, match="preserve_rng_state=False"):
        torch.compile(fn, backend=backend)(torch.ones(3, requires_grad=True)).sum().backward()
