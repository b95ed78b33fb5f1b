"""Calls of compiled functions: answers, aliasing, strides, scalars, modes of autograd, threads, forks, dead daemons."""

from __future__ import annotations

import os
import threading

import pytest
import torch
from fake_daemon import FakeDaemon
from torch.fx.experimental.proxy_tensor import make_fx

import tpud
from tpud.backend import compile_graph
from tpud.options import Options


def compiled(fn, **options):
    return torch.compile(fn, backend="tpud", **options)


def check(fn, *args, **options):
    """Runs eager and compiled on equal inputs, and compares results, strides and the inputs afterwards."""
    mine, theirs = ([a.clone() if isinstance(a, torch.Tensor) else a for a in args] for _ in range(2))
    expected, got = fn(*theirs), compiled(fn, **options)(*mine)
    torch.testing.assert_close(got, expected, equal_nan=True)
    torch.testing.assert_close(mine, theirs, equal_nan=True)
    flat_expected, _ = torch.utils._pytree.tree_flatten(expected)
    flat_got, _ = torch.utils._pytree.tree_flatten(got)
    for a, b in zip(flat_got, flat_expected, strict=True):
        if isinstance(a, torch.Tensor):
            assert a.stride() == b.stride()
    return got


def test_two_small_inputs(daemon: FakeDaemon) -> None:
    check(lambda a, b: torch.relu(a + b), torch.randn(3, 4), torch.randn(4))
    assert daemon.compiles == 1
    assert daemon.connection.runs == 1


def test_outputs_of_every_kind(daemon: FakeDaemon) -> None:
    def fn(x):
        return {"t": x.t() * 2, "none": None, "number": 3, "size": x.shape[0], "list": [x.sum(), x > 0]}

    check(fn, torch.randn(3, 4))


def test_strides_that_are_not_row_major(daemon: FakeDaemon) -> None:
    check(lambda x: (x + 1).t(), torch.randn(3, 4))
    check(lambda x: (x + 1)[:, :2], torch.randn(3, 4))
    check(lambda x: (x.sum(1, keepdim=True) + 1).expand(3, 7), torch.randn(3, 4))
    check(lambda x: (x + 1).permute(0, 2, 3, 1), torch.randn(2, 3, 4, 5))


def test_inputs_that_are_not_contiguous(daemon: FakeDaemon) -> None:
    base = torch.randn(6, 8)
    check(lambda a, b, c: a + b + c, base.t()[:3, :3], base[::2, ::3], base[0, 0].expand(3, 3))


def test_conjugated_inputs_and_negative_bits(daemon: FakeDaemon) -> None:
    z = torch.randn(3, dtype=torch.complex64)
    real = z.conj().imag
    expected = real + 1
    assert real.is_neg()
    torch.testing.assert_close(compiled(lambda x: x + 1)(real), expected)


def test_zero_dimensional_and_empty_tensors(daemon: FakeDaemon) -> None:
    check(lambda x: x * 2, torch.tensor(3.0))
    check(lambda x: torch.cat([x, x]).sum(0), torch.randn(0, 4))
    check(lambda x: x + 1, torch.randn(2, 0))


def test_mutated_inputs_get_their_new_content(daemon: FakeDaemon) -> None:
    def fn(x, y):
        x.add_(1)
        y[0].mul_(2)
        return x + y

    check(fn, torch.randn(3, 4), torch.randn(3, 4))


def test_mutated_view_changes_its_base(daemon: FakeDaemon) -> None:
    def fn(x):
        x.view(-1)[2:5].zero_()
        return x * 2

    check(fn, torch.randn(3, 4))


def test_aliases_of_inputs_are_aliases(daemon: FakeDaemon) -> None:
    x = torch.randn(3, 4)
    view, same, product = compiled(lambda x: (x.view(-1)[2:], x, x * 2))(x)
    assert same is x
    assert view.data_ptr() == x.data_ptr() + 8
    x.zero_()
    assert not view.any()
    assert product.any()


