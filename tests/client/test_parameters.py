"""Parameters on the device: uploaded once, and again whenever their content may have changed."""

from __future__ import annotations

import gc

import pytest
import torch
from fake_daemon import FakeDaemon

import tpud


@pytest.fixture
def model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 300))


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(4, 16)


def agrees(call, model, x) -> bool:
    with torch.no_grad():
        return torch.allclose(call(x), model(x), atol=1e-5)


def test_uploaded_once(daemon: FakeDaemon, model, x) -> None:
    call = torch.compile(model, backend="tpud")
    for _ in range(3):
        assert agrees(call, model, x)
    assert daemon.connection.uploads == 4
    assert daemon.connection.host_bytes == 3 * x.nbytes


def test_shared_between_graphs_of_one_model(daemon: FakeDaemon, model, x) -> None:
    call = torch.compile(model, backend="tpud", dynamic=False)
    assert agrees(call, model, x)
    assert agrees(call, model, torch.randn(5, 16))
    assert daemon.connection.uploads == 4


def test_tied_weights_are_uploaded_once(daemon: FakeDaemon) -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(50, 8)
            self.head = torch.nn.Linear(8, 50, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.embed(ids))

    model = Tied()
    call = torch.compile(model, backend="tpud")
    ids = torch.arange(7)
    assert agrees(call, model, ids)
    assert daemon.connection.uploads == 1
    with torch.no_grad():
        model.embed.weight.mul_(2)
    assert agrees(call, model, ids)
    assert daemon.connection.uploads == 2


def in_place(model):
    with torch.no_grad():
        model[0].weight.mul_(3)


def one_element(model):
    with torch.no_grad():
        model[2].weight[299, 15] += 100


def data_in_place(model):
    model[0].weight.data.add_(1)


def whole_data_of_a_large_one(model):
    model[2].weight.data.neg_()


def data_replaced(model):
    model[0].weight.data = torch.randn(16, 16)


def data_replaced_twice(model):
    # The second new storage may lie where the first one lay.
    model[0].weight.data = torch.randn(16, 16)
    gc.collect()
    model[0].weight.data = torch.randn(16, 16)


def data_transposed(model):
    model[0].weight.data = model[0].weight.data.t()


def parameter_replaced(model):
    model[0].weight = torch.nn.Parameter(torch.randn(16, 16))


def reloaded(model):
    model.load_state_dict({name: torch.randn_like(value) for name, value in model.state_dict().items()})


def reloaded_by_assignment(model):
    model.load_state_dict({name: torch.randn_like(value) for name, value in model.state_dict().items()}, assign=True)


def numpy_view(model):
    model[0].bias.detach().numpy()[3] = 7


def optimizer_step(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(4, 16)).sum().backward()
    optimizer.step()


CHANGES = [
    in_place, one_element, data_in_place, whole_data_of_a_large_one, data_replaced, data_replaced_twice,
    data_transposed, parameter_replaced, reloaded, reloaded_by_assignment, numpy_view, optimizer_step,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_is_seen(daemon: FakeDaemon, model, x, change) -> None:
    call = torch.compile(model, backend="tpud")
    assert agrees(call, model, x)
    with torch.no_grad():
        before = call(x)
    change(model)
    assert agrees(call, model, x)
    with torch.no_grad():
        assert not torch.equal(call(x), before)


def test_every_change_in_sequence(daemon: FakeDaemon, model, x) -> None:
    call = torch.compile(model, backend="tpud")
    for change in CHANGES * 2:
        change(model)
        assert agrees(call, model, x)


def test_buffers_that_the_graph_changes(daemon: FakeDaemon) -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x):
            self.count += 1
            return x * self.count

    model = Counter()
    call = torch.compile(model, backend="tpud")
    for step in range(1, 4):
        assert call(torch.ones(3)).tolist() == [step] * 3
        assert model.count.tolist() == [step] * 3


def test_batch_norm_in_training_mode(daemon: FakeDaemon) -> None:
    torch.manual_seed(0)
    eager, model = torch.nn.BatchNorm1d(4), torch.nn.BatchNorm1d(4)
    call = torch.compile(model, backend="tpud")
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(8, 4)
            torch.testing.assert_close(call(x), eager(x))
    torch.testing.assert_close(model.running_var, eager.running_var)
    assert model.num_batches_tracked == 3


def test_inference_tensors_are_never_kept(daemon: FakeDaemon) -> None:
    with torch.inference_mode():
        model = torch.nn.Linear(4, 4)
        call = torch.compile(model, backend="tpud")
        x = torch.randn(2, 4)
        torch.testing.assert_close(call(x), model(x))
        model.weight.mul_(2)
        torch.testing.assert_close(call(x), model(x))
    assert daemon.connection.uploads == 0


def test_invalidate_uploads_again(daemon: FakeDaemon) -> None:
    """The residual that the sample does not see: one word of a large tensor, behind torch's back."""
    model = torch.nn.Embedding(4096, 64)
    call = torch.compile(model, backend="tpud")
    ids = torch.tensor([4095])
    assert agrees(call, model, ids)
    model.weight.data[4095, 7] = 50
    tpud.invalidate(model.weight)
    assert agrees(call, model, ids)


def test_an_offset_view_as_a_parameter(daemon: FakeDaemon) -> None:
    flat = torch.randn(40)
    model = torch.nn.Linear(4, 5)
    model.weight = torch.nn.Parameter(flat[10:30].view(5, 4))
    call = torch.compile(model, backend="tpud")
    x = torch.randn(2, 4)
    assert agrees(call, model, x)
    with torch.no_grad():
        flat[10:30] += 1
    assert agrees(call, model, x)
