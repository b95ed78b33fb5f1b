"""Options and modes: what is known works, what is not is named."""

from __future__ import annotations

import pytest
import torch
from fake_daemon import FakeDaemon

import tpud
from tpud import options


def test_unknown_options_list_the_known_ones() -> None:
    with pytest.raises(tpud.OptionsError, match=r"unknown option 'fallbak' \(did you mean 'fallback'\?\)") as caught:
        options.parse({"fallbak": "eager"})
    for name in ("fallback", "precision", "xla_flags", "target", "timeout", "name", "checks", "emulate_tpu_precision"):
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"fallback": "maybe"}, "'eager' or 'error'"),
        ({"precision": "low"}, "'highest' or 'high' or 'medium'"),
        ({"xla_flags": ["a"]}, "a dict of flag names"),
        ({"xla_flags": {"a": None}}, "values are bool, int, float or str"),
        ({"checks": 1}, "True or False, not 1"),
        ({"emulate_tpu_precision": "yes"}, "True or False"),
        ({"emulate_tpu_precision": True, "target": "v6e:2x2"}, "is for CPUs"),
        ({"emulate_tpu_precision": True, "target": "tpu"}, "is for CPUs"),
        ({"target": 3}, "a string such as"),
        ({"timeout": -1}, "a positive number"),
    ],
)
def test_wrong_values_say_what_is_taken(wrong, says) -> None:
    with pytest.raises(tpud.OptionsError, match=says):
        options.parse(wrong)


def test_modes_of_torch_are_accepted_and_others_are_not() -> None:
    for mode in (None, "default", "reduce-overhead", "max-autotune"):
        assert options.parse(None, mode) == options.Options()
    with pytest.raises(tpud.OptionsError, match="unknown mode 'fast'"):
        options.parse(None, "fast")


def test_options_reach_the_daemon(daemon: FakeDaemon) -> None:
    chosen = {"precision": "high", "xla_flags": {"xla_cpu_enable_fast_math": False}, "target": "v6e:2x2"}
    torch.compile(lambda x: x + 1, backend="tpud", options=chosen)(torch.ones(2))
    assert daemon.options == [
        {"precision": "high", "xla_flags": {"xla_cpu_enable_fast_math": False}, "platform": "tpu", "topology": "v6e:2x2"}
    ]


def test_switches_reach_the_daemon_when_they_are_on(daemon: FakeDaemon) -> None:
    chosen = {"checks": True, "emulate_tpu_precision": True, "precision": "medium", "target": "cpu"}
    torch.compile(lambda x: x + 1, backend="tpud", options=chosen)(torch.ones(2))
    torch._dynamo.reset()
    torch.compile(lambda x: x + 1, backend="tpud", options={"checks": False})(torch.ones(2))
    expected = {"precision": "medium", "emulate_tpu_precision": True, "checks": True, "platform": "cpu"}
    assert daemon.options == [expected, {"precision": "highest"}]


@pytest.mark.parametrize(
    ("kind", "raised"),
    [("index", tpud.CheckIndexError), ("linalg", tpud.CheckLinAlgError), ("runtime", tpud.CheckFailedError)],
)
def test_a_flag_of_the_executable_is_an_exception(daemon: FakeDaemon, kind, raised) -> None:
    other = {"node": 0, "op": "aten.mul.Tensor", "message": "never", "kind": "runtime"}
    daemon.checks = [other, {"node": 1, "op": "aten.add.Tensor", "message": "too much", "kind": kind}]

    def fn(x):
        y = x * 2
        return y + 1

    call = torch.compile(fn, backend="tpud", options={"checks": True})
    assert call(torch.ones(2)).tolist() == [3, 3]
    daemon.violated = 1
    for _ in range(2):
        with pytest.raises(raised, match="aten.add.Tensor: too much") as caught:
            call(torch.ones(2))
        assert type(caught.value) is raised and isinstance(caught.value, (tpud.Error, RuntimeError))
        assert caught.value.location.code == "return y + 1" and caught.value.op == "aten.add.Tensor"
    assert isinstance(caught.value, IndexError) == (kind == "index")
    assert isinstance(caught.value, torch.linalg.LinAlgError) == (kind == "linalg")
    daemon.violated = -1
    assert call(torch.ones(2)).tolist() == [3, 3]


def test_precision_follows_torch(daemon: FakeDaemon) -> None:
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        torch.compile(lambda x: x + 1, backend="tpud")(torch.ones(2))
    finally:
        torch.set_float32_matmul_precision(before)
    assert daemon.options == [{"precision": "medium"}]


def test_an_unknown_option_in_torch_compile(daemon: FakeDaemon) -> None:
    with pytest.raises(tpud.OptionsError, match="unknown option 'max_autotune'"):
        torch.compile(lambda x: x + 1, backend="tpud", options={"max_autotune": True})(torch.ones(2))
    torch.compile(lambda x: x + 1, backend="tpud", mode="reduce-overhead")(torch.ones(2))
    assert daemon.compiles == 1


def test_another_owner_of_the_name_is_reported_once(daemon: FakeDaemon, monkeypatch) -> None:
    from torch._dynamo.backends import registry

    from tpud import backend

    monkeypatch.setitem(registry._COMPILER_FNS, "tpu", lambda gm, inputs: gm)
    backend._check_name.cache_clear()
    with pytest.warns(UserWarning, match='use backend="tpud"') as caught:
        for size in (2, 3):
            torch.compile(lambda x: x + 1, backend="tpud", dynamic=False)(torch.ones(size))
    assert len([each for each in caught if "tpud" in str(each.message)]) == 1
    backend._check_name.cache_clear()
