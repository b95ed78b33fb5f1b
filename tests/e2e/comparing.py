"""Models through the real daemon, compared with eager PyTorch: answers, gradients, and that nothing runs in eager."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

import tpud
from tpud import stats

STRICT = {"fallback": "error"}


def compiled(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend="tpu", options=STRICT, **options)


def explained(model: Any, *args: Any) -> Any:
    """The report of one call, of which nothing may have run in eager PyTorch."""
    with torch.no_grad():
        report = tpud.explain(model, options=STRICT)(*args)
    assert report.fallback_ops == {}
    assert report.graphs and all(graph.pieces and not graph.whole_in_eager for graph in report.graphs)
    return report


def check(model: Any, *args: Any, atol: float, rtol: float) -> Any:
    with torch.no_grad():
        expected = model(*args)
    report = explained(model, *args)
    assert report.result.dtype == expected.dtype
    torch.testing.assert_close(report.result, expected, atol=atol, rtol=rtol)
    return report


@contextlib.contextmanager
def all_compiled(*phases: str) -> Iterator[None]:
    """What runs in the block compiles graphs of exactly these phases, and nothing of them stays in eager PyTorch."""
    torch._dynamo.reset()
    with stats.listen() as graphs:
        yield
    assert {graph.phase for graph in graphs} == set(phases)
    assert [graph for graph in graphs if graph.issues or graph.whole_in_eager or not graph.pieces] == []


def outputs(out: Any) -> dict[str, torch.Tensor]:
    """Every tensor of a result, by its path."""
    leaves, _ = pytree.tree_flatten_with_path(out)
    return {pytree.keystr(path): leaf.detach().clone() for path, leaf in leaves if isinstance(leaf, torch.Tensor)}


def step(fn: Any, model: torch.nn.Module, inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Forward, loss and backward: the loss, every gradient, and every buffer afterwards."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(0)
    out = fn(**inputs)
    loss = out.loss if hasattr(out, "loss") else out.float().square().mean()
    loss.backward()
    gradients = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
    return {"loss": loss.detach(), **gradients, **{name: each.clone() for name, each in model.named_buffers()}}


def assert_close(got: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], tolerance: float = 1e-4) -> None:
    """Every tensor to a part of its own scale, and none to less than a tenth of that of the largest: a gradient that is
    zero in exact arithmetic is noise of the others' scale."""
    assert got.keys() == expected.keys()
    floats = [value for value in expected.values() if value.is_floating_point() and value.numel()]
    largest = max((value.abs().max().item() for value in floats), default=0.0)
    for name, right in expected.items():
        mine = got[name]
        assert (mine.dtype, mine.shape) == (right.dtype, right.shape), name
        if not right.is_floating_point():
            assert mine.equal(right), name
            continue
        scale = right.abs().max().item() if right.numel() else 0.0
        torch.testing.assert_close(
            mine, right, rtol=tolerance, atol=tolerance * (scale + largest / 10), msg=lambda text, name=name: f"{name}: {text}"
        )


def check_inference(model: torch.nn.Module, inputs: Mapping[str, Any]) -> None:
    """One call in evaluation mode: every output."""
    model.eval()
    with torch.no_grad():
        expected = outputs(model(**inputs))
        with all_compiled("inference"):
            assert_close(outputs(compiled(model)(**inputs)), expected)


def check_training(model: torch.nn.Module, inputs: Mapping[str, Any]) -> None:
    """One step of training: loss, gradients, buffers."""
    model.train()
    before = copy.deepcopy(model.state_dict())
    expected = step(model, model, inputs)
    model.load_state_dict(before)
    with all_compiled("forward", "backward"):
        assert_close(step(compiled(model), model, inputs), expected)
