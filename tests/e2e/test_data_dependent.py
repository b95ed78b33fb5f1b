"""Sizes and numbers that depend on data: compiled up to them, and on from there."""

from __future__ import annotations

import pytest
import torch

import tpud
from tpud import stepwise

pytestmark = pytest.mark.usefixtures("connection")


@pytest.fixture(autouse=True)
def captured():
    """Dynamo keeps such ops in the graph."""
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        yield


def positions(x):
    found = (x.sin() > 0).nonzero()
    return x[found[:, 0], found[:, 1]].exp().sum(), found + 1


def masks(x, w):
    y = x @ w
    columns = y[:, y[0] > 0]
    picked = torch.masked_select(y, torch.tensor([True, False, True, True]))
    return columns.sum(1), picked.cumsum(0), y.to(torch.bfloat16)[y.sum(1) > 0], y[y > 0].sum()


def repeated(x):
    counts = (x.abs() * 2).long().view(-1)
    return torch.repeat_interleave(x.view(-1).exp(), counts) * 2


def counted(x):
    n = x.abs().sum().to(torch.int64).item()
    torch._check(n >= 0)
    return torch.zeros(n + 1) + x.sum()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fn", [positions, repeated, counted])
def test_of_one_tensor(fn, dynamic) -> None:
    call = torch.compile(fn, backend="tpud", dynamic=dynamic, options={"fallback": "error"})
    with torch.no_grad():
        for seed in range(3):
            torch.manual_seed(seed)
            x = torch.randn(3, 4)
            torch.testing.assert_close(call(x), fn(x))
        # Nothing is found.
        x = torch.full((3, 4), -0.01)
        torch.testing.assert_close(call(x), fn(x))


def test_masks() -> None:
    call = torch.compile(masks, backend="tpud", fullgraph=True, options={"fallback": "error"})
    with torch.no_grad():
        for seed in range(3):
            torch.manual_seed(seed)
            x, w = torch.randn(3, 4), torch.randn(4, 4)
            torch.testing.assert_close(call(x, w), masks(x, w))


def test_gradients() -> None:
    def fn(x, w):
        y = x * w
        return y[y > 0].square().sum() + y.sum()

    call = torch.compile(fn, backend="tpud", fullgraph=True, options={"fallback": "error"})
    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    got, expected = (torch.autograd.grad(each(x, w), (x, w)) for each in (call, fn))
    torch.testing.assert_close(got, expected)


def test_inputs_that_are_written_or_given_back() -> None:
    def fn(x, y):
        y.add_(1)
        found = (x > 0).nonzero()
        return x * 2, found, y[1:], x

    call = torch.compile(fn, backend="tpud", fullgraph=True, options={"fallback": "error"})
    x, got, expected = torch.randn(3, 4), torch.zeros(4), torch.zeros(4)
    with torch.no_grad():
        results, wanted = call(x, got), fn(x, expected)
    torch.testing.assert_close(results, wanted)
    torch.testing.assert_close(got, expected)
    assert results[3] is x
    assert results[2].data_ptr() == got[1:].data_ptr()


def test_what_has_no_bound_yet_runs_in_eager_with_its_line() -> None:
    def fn(x):
        values, counts = torch.unique((x * 2).long(), return_counts=True)  # this line
        return values.sum() + x.sum(), counts

    x = torch.randn(3, 4)
    with torch.no_grad(), pytest.warns(tpud.FallbackWarning, match="# this line"):
        torch.testing.assert_close(torch.compile(fn, backend="tpud", fullgraph=True)(x), fn(x))
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(tpud.UnsupportedOpError, match="_unique2"):
        torch.compile(fn, backend="tpud", fullgraph=True, options={"fallback": "error"})(x)


def test_a_part_that_met_many_sizes_runs_in_eager(monkeypatch) -> None:
    monkeypatch.setattr(stepwise, "MAX_SPECIALISATIONS", 2)

    def fn(x):
        return x[x > 0].cumsum(0)

    call = torch.compile(fn, backend="tpud", fullgraph=True, options={"fallback": "error"})
    rows = [torch.tensor([1.0] * n + [-1.0] * (5 - n)) for n in (1, 2, 3, 4, 1)]
    with torch.no_grad(), pytest.warns(tpud.FallbackWarning, match="2 sets of sizes"):
        for row in rows:
            torch.testing.assert_close(call(row), fn(row))


@pytest.mark.parametrize("rounds", [1, 3])
def test_the_gradient_of_a_loop(rounds) -> None:
    def fn(x, n):
        return torch.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x.sin()), (torch.zeros((), dtype=torch.int64), x))[1]

    x, n = torch.randn(3, 4, requires_grad=True), torch.tensor(rounds)
    with pytest.warns(tpud.FallbackWarning, match="while_loop_stack_output"):
        got = torch.autograd.grad(torch.compile(fn, backend="tpud", fullgraph=True)(x, n).sum(), x)
    reference = x
    for _ in range(rounds):
        reference = reference.sin()
    torch.testing.assert_close(got, torch.autograd.grad(reference.sum(), x))
