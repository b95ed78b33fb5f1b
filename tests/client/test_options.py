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
    for name in ("fallback", "precision", "xla_flags", "target", "timeout", "name"):
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"fallback": "maybe"}, "'eager' or 'error'"),
        ({"precision": "low"}, "'highest' or 'high' or 'medium'"),
        ({"xla_flags": ["a"]}, "a dict of flag names"),
        ({"xla_flags": {"a": None}}, "values are bool, int, float or str"),
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
