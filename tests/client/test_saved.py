"""Values that a forward saves for its backward: handles of device buffers, and never a wrong number."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import threading

import numpy
import pytest
import torch
from fake_daemon import FakeDaemon
from loopback import in_child
from torch.utils.checkpoint import checkpoint

import tpud
from tpud import joint, session
from tpud.saved import Held, SavedTensor


class Block(torch.nn.Module):
    """Saves computed values (also one that it returns), an input, and parameters."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = torch.nn.Linear(width, 2 * width)
        self.second = torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.second(torch.tanh(self.first(x)) ** 2))


@pytest.fixture
def block() -> Block:
    torch.manual_seed(0)
    return Block()


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(4, 8)


def compiled(model):
    return torch.compile(model, backend="tpud", dynamic=False)


def gradients(model, output, **options) -> list[torch.Tensor]:
    model.zero_grad()
    output.square().sum().backward(**options)
    return [parameter.grad.clone() for parameter in model.parameters()]


def check(model, output, x, **options) -> None:
    """The gradients of an output that was computed by the compiled model are eager's."""
    found = gradients(model, output, **options)
    torch.testing.assert_close(found, gradients(model, model(x)))


def saved_of(output: torch.Tensor) -> list[torch.Tensor]:
    node = output.grad_fn
    while not hasattr(node, "saved_tensors") or "Compiled" not in type(node).__name__:
        node = node.next_functions[0][0]
    return list(node.saved_tensors)


def test_computed_values_are_not_fetched(daemon: FakeDaemon, block, x) -> None:
    output = compiled(block)(x)
    handles = [each for each in saved_of(output) if type(each) is SavedTensor]
    assert len(handles) >= 2
    assert daemon.connection.fetched_bytes == output.nbytes
    sent, uploads = daemon.connection.host_bytes, daemon.connection.uploads
    check(block, output, x)
    # Parameters were there already; what goes to the device is the gradient, and the input once more.
    assert daemon.connection.uploads == uploads == 4
    assert daemon.connection.host_bytes - sent <= output.nbytes + x.nbytes
    assert daemon.connection.fetched_bytes == output.nbytes + sum(each.nbytes for each in block.parameters())


VALUES = {
    "dense": torch.arange(12.0).reshape(3, 4),
    "transposed": torch.arange(12.0).reshape(4, 3).t(),
    "expanded": torch.arange(3.0).reshape(3, 1).expand(3, 4),
}


@pytest.fixture(params=VALUES)
def expected(request) -> torch.Tensor:
    return VALUES[request.param]


@pytest.fixture
def handle(daemon: FakeDaemon, expected) -> SavedTensor:
    connection, dense = session.connection(), expected.contiguous()
    buffer = connection.upload(dense.data_ptr(), dense.nbytes, "float32", list(dense.shape))
    return SavedTensor(Held(buffer, connection), expected.shape, expected.stride(), expected.dtype)


def test_every_way_to_look_at_a_handle(handle: SavedTensor, expected) -> None:
    file = io.BytesIO()
    torch.save(handle, file)
    file.seek(0)
    views = {
        "clone": handle.clone(),
        "arithmetic": handle + 0,
        "view": handle.t().t(),
        "detach": handle.detach() * 1,
        "data": handle.data * 1,
        "numpy": torch.from_numpy(handle.numpy().copy()),
        "list": torch.tensor(handle.tolist()),
        "array": torch.from_numpy(numpy.asarray(handle).copy()),
        "item": torch.tensor([[each.item() for each in row] for row in handle]),
        "deepcopy": copy.deepcopy(handle),
        "pickle": pickle.loads(pickle.dumps(handle)),
        "saved": torch.load(file),
        "out": torch.add(handle, 0, out=torch.empty(3, 4)),
        "copy_": torch.zeros(3, 4).copy_(handle),
        "cat": torch.cat([handle, handle])[:3],
        "dlpack": torch.from_dlpack(handle),
        "to": handle.to(torch.float64).float(),
        "cpu": handle.cpu() * 1,
    }
    for name, found in views.items():
        assert torch.equal(found, expected), name
    assert handle.shape == expected.shape and handle.stride() == expected.stride()
    assert handle.clone().stride() == expected.clone().stride()
    assert repr(handle) == f"SavedTensor({expected!r})"
    assert type(handle.detach()) is SavedTensor


