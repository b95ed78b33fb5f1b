"""Graphs with ops that the server refuses: split, run in eager between the pieces, warned about once."""

from __future__ import annotations

import warnings

import pytest
import torch
from fake_daemon import FakeDaemon

import tpud
from tpud import backend
from tpud.capture import normalise
from tpud.partition import partition
from tpud.testing import trace_op


def run(fn, *args, **options):
    call = torch.compile(fn, backend="tpud", options=options or None)
    with torch.no_grad():
        return call(*args)


def fn(x, y):
    a = (x + y).sin()
    b = a.cos() @ y.t()
    c = b.sin() + a.sum()
    return c.exp(), a


@pytest.fixture
def args() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(3, 4), torch.randn(3, 4)


def test_unsupported_ops_run_in_eager_with_one_warning(daemon: FakeDaemon, args) -> None:
    daemon.unsupported = {"aten.sin.default", "aten.mm.default"}
    with pytest.warns(tpud.FallbackWarning) as caught:
        got = run(fn, *args)
    torch.testing.assert_close(got, fn(*args))
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "aten.sin.default (2 times)" in text
    assert "aten.mm.default" in text
    assert "test_partition.py:" in text
    assert "b = a.cos() @ y.t()" in text


def test_pieces_are_few_and_values_stay_on_the_device(daemon: FakeDaemon, args) -> None:
    daemon.unsupported = {"aten.mm.default"}

    def chain(x, y):
        a = x + y
        b = a * 2
        c = b @ y.t()
        d = b - 1
        return c.tanh() + d.sum(), d

    with pytest.warns(tpud.FallbackWarning):
        got = run(chain, *args)
    torch.testing.assert_close(got, chain(*args))
    # The whole graph, then one piece before and one after the matmul.
    assert daemon.compiles == 3
    assert daemon.connection.runs == 2
    # x and y for the first piece, the product for the second; d came from the first piece's device buffer.
    assert daemon.connection.host_bytes == args[0].nbytes + args[1].nbytes + 3 * 3 * 4


def test_fallback_error_lists_everything(daemon: FakeDaemon, args) -> None:
    daemon.unsupported = {"aten.sin.default", "aten.mm.default", "aten.exp.default"}
    with pytest.raises(tpud.UnsupportedOpError) as caught:
        run(fn, *args, fallback="error")
    error = caught.value
    assert sorted({issue.op for issue in error.issues}) == sorted(daemon.unsupported)
    assert all(issue.location.line for issue in error.issues)
    for op in daemon.unsupported:
        assert op in str(error)


def test_everything_unsupported(daemon: FakeDaemon) -> None:
    daemon.unsupported = {"aten.sin.default"}
    with pytest.warns(tpud.FallbackWarning):
        got = run(lambda x: x.sin(), torch.ones(3))
    torch.testing.assert_close(got, torch.ones(3).sin())


def test_ops_with_several_outputs_and_lists(daemon: FakeDaemon) -> None:
    daemon.unsupported = {"aten.topk.default", "aten.split_with_sizes.default", "aten.cat.default"}

    def several(x):
        values, indices = (x * 2).topk(3)
        a, b = (x + 1).split([1, 4], 1)
        return values + 1, indices, torch.cat([a, b * 2, x], 1).relu()

    x = torch.randn(2, 5)
    with pytest.warns(tpud.FallbackWarning):
        got = run(several, x)
    torch.testing.assert_close(got, several(x))


def test_custom_ops_and_random_ops(daemon: FakeDaemon) -> None:
    @torch.library.custom_op("tpud_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))
    daemon.unsupported = {"tpud_test.twice.default", "aten.rand.default", "aten.bernoulli.p"}

    def noisy(x):
        return twice(x + 1) + torch.rand(3) * 2

    torch.manual_seed(3)
    expected = noisy(torch.ones(3))
    torch.manual_seed(3)
    with pytest.warns(tpud.FallbackWarning):
        got = run(noisy, torch.ones(3))
    torch.testing.assert_close(got, expected)


def test_parameters_and_mutations_across_pieces(daemon: FakeDaemon) -> None:
    daemon.unsupported = {"aten.tanh.default"}

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x):
            x = self.a(x).tanh()
            self.seen += x.sum(0)
            return self.b(x)

    torch.manual_seed(0)
    model, eager = Model(), Model()
    eager.load_state_dict(model.state_dict())
    call = torch.compile(model, backend="tpud")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", tpud.FallbackWarning)
        for _ in range(3):
            x = torch.randn(2, 4)
            torch.testing.assert_close(call(x), eager(x))
    torch.testing.assert_close(model.seen, eager.seen)


def test_stages_are_topological() -> None:
    def diamond(x):
        a = x.sin()
        return (a.cos() + x.exp()).sin() + a

    gm = normalise(trace_op(diamond, (torch.randn(3),))).gm
    unsupported = [node for node in gm.graph.nodes if "cos" in str(node.target)]
    results = [node for node in gm.graph.nodes if node.op == "output"][0].all_input_nodes
    stages = partition(gm, unsupported, results)
    assert [stage.compiled for stage in stages] == [True, False, True]
    assert [len(stage.nodes) for stage in stages] == [2, 1, 3]
    known = {node for node in gm.graph.nodes if node.op == "placeholder"}
    for stage in stages:
        assert set(stage.inputs) <= known
        known |= set(stage.outputs)


def test_data_dependent_sizes_run_in_eager(daemon: FakeDaemon) -> None:
    def pick(x):
        return torch.unique(x) * 2

    x = torch.tensor([1.0, -1.0, 3.0, 1.0])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = torch.compile(pick, backend="tpud")(x)
    torch.testing.assert_close(got, pick(x))
    assert any("aten._unique2.default" in str(each.message) for each in caught)


def test_a_boolean_mask_is_two_pieces(daemon: FakeDaemon) -> None:
    x = torch.tensor([1.0, -1.0, 3.0])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), warnings.catch_warnings():
        warnings.simplefilter("error", tpud.FallbackWarning)
        torch.testing.assert_close(torch.compile(lambda x: x[x > 0] * 2, backend="tpud")(x), torch.tensor([2.0, 6.0]))
    assert daemon.compiles == 2


def test_fallback_ops_are_counted(daemon: FakeDaemon, args) -> None:
    daemon.unsupported = {"aten.sin.default"}
    before = backend.zoo_stats()
    with pytest.warns(tpud.FallbackWarning):
        run(fn, *args)
    after = backend.zoo_stats()
    assert after["graphs"] == before["graphs"] + 1
    assert after["fallback_ops"]["aten.sin.default"] == before["fallback_ops"].get("aten.sin.default", 0) + 2