def test_aliases_of_an_intermediate_share_its_memory(daemon: FakeDaemon) -> None:
    def fn(x):
        y = x + 1
        return y, y[1:]

    whole, part = check(fn, torch.randn(3, 4))
    whole.zero_()
    assert not part.any()


def test_aliases_with_symbolic_sizes(daemon: FakeDaemon) -> None:
    def fn(x):
        y = x + 1
        return y, y[1:], x[2:]

    call = compiled(fn, dynamic=True)
    for size in (5, 6):
        x = torch.randn(size, 3)
        got, expected = call(x), fn(x)
        torch.testing.assert_close(got, expected)
        got[0].zero_()
        assert not got[1].any()
        assert got[2].data_ptr() == x.data_ptr() + 2 * 3 * 4


def test_an_alias_of_a_mutated_input_of_other_sizes(daemon: FakeDaemon) -> None:
    """torch makes such an alias from the offset of what we return."""

    def fn(x):
        x.view(-1)[3] = -1
        return x.flatten()[2:5]

    call = compiled(fn)
    for rows, columns in ((2, 4), (4, 2), (5, 2)):
        x = torch.randn(30)[7 : 7 + rows * columns].view(rows, columns)
        expected = fn(x.clone())
        got = call(x)
        torch.testing.assert_close(got, expected)
        assert got.data_ptr() == x.data_ptr() + 2 * 4


def _separate():
    return torch.randn(4), torch.randn(4)


def _overlapping():
    base = torch.randn(8)
    return base[:4], base[2:6]


def _neighbours():
    base = torch.randn(4, 2)
    return base[:, 0], base[:, 1]


@pytest.mark.parametrize(
    "calls",
    [
        (_separate, _overlapping, _separate),
        (_overlapping, _separate, _overlapping),
        (_neighbours, _separate, _overlapping, _neighbours),
    ],
)
def test_a_mutated_input_that_overlaps_another_one(daemon: FakeDaemon, calls) -> None:
    def fn(x, y):
        x.mul_(2)
        return x + y

    call = compiled(fn, dynamic=False)
    for make in calls:
        torch.manual_seed(0)
        expected = fn(*make())
        torch.manual_seed(0)
        torch.testing.assert_close(call(*make()), expected)


def test_an_overlap_that_was_not_compiled_warns_and_the_compiled_form_is_kept(daemon: FakeDaemon) -> None:
    def fn(x, y):
        x.mul_(2)
        return x + y

    call = compiled(fn)
    call(*_separate())
    with pytest.warns(tpud.FallbackWarning, match="share memory"):
        call(*_overlapping())
    runs = daemon.connection.runs
    call(*_separate())
    assert daemon.connection.runs == runs + 1


def test_an_overlap_that_was_not_compiled_is_an_error_if_asked_for(daemon: FakeDaemon) -> None:
    def fn(x, y):
        x.mul_(2)
        return x + y

    call = compiled(fn, options={"fallback": "error"})
    call(*_separate())
    with pytest.raises(tpud.UnsupportedOpError, match="share memory") as caught:
        call(*_overlapping())
    assert caught.value.reason == "INPUTS_OVERLAP"


def test_as_strided_beyond_an_input_looks_at_the_users_memory(daemon: FakeDaemon) -> None:
    x = torch.randn(4, 6)[1:, 1:]
    with pytest.warns(tpud.FallbackWarning, match="as_strided"):
        got = compiled(lambda x: x.as_strided((3, 2), (2, 1)) + 1)(x)
    torch.testing.assert_close(got, x.as_strided((3, 2), (2, 1)) + 1)