@pytest.mark.parametrize(
    "write",
    [lambda t: t.mul_(2), lambda t: t.copy_(torch.ones_like(t)), lambda t: torch.neg(torch.ones(3, 4), out=t), lambda t: t.zero_()],
)
def test_a_handle_can_not_be_written_to(handle: SavedTensor, write) -> None:
    with pytest.raises(RuntimeError, match="saved for backward"), torch.no_grad():
        write(handle)
    with pytest.raises(RuntimeError, match="no memory in this process"):
        handle.data_ptr()


def test_a_value_that_is_returned_and_saved(daemon: FakeDaemon, block, x) -> None:
    call = compiled(block)
    output = call(x)
    expected = output.detach().clone()
    assert any(type(each) is SavedTensor and torch.equal(each.clone(), expected) for each in saved_of(output))
    check(block, output, x)
    # The user's tensor is the user's: writing to it does not reach what backward sees.
    output = call(x)
    with torch.no_grad():
        output.detach().zero_()
    output.backward(torch.ones_like(output))
    found = [parameter.grad for parameter in block.parameters()]
    block.zero_grad()
    block(x).sum().backward()
    assert all(each.abs().sum() > 0 for each in found)


def live(daemon: FakeDaemon) -> int:
    gc.collect()
    return len(daemon.connection.buffers)


def test_device_memory_is_free_after_backward(daemon: FakeDaemon, block, x) -> None:
    call = compiled(block)
    output = call(x)
    during = live(daemon)
    check(block, output, x)
    assert live(daemon) == 4 < during, "the parameters stay"


def test_device_memory_is_free_when_the_graph_goes(daemon: FakeDaemon, block, x) -> None:
    call = compiled(block)
    output = call(x)
    assert live(daemon) > 4
    del output
    assert live(daemon) == 4


def test_retain_graph(daemon: FakeDaemon, block, x) -> None:
    call = compiled(block)
    for _ in range(2):
        output = call(x)
        check(block, output, x, retain_graph=True)
        check(block, output, x, retain_graph=True)
        check(block, output, x)
        with pytest.raises(RuntimeError, match="second time"):
            output.sum().backward()
    # The other way round: the backward was compiled without it.
    torch._dynamo.reset()
    call = compiled(block)
    check(block, call(x), x)
    output = call(x)
    check(block, output, x, retain_graph=True)
    check(block, output, x)


def test_create_graph_of_the_first_order(daemon: FakeDaemon, block, x) -> None:
    output = compiled(block)(x)
    found = torch.autograd.grad(output.square().sum(), list(block.parameters()), create_graph=True)
    torch.testing.assert_close(list(map(torch.Tensor.detach, found)), gradients(block, block(x)))
    with pytest.raises(RuntimeError, match="double backward"):
        found[0].sum().backward()


def test_several_forwards_before_their_backwards(daemon: FakeDaemon, block) -> None:
    call = compiled(block)
    inputs = [torch.randn(4, 8) for _ in range(3)]
    outputs = [call(each) for each in inputs]
    for index in (1, 0, 2):
        check(block, outputs[index], inputs[index])


def test_gradients_accumulate(daemon: FakeDaemon, block) -> None:
    call = compiled(block)
    inputs = [torch.randn(4, 8) for _ in range(3)]
    block.zero_grad()
    sum(call(each).square().sum() for each in inputs).backward()
    for each in inputs:
        call(each).square().sum().backward()
    found = [parameter.grad.clone() for parameter in block.parameters()]
    block.zero_grad()
    sum(2 * block(each).square().sum() for each in inputs).backward()
    torch.testing.assert_close(found, [parameter.grad for parameter in block.parameters()])


def views_of_one_value(x):
    y = torch.exp(x)
    return (y[0] * y[1].sin()).sum() + (y.view(-1)[3:] ** 3).sum() + (y.t() @ y).sin().sum()


def the_gradient_is_a_saved_value(x):
    return (torch.tanh(x).detach() * x).sum()


def expanded(x):
    return (torch.exp(x[:, :1]).expand(4, 8) * x.sin()).sum()


def empty(x):
    return (torch.exp(x[:0]) * x[:0]).sum() + x.sum()


def integers(x):
    order = x.argsort(dim=1)
    return (x.gather(1, order) * torch.arange(8.0)).exp().sum()


def transposed(x):
    return (torch.exp(x.t().contiguous()).t() ** 2).sum()


def a_pair(x):
    values, where = x.exp().max(dim=1)
    return (values * where).sin().sum()


