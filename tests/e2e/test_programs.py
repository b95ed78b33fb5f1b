"""Programs through the real daemon, compared with eager PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch

import tpud
from tpud import _tpud, session
from tpud.testing import run_op

pytestmark = pytest.mark.usefixtures("connection")


def compiled(fn, **options):
    return torch.compile(fn, backend="tpu", options={"fallback": "error", **options})


def check(fn, *args, atol=1e-5, rtol=1e-5):
    with torch.no_grad():
        torch.testing.assert_close(compiled(fn)(*args), fn(*args), atol=atol, rtol=rtol, equal_nan=True)


def test_two_small_ops() -> None:
    check(lambda a, b: torch.relu(a + b), torch.randn(3, 4), torch.randn(4))


def test_run_op_without_dynamo() -> None:
    x = torch.randn(4, 5)
    torch.testing.assert_close(run_op(torch.softmax, (x,), {"dim": 1}), torch.softmax(x, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_perceptron(dtype) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4))
    tolerance = {torch.bfloat16: 2e-2, torch.float16: 5e-3}.get(dtype, 1e-5)
    check(model.to(dtype), torch.randn(8, 16, dtype=dtype), atol=tolerance, rtol=tolerance)


def test_a_convolutional_net() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 5),
    ).eval()  # fmt: skip
    check(model, torch.randn(2, 3, 16, 16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_small_llama(dtype) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval().to(dtype)
    ids = torch.randint(0, 128, (2, 12))
    with torch.no_grad():
        expected, got = model(ids).logits, compiled(model)(ids).logits
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(got, expected, atol=tolerance, rtol=tolerance)


def test_mutations_aliases_and_empty_tensors() -> None:
    def fn(x, empty):
        x.add_(1)
        return x[1:], x * 2, torch.cat([empty, x]), None, 3

    a, b = torch.randn(3, 4), torch.randn(3, 4)
    b.copy_(a)
    empty = torch.empty(0, 4)
    got, expected = compiled(fn)(a, empty), fn(b, empty)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(a, b)
    assert got[0].data_ptr() == a[1:].data_ptr()


def test_nan_wins_in_minimum_and_maximum_wherever_it_is() -> None:
    nan, inf = float("nan"), float("inf")
    for values in ([1.0, nan, 3.0], [nan, 1.0, -inf], [inf, -inf, nan]):
        x = torch.tensor(values)
        check(lambda x: (x.amax(), x.amin(), x.max(), x.argmax(), x.relu()), x)
        check(lambda x, y: (torch.maximum(x, y), torch.maximum(y, x), torch.minimum(x, y), torch.minimum(y, x)), x, x.flip(0))
        check(lambda x, y: (x.clamp(max=y), x.clamp(min=y), torch.clamp(y, -1, 1)), x, torch.tensor(nan))


def test_gradients_through_diagonals_and_strides() -> None:
    x, twin = (torch.arange(12.0).view(3, 4).requires_grad_() for _ in range(2))
    fn = lambda x: x.diagonal(1).sum() * 2 + (x.as_strided((2, 2), (4, 1), 1) ** 2).sum()  # noqa: E731
    compiled(fn)(x).backward()
    fn(twin).backward()
    torch.testing.assert_close(x.grad, twin.grad)


def test_changing_sizes() -> None:
    call = compiled(lambda x: (x * x.shape[0]).sum(1))
    for size in (3, 5, 4, 5):
        x = torch.randn(size, 7)
        torch.testing.assert_close(call(x), (x * size).sum(1))


def test_parameters_changed_in_place_replaced_and_reloaded() -> None:
    model = torch.nn.Linear(8, 8)
    call = compiled(model)
    x = torch.randn(2, 8)
    with torch.no_grad():
        for change in (
            lambda: None,
            lambda: model.weight.mul_(2),
            lambda: setattr(model, "bias", torch.nn.Parameter(torch.ones(8))),
            lambda: model.load_state_dict({k: torch.randn_like(v) for k, v in model.state_dict().items()}),
            lambda: model.weight.data.neg_(),
        ):
            change()
            torch.testing.assert_close(call(x), model(x))


def test_parameters_are_sent_once(connection) -> None:
    model = torch.nn.Linear(64, 64)
    call = compiled(model)
    with torch.no_grad():
        call(torch.randn(2, 64))
        before = connection.transfer_stats()["uploads"]
        for _ in range(5):
            call(torch.randn(2, 64))
    assert connection.transfer_stats()["uploads"] == before


def test_several_threads() -> None:
    model = torch.nn.Linear(8, 8)
    call = compiled(model)
    inputs = [torch.randn(4, 8) for _ in range(40)]
    wrong = []

    def work(part):
        with torch.inference_mode():
            wrong.extend(x for x in part if not torch.allclose(call(x), model(x), atol=1e-5))

    work(inputs[:1])
    threads = [threading.Thread(target=work, args=(inputs[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_unsupported_ops_fall_back_or_raise() -> None:
    @torch.library.custom_op("tpud_e2e::thrice", mutates_args=())
    def thrice(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    thrice.register_fake(lambda x: torch.empty_like(x))

    def fn(x):
        return thrice(x + 1) - 1

    x = torch.randn(3)
    with pytest.warns(tpud.FallbackWarning, match="tpud_e2e.thrice"):
        torch.testing.assert_close(torch.compile(fn, backend="tpu")(x), fn(x))
    with pytest.raises(tpud.UnsupportedOpError, match="thrice.*\n.*test_programs.py:"):
        compiled(fn)(x)


def test_an_unknown_xla_flag_is_an_error_that_names_it() -> None:
    call = compiled(lambda x: x + 1, xla_flags={"xla_no_such_flag": True})
    with pytest.raises(tpud.CompileError, match="xla_no_such_flag"):
        call(torch.ones(2))


def test_a_forked_child_works(connection) -> None:
    model = torch.nn.Linear(4, 4)
    call = compiled(model)
    x = torch.randn(2, 4)
    with torch.no_grad():
        call(x)
        child = os.fork()
        if child == 0:
            right = torch.allclose(call(x), model(x), atol=1e-5) and session.current is not connection
            os._exit(0 if right else 1)
        _, status = os.waitpid(child, 0)
        torch.testing.assert_close(call(x), model(x))
    assert os.waitstatus_to_exitcode(status) == 0


def test_explain() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    with torch.no_grad():
        report = tpud.explain(model)(torch.randn(2, 4))
    data = report.to_dict()
    (graph,) = data["graphs"]
    (executable,) = graph["executables"]
    assert graph["ops"]["aten.addmm.default"] == 1
    assert len(executable["graph_key"]) == 64
    assert executable["outcome"] in ("compiled", "memory_hit", "disk_hit", "module_hit", "shared")
    assert executable["calls"] == 1
    assert data["seconds"]["total"] > 0
    assert "graph 0" in str(report)
    assert executable["graph_key"][:16] in str(report)


def test_a_second_process_compiles_nothing(connection) -> None:
    program = (
        "import torch, tpud; torch.manual_seed(7); m = torch.nn.Linear(5, 3)\n"
        "with torch.no_grad(): r = tpud.explain(m)(torch.ones(2, 5))\n"
        "print(r.to_dict()['graphs'][0]['executables'][0]['outcome'])"
    )
    outcomes = []
    for seed in ("1", "2"):
        before = connection.status()["counters"]["xla_compiles"]
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ, PYTHONHASHSEED=seed)
        )
        assert done.returncode == 0, done.stderr
        outcomes.append((done.stdout.strip(), connection.status()["counters"]["xla_compiles"] - before))
    assert outcomes[0] == ("compiled", 1)
    assert outcomes[1] == ("memory_hit", 0)


def test_a_killed_daemon_is_started_again(connection) -> None:
    model = torch.nn.Linear(4, 4)
    call = compiled(model)
    x = torch.randn(2, 4)
    with torch.no_grad():
        call(x)
        os.kill(connection.status()["pid"], 9)
        torch.testing.assert_close(call(x), model(x))
    assert session.current.epoch != connection.epoch


def test_saved_graphs_compile(connection, tmp_path) -> None:
    path = tmp_path / "model.tpudgraph"
    tpud.save_graph(torch.nn.Linear(4, 4).eval(), (torch.randn(2, 4),), path)
    result = connection.compile(path.read_bytes(), executable=False)
    assert result.executable is None
    assert [each["dtype"] for each in result.signature["inputs"]] == ["float32"] * 3


def test_bad_bytes_are_refused_and_the_daemon_lives(connection) -> None:
    with pytest.raises(_tpud.RawError) as caught:
        connection.compile(b"\xff\xff not a graph")
    assert caught.value.code_name == "INVALID_ARGUMENT"
    test_two_small_ops()