def test_windows_of_symbolic_strides_keep_them(daemon: FakeDaemon) -> None:
    """AOTAutograd makes the alias from the strides of our output, where several elements share memory."""
    call = compiled(lambda x, step, offset: x.as_strided((2, 2, 2), (1, step, 1), offset), dynamic=True)
    x = torch.arange(16.0)
    for step, offset in ((3, 0), (1, 0), (1, 2), (2, 3)):
        with torch.no_grad():
            got = call(x, step, offset)
        torch.testing.assert_close(got, x.as_strided((2, 2, 2), (1, step, 1), offset))


def test_threads_that_trace_at_the_same_time(daemon: FakeDaemon) -> None:
    """Each thread meets sizes, and functions, that are new."""
    failures = []
    calls = [compiled(lambda x, k=k: torch.relu(x) * k, dynamic=True) for k in range(4)]

    def work(start: int) -> None:
        try:
            for step in range(8):
                k = (start + step) % 4
                x = torch.randn(2 + (start * 8 + step) % 11, 3)
                torch.testing.assert_close(calls[k](x), torch.relu(x) * k)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_a_returned_input_that_eager_would_copy_is_a_copy(daemon: FakeDaemon) -> None:
    x = torch.randn(3)
    (out,) = compiled(lambda x: (x.clone(),))(x)
    out.zero_()
    assert x.any()


def test_constants_are_fresh_in_every_call(daemon: FakeDaemon) -> None:
    call = compiled(lambda x: (torch.tensor([1.0, 2.0]), x + 1))
    first, _ = call(torch.zeros(2))
    first.zero_()
    second, _ = call(torch.zeros(2))
    assert second.tolist() == [1.0, 2.0]


def test_large_constants_travel_once(daemon: FakeDaemon) -> None:
    table = torch.randn(200, 200)
    gm = make_fx(lambda x: (x + table,), tracing_mode="fake", _allow_non_fake_inputs=True)(torch.ones(200, 200))
    call = compile_graph(gm, [], Options())
    for _ in range(3):
        torch.testing.assert_close(call([torch.ones(200, 200)]), [table + 1])
    assert daemon.connection.uploads == 1
    daemon.kill()
    torch.testing.assert_close(call([torch.ones(200, 200)]), [table + 1])


def test_changing_sizes_and_python_numbers(daemon: FakeDaemon) -> None:
    def fn(x, k):
        return x * k + x.shape[0], x.shape[0] * 2, x.reshape(-1)

    call = compiled(fn)
    for size, k in ((3, 2.5), (4, 2.5), (5, 3.5), (4, 1.0), (3, 7.0)):
        x = torch.randn(size, 4)
        torch.testing.assert_close(call(x, k), fn(x, k))
    call = compiled(lambda x, n: x * n)
    for n in (2, 3, 4, 5):
        torch.testing.assert_close(call(torch.ones(2), n), torch.ones(2) * n)


def test_sizes_seen_before_are_not_compiled_again(daemon: FakeDaemon) -> None:
    call = compiled(lambda x: x * x.shape[0], dynamic=True)
    for size in (3, 4, 3, 4, 3):
        assert call(torch.ones(size))[0] == size
    assert daemon.compiles == 2


def test_new_sizes_inside_of_inference_mode_and_autocast(daemon: FakeDaemon) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
    call = compiled(model, dynamic=True)
    daemon.unsupported = {"aten.native_layer_norm.default"}
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16), pytest.warns(tpud.FallbackWarning):
        for size in (3, 5):
            x = torch.randn(size, 4)
            torch.testing.assert_close(call(x), model(x), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_modes_of_autograd(daemon: FakeDaemon, mode) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    x = torch.randn(3, 4)
    with mode():
        expected, got = model(x), compiled(model)(x)
    torch.testing.assert_close(got, expected)
    assert got.is_inference() == (mode is torch.inference_mode)
    assert got.requires_grad == expected.requires_grad


def test_training_gives_the_gradients_of_eager(daemon: FakeDaemon) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
    x = torch.randn(3, 4)
    model(x).square().sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    compiled(model)(x).square().sum().backward()
    torch.testing.assert_close([p.grad for p in model.parameters()], expected)
    assert daemon.connection.runs == 2


def test_attention_with_mask_and_grouped_heads(daemon: FakeDaemon) -> None:
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8)
    mask = torch.rand(2, 1, 5, 7) > 0.3
    mask[0, 0, 0] = False
    attention = torch.nn.functional.scaled_dot_product_attention
    check(lambda q, k, v, m: attention(q, k, v, attn_mask=m, enable_gqa=True), q, k, v, mask)
    check(lambda q, k, v: attention(q, k, v, is_causal=True, enable_gqa=True, scale=0.3), q, k, v)