FUNCTIONS = [views_of_one_value, the_gradient_is_a_saved_value, expanded, empty, integers, transposed, a_pair]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("nodes", [joint.MIN_CUT_NODES, 0], ids=["min-cut", "default"])
def test_functions(daemon: FakeDaemon, x, monkeypatch, function, dynamic, nodes) -> None:
    monkeypatch.setattr(joint, "MIN_CUT_NODES", nodes)
    x.requires_grad_()
    call = torch.compile(function, backend="tpud", dynamic=dynamic)
    for _ in range(2):
        (found,) = torch.autograd.grad(call(x), x)
        assert type(found) is torch.Tensor
        (expected,) = torch.autograd.grad(function(x), x)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("op", ["aten.tanh.default", "aten.sigmoid.default", "aten.mm.default"])
@pytest.mark.filterwarnings("ignore::tpud.FallbackWarning")
def test_ops_in_eager_make_and_take_saved_values(daemon: FakeDaemon, block, x, op) -> None:
    daemon.unsupported.add(op)
    call = compiled(block)
    for _ in range(2):
        check(block, call(x), x)
    assert tpud.backend.zoo_stats()["fallback_ops"]


def test_symbolic_sizes(daemon: FakeDaemon, block) -> None:
    call = torch.compile(block, backend="tpud", dynamic=True)
    inputs = [torch.randn(size, 8) for size in (4, 6, 4, 9)]
    outputs = [call(each) for each in inputs]
    for output, each in zip(outputs, inputs, strict=True):
        check(block, output, each)


def test_a_buffer_that_the_forward_changes(daemon: FakeDaemon) -> None:
    class Counting(torch.nn.Module):
        def __init__(self, before: bool) -> None:
            super().__init__()
            self.before = before
            self.weight = torch.nn.Parameter(torch.ones(3))
            self.register_buffer("count", torch.ones(3))

        def forward(self, x):
            if self.before:
                y = x * self.weight * (self.count + 0)
                self.count += 1
                return y
            self.count += 1
            return x * self.weight * self.count.exp()

    for before in (True, False):
        eager, model = Counting(before), Counting(before)
        torch._dynamo.reset()
        call = compiled(model)
        for _ in range(3):
            x = torch.randn(3)
            call(x).sum().backward()
            eager(x).sum().backward()
            torch.testing.assert_close(model.weight.grad, eager.weight.grad)
            torch.testing.assert_close(model.count, eager.count)


