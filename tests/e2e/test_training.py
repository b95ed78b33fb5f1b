"""Training through the real daemon: losses, every gradient and the parameters after several steps are eager's."""

from __future__ import annotations

import copy
import gc
import importlib

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import tpud
from tpud.saved import SavedTensor

pytestmark = pytest.mark.usefixtures("connection")


def compiled(function, **options):
    return torch.compile(function, backend="tpu", options={"fallback": "error"}, **options)


def mlp():
    model = torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.GELU(), torch.nn.Linear(24, 5))
    x, target = torch.randn(6, 12), torch.randint(5, (6,))
    return model, lambda model: F.cross_entropy(model(x), target)


def convolution():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 4, 3, stride=2), torch.nn.BatchNorm2d(4), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
    )  # fmt: skip
    x = torch.randn(4, 3, 16, 16)
    return model, lambda model: model(x).square().sum()


def llama():
    transformers = importlib.import_module("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, tie_word_embeddings=True, use_cache=False,
    )  # fmt: skip
    ids = torch.randint(64, (2, 12))
    return transformers.LlamaForCausalLM(config), lambda model: model(input_ids=ids, labels=ids).loss


def bert():
    transformers = importlib.import_module("transformers")
    config = transformers.BertConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=3,
    )  # fmt: skip
    ids, target = torch.randint(64, (3, 10)), torch.tensor([0, 2, 1])
    mask = torch.ones(3, 10, dtype=torch.int64)
    mask[1, 6:] = 0
    model = transformers.BertForSequenceClassification(config)
    return model, lambda model: model(input_ids=ids, attention_mask=mask, labels=target).loss


def mixtral():
    transformers = importlib.import_module("transformers")
    config = transformers.MixtralConfig(
        vocab_size=64, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, num_local_experts=3, max_position_embeddings=32, use_cache=False,
    )  # fmt: skip
    ids = torch.randint(64, (2, 8))
    return transformers.MixtralForCausalLM(config), lambda model: model(input_ids=ids, labels=ids).loss


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "adam": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
}


def same_gradients(model, eager, atol=1e-5, rtol=1e-4) -> None:
    """Every gradient, and the absence of it. The absolute tolerance is of the largest one: some are zero but for
    rounding, such as that of a bias before a batch norm."""
    scale = max(each.grad.abs().max().item() for each in eager.parameters() if each.grad is not None)
    for (name, parameter), (_, other) in zip(model.named_parameters(), eager.named_parameters(), strict=True):
        assert (parameter.grad is None) == (other.grad is None), name
        if other.grad is not None:
            torch.testing.assert_close(parameter.grad, other.grad, atol=atol * scale, rtol=rtol, msg=lambda m: f"{name}: {m}")