@pytest.mark.parametrize("whole", [False, True])
def test_attention_in_training_is_whole_where_the_math_path_is_off(daemon: FakeDaemon, whole: bool) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from tpud import backend

    q, k, v = (torch.randn(2, 4, 5, 8, requires_grad=True) for _ in range(3))
    attention = torch.nn.functional.scaled_dot_product_attention
    expected = torch.autograd.grad(attention(q, k, v).square().sum(), (q, k, v))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION if whole else [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        with backend.attention_path([q]):
            assert torch.backends.cuda.flash_sdp_enabled() == whole
        out = compiled(lambda q, k, v: attention(q, k, v))(q, k, v)
        torch.testing.assert_close(torch.autograd.grad(out.square().sum(), (q, k, v)), expected)


def test_several_threads(daemon: FakeDaemon) -> None:
    model = torch.nn.Linear(8, 8)
    call = compiled(model)
    inputs = [torch.randn(4, 8) for _ in range(40)]
    with torch.no_grad():
        call(inputs[0])
    wrong = []

    def work(part):
        with torch.no_grad():
            for x in part:
                if not torch.allclose(call(x), model(x), atol=1e-6):
                    wrong.append(x)

    threads = [threading.Thread(target=work, args=(inputs[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert daemon.compiles == 1


def test_a_killed_daemon_is_replaced_once(daemon: FakeDaemon) -> None:
    model = torch.nn.Linear(4, 4)
    call = compiled(model)
    x = torch.randn(2, 4)
    with torch.no_grad():
        call(x)
        daemon.kill()
        torch.testing.assert_close(call(x), model(x))
        assert len(daemon.connections) == 2
        assert daemon.connection.uploads == 2
        daemon.kill()
        daemon.available = False
        with pytest.raises(tpud.UnavailableError, match="DAEMON_START_FAILED"):
            call(x)
        daemon.available = True
        torch.testing.assert_close(call(x), model(x))


def test_no_daemon_while_compiling(daemon: FakeDaemon) -> None:
    call = torch.compile(lambda x: x + 1, backend="tpud")
    daemon.available = False
    for _ in range(2):
        with pytest.raises(tpud.UnavailableError, match="What to do: "):
            call(torch.ones(2))
    daemon.available = True
    assert call(torch.ones(2)).tolist() == [2.0, 2.0]


def test_a_forked_child_connects_again(daemon: FakeDaemon) -> None:
    model = torch.nn.Linear(4, 4)
    call = compiled(model)
    x = torch.randn(2, 4)
    with torch.no_grad():
        call(x)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            right = torch.allclose(call(x), model(x), atol=1e-6)
            os.write(write, f"{int(right)} {len(daemon.connections)} {daemon.connection.uploads}".encode())
            os._exit(0)
        os.waitpid(child, 0)
    assert os.read(read, 100) == b"1 2 2"


def test_a_failed_assertion_is_raised(daemon: FakeDaemon) -> None:
    def fn(x):
        torch._assert_async((x > 0).all(), "x has to be positive")
        return x * 2

    call = compiled(fn)
    torch.testing.assert_close(call(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="x has to be positive"):
        call(-torch.ones(3))


def test_a_graph_without_computation_needs_no_daemon(daemon: FakeDaemon) -> None:
    check(lambda x: (x.view(-1), x), torch.randn(2, 3))
    assert daemon.compiles == 0