def test_an_input_that_is_needed_as_it_was(daemon: FakeDaemon) -> None:
    """Eager PyTorch refuses that, and so does AOTAutograd when it traces."""

    def call(x, scale):
        y = x * scale
        scale.add_(1)
        return y.sum()

    x = torch.ones(3, requires_grad=True)
    for function in (call, compiled(call)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            function(x, torch.full((3,), 2.0)).backward()


class Hooks:
    """Counts what it packs."""

    def __init__(self, pack, unpack) -> None:
        self.packed = 0
        self.pack_one, self.unpack = pack, unpack

    def pack(self, tensor):
        self.packed += 1
        return self.pack_one(tensor)


HOOKS = {
    "as it is": (lambda t: t, lambda t: t),
    "numpy": (lambda t: t.detach().numpy().copy(), torch.from_numpy),
    "pickle": (lambda t: pickle.dumps(t.detach()), pickle.loads),
    "deepcopy": (lambda t: copy.deepcopy(t.detach()), lambda t: t),
    "half": (lambda t: t.double(), lambda t: t.float()),
    "list": (lambda t: (t.tolist(), t.dtype), lambda pair: torch.tensor(pair[0], dtype=pair[1])),
}


@pytest.mark.parametrize("name", HOOKS)
def test_saved_tensor_hooks(daemon: FakeDaemon, block, x, name) -> None:
    call = compiled(block)
    call(x)
    hooks = Hooks(*HOOKS[name])
    with torch.autograd.graph.saved_tensors_hooks(hooks.pack, hooks.unpack):
        output = call(x)
    assert hooks.packed
    fetched = daemon.connection.fetched_bytes
    check(block, output, x)
    if name == "as it is":
        assert daemon.connection.fetched_bytes - fetched == sum(each.nbytes for each in block.parameters())


def test_save_on_cpu(daemon: FakeDaemon, block, x) -> None:
    call = compiled(block)
    with torch.autograd.graph.save_on_cpu():
        output = call(x)
    check(block, output, x)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_around_a_compiled_model(daemon: FakeDaemon, block, x, reentrant) -> None:
    call = compiled(block)
    x.requires_grad_()
    output = checkpoint(call, x, use_reentrant=reentrant)
    assert live(daemon) == 4, "nothing is kept until backward"
    fetched = daemon.connection.fetched_bytes
    check(block, output, x)
    known = sum(each.nbytes for each in (output, x, *block.parameters()))
    assert daemon.connection.fetched_bytes - fetched <= known


def test_a_checkpoint_inside_of_a_compiled_function(daemon: FakeDaemon, block, x) -> None:
    def run(x):
        return checkpoint(block, x, use_reentrant=False).sin()

    output = compiled(run)(x)
    plain = compiled(lambda x: block(x).sin())(x)
    handles = [sum(type(each) is SavedTensor for each in saved_of(each)) for each in (output, plain)]
    assert handles[0] < handles[1]
    torch.testing.assert_close(gradients(block, output), gradients(block, run(x)))


@pytest.mark.filterwarnings("ignore::tpud.FallbackWarning")
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("nodes", [joint.MIN_CUT_NODES, 0], ids=["min-cut", "default"])
def test_a_random_value_is_drawn_once(daemon: FakeDaemon, monkeypatch, inside, nodes) -> None:
    """The gradient has to see the mask of the forward, also where a checkpoint computes the forward again."""

    def body(x):
        return torch.nn.functional.dropout(torch.tanh(x), 0.5) * 2 + torch.rand_like(x) * x.exp()

    def run(x):
        return checkpoint(body, x, use_reentrant=False) if inside else body(x)

    monkeypatch.setattr(joint, "MIN_CUT_NODES", nodes)
    x = torch.full((1000,), 0.5, requires_grad=True)
    call = compiled(run)
    for _ in range(2):
        output = call(x)
        (found,) = torch.autograd.grad(output.sum(), x)
        # d/dx of rand * exp(x) is itself, so both parts of the gradient follow from the output.
        tanh = torch.tanh(x.detach())
        kept = (found > 0.75 * 4 + 0).float()
        noise = output.detach() - kept * tanh * 4
        torch.testing.assert_close(found, kept * (1 - tanh**2) * 4 + noise)
        assert 400 < kept.sum() < 600


def test_a_lost_daemon_between_forward_and_backward(daemon: FakeDaemon, block, x) -> None:
    call = compiled(block)
    output = call(x)
    daemon.kill()
    with pytest.raises(tpud.UnavailableError, match="run the forward pass again") as caught:
        output.sum().backward()
    assert caught.value.reason == "SAVED_TENSORS_LOST"
    # The next step works, on a new connection; the old graph still does not.
    check(block, call(x), x)
    assert len(daemon.connections) == 2
    output = call(x)
    daemon.kill()
    call(x)
    with pytest.raises(tpud.UnavailableError, match="the connection to the daemon was lost"):
        output.sum().backward()
    handle = next(each for each in saved_of(call(x)) if type(each) is SavedTensor)
    daemon.kill()
    with pytest.raises(tpud.UnavailableError, match="the connection to the daemon was lost"):
        handle.clone()


def test_a_fork_between_forward_and_backward(daemon: FakeDaemon, block, x) -> None:
    """Torch itself refuses a backward in a child of a process that had one; the values must not be wrong either."""
    call = compiled(block)
    output = call(x)
    (handle, *_) = (each for each in saved_of(output) if type(each) is SavedTensor)

    def child() -> None:
        with pytest.raises(tpud.UnavailableError, match="forked"):
            handle.clone()
        torch.testing.assert_close(call(x), block(x))

    assert in_child(child) == 0
    check(block, output, x)


def test_backwards_in_threads(daemon: FakeDaemon) -> None:
    models = [Block(width) for width in (4, 8, 12)]
    inputs = [torch.randn(3, width) for width in (4, 8, 12)]
    outputs = [compiled(model)(each) for model, each in zip(models, inputs, strict=True)]
    failures: list[BaseException] = []

    def work(model, output, x) -> None:
        try:
            check(model, output, x)
        except BaseException as failure:  # noqa: BLE001
            failures.append(failure)

    threads = [threading.Thread(target=work, args=each) for each in zip(models, outputs, inputs, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_compiled_autograd(daemon: FakeDaemon, block, x) -> None:
    call = compiled(block)
    expected = gradients(block, block(x))
    output = call(x)
    block.zero_grad()
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="tpud")):
        output.square().sum().backward()
    torch.testing.assert_close([parameter.grad for parameter in block.parameters()], expected)