@pytest.mark.parametrize("make", [mlp, convolution, llama, bert, mixtral], ids=lambda make: make.__name__)
def test_a_model_trains_as_in_eager(make) -> None:
    torch.manual_seed(0)
    model, loss = make()
    eager = copy.deepcopy(model)
    call = compiled(loss)
    optimizers = [OPTIMIZERS["adam" if make is llama else "sgd"](each.parameters()) for each in (model, eager)]
    losses = []
    for step in range(5):
        for optimizer in optimizers:
            optimizer.zero_grad()
        found, expected = call(model), loss(eager)
        found.backward()
        expected.backward()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        same_gradients(model, eager, atol=1e-4 if step == 0 else 5e-3, rtol=1e-3 if step == 0 else 5e-2)
        losses.append(found.item())
        for optimizer in optimizers:
            optimizer.step()
    assert losses[-1] < losses[0]
    for (name, found), (_, expected) in zip(model.named_buffers(), eager.named_buffers(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4, msg=name)


def moved(connection) -> int:
    stats = connection.transfer_stats()
    return sum(stats[name] for name in ("inline_bytes", "shared_bytes", "chunked_bytes"))


def test_what_a_step_moves(connection) -> None:
    """Parameters when they changed, inputs, results and gradients; nothing of what is saved."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))
    x = torch.randn(512, 32)
    call = compiled(model)

    def step() -> int:
        before = moved(connection)
        output = call(x)
        output.backward(torch.ones_like(output))
        return moved(connection) - before

    step()
    parameters, result = sum(each.nbytes for each in model.parameters()), 512 * 8 * 4
    unchanged = step()
    assert unchanged <= parameters + 2 * result + 2 * x.nbytes
    assert unchanged < parameters + 2 * x.nbytes + 512 * 64 * 4, "the hidden layer stays on the device"
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)
    assert step() == unchanged + parameters, "uploaded once for both passes"
    assert step() == unchanged


def on_device(connection) -> int:
    """Bytes that the daemon counts for this session, after what was dropped here has been told to it."""
    gc.collect()
    connection.upload(torch.zeros(1).data_ptr(), 4, "float32", [1]).free()
    connection.synchronize()
    (device,) = connection.status()["devices"]
    return device["memory_used_bytes"]


def test_device_memory_is_free_after_backward(connection) -> None:
    torch.manual_seed(0)
    weights = torch.nn.Parameter(torch.randn(64, 64))
    x = torch.randn(256, 64)

    def run(x):
        return torch.softmax(torch.softmax(x @ weights, 1) @ weights, 1)

    call = compiled(run)
    call(x).sum().backward()
    before = on_device(connection)
    outputs = [call(x) for _ in range(3)]
    during = on_device(connection)
    assert during - before >= 3 * 2 * x.nbytes
    outputs[0].sum().backward(retain_graph=True)
    assert during - on_device(connection) < x.nbytes
    outputs[0].sum().backward()
    del outputs[1]
    assert on_device(connection) - before <= (during - before) / 3
    outputs.clear()
    assert on_device(connection) == before


def test_gradients_of_the_compiled_model_and_a_loss_outside() -> None:
    torch.manual_seed(0)
    model, eager = (torch.nn.Linear(6, 4) for _ in range(2))
    eager.load_state_dict(model.state_dict())
    call, x, target = compiled(model), torch.randn(5, 6), torch.randint(4, (5,))
    for each in (call, eager):
        F.cross_entropy(each(x), target, label_smoothing=0.1).backward()
    same_gradients(model, eager)


def test_without_and_with_gradients() -> None:
    """One function, in inference and in training by turns: each has a graph of its own."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    call, x = compiled(model), torch.randn(3, 6)
    for _ in range(2):
        with torch.no_grad():
            output = call(x)
            assert not output.requires_grad
        torch.testing.assert_close(output, model(x).detach(), rtol=1e-5, atol=1e-6)
        output = call(x)
        assert any(type(each) is SavedTensor for each in output.grad_fn.saved_tensors)
        output.sum().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=0.1)
                parameter.grad = None


def test_a_frozen_half() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2), torch.nn.Linear(2, 2))
    model[0].requires_grad_(False)
    model[2].bias.requires_grad_(False)
    eager = copy.deepcopy(model)
    call, x = compiled(model), torch.randn(3, 6)
    for each in (call, eager):
        each(x).square().sum().backward()
    assert model[0].weight.grad is None and model[2].bias.grad is None
    same_gradients(model, eager)


def test_an_unused_parameter_has_no_gradient() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.used(x) + self.unused(x).detach()

    torch.manual_seed(0)
    model = Model()
    eager = copy.deepcopy(model)
    for each in (compiled(model), eager):
        each(torch.ones(2, 3)).sum().backward()
    assert model.unused.weight.grad is None
    same_gradients(model, eager)


def test_gradients_accumulate_over_micro_batches() -> None:
    torch.manual_seed(0)
    model, loss = mlp()
    eager = copy.deepcopy(model)
    call = compiled(loss)
    for each, run in ((model, call), (eager, loss)):
        for scale in (1.0, 0.5, 2.0):
            (run(each) * scale).backward()
    same_gradients(model, eager)


@pytest.mark.parametrize("whole", [True, False])
def test_autocast_to_bf16(whole) -> None:
    """As near to f32 as eager's autocast is."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.Linear(64, 4))
    exact, eager = copy.deepcopy(model), copy.deepcopy(model)
    x, target = torch.randn(16, 32), torch.randint(4, (16,))

    def loss(model):
        return F.cross_entropy(model(x), target)

    def run(model, function):
        with torch.autocast("cpu", torch.bfloat16):
            result = function(model)
        result.backward()
        return result

    loss(exact).backward()
    call = compiled(loss) if whole else lambda model: loss(compiled(model))
    found, expected = run(model, call), run(eager, loss)
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
    for ours, eagers, true in zip(model.parameters(), eager.parameters(), exact.parameters(), strict=True):
        assert ours.grad.dtype == torch.float32
        scale = true.grad.abs().max()
        assert (ours.grad - true.grad).abs().max() <= 2 * (eagers.grad - true.grad).abs().max() + scale * 2**-8


def test_running_statistics_move_as_in_eager() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3, momentum=None))
    eager = copy.deepcopy(model)
    call = compiled(model)
    for _ in range(3):
        x = torch.randn(4, 2, 6, 6)
        for each in (call, eager):
            each(x).square().sum().backward()
    same_gradients(model, eager, atol=1e-4)
    for (name, found), (_, expected) in zip(model.named_buffers(), eager.named_buffers(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5, msg=name)
    assert model[1].num_batches_tracked == 3
    model.eval(), eager.eval()
    torch.testing.assert_close(call(x), eager(x), rtol=1e-4, atol=1e-5)


def test_hooks_on_parameters_and_outputs() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    eager = copy.deepcopy(model)
    seen: list[str] = []
    for each in (model, eager):
        each.weight.register_hook(lambda gradient: seen.append("weight") or gradient * 2)
        each.bias.register_post_accumulate_grad_hook(lambda parameter: seen.append("bias"))
    call = compiled(model)
    for each in (call, eager):
        output = each(torch.ones(2, 4))
        output.register_hook(lambda gradient: gradient + 1)
        output.square().sum().backward()
    assert sorted(seen) == ["bias", "bias", "weight", "weight"]
    same_gradients(model, eager)


def test_an_embedding_with_repeated_and_padding_indices() -> None:
    torch.manual_seed(0)
    model = torch.nn.Embedding(10, 4, padding_idx=2)
    eager = copy.deepcopy(model)
    ids = torch.tensor([[1, 1, 2], [9, 1, 0]])
    for each in (compiled(model), eager):
        each(ids).pow(2).sum().backward()
    assert model.weight.grad[2].abs().sum() == 0
    same_gradients(model, eager)


def test_a_checkpoint_inside() -> None:
    torch.manual_seed(0)
    model, _ = mlp()
    eager = copy.deepcopy(model)
    x = torch.randn(6, 12)

    def run(model):
        return checkpoint(model, x, use_reentrant=False).square().sum()

    for each, call in ((model, compiled(run)), (eager, run)):
        call(each).backward()
    same_gradients(model, eager)


def test_symbolic_batch_sizes() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.SiLU(), torch.nn.Linear(12, 3))
    eager = copy.deepcopy(model)
    call = compiled(model, dynamic=True)
    batches = [torch.randn(size, 6) for size in (3, 5, 3)]
    for each in (call, eager):
        outputs = [each(batch) for batch in batches]
        for output in reversed(outputs):
            output.square().sum().backward()
    same_gradients(model, eager)


def test_a_daemon_that_ends_between_forward_and_backward(start_daemon) -> None:
    daemon = start_daemon()
    torch.manual_seed(0)
    model, loss = mlp()
    eager = copy.deepcopy(model)
    call = compiled(loss)
    lost = call(model)
    daemon.kill()
    daemon.start()
    with pytest.raises(tpud.UnavailableError, match="run the forward pass again") as caught:
        lost.backward()
    assert caught.value.reason == "SAVED_TENSORS_LOST"
    for each, run in ((model, call), (eager, loss)):
        each.zero_grad()
        run(each).backward()
    same_gradients(model, eager)
