"""`torch.compile(..., options={...}, mode=...)`: what tpud understands, checked before anything is compiled."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

import torch

from tpud.errors import OptionsError

PRECISIONS = ("highest", "high", "medium")
FALLBACKS = ("eager", "error")

# XLA always optimises as far as it can, and a compiled call is one launch, so no mode changes the result; all of
# torch's modes are accepted, so that a program which was tuned for another backend runs unchanged.
MODES = {
    "default": "the default",
    "reduce-overhead": "the same as default: a call is already one launch",
    "max-autotune": "the same as default: XLA tunes by itself",
    "max-autotune-no-cudagraphs": "the same as default",
}


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of one compiled function.

    fallback: "eager" runs ops that tpud can't lower in eager PyTorch, with one `tpud.FallbackWarning`; "error" raises
        `tpud.UnsupportedOpError` instead.
    precision: of f32 matmuls and convolutions: "highest", "high" or "medium"; by default what
        `torch.get_float32_matmul_precision()` says when the graph is compiled.
    emulate_tpu_precision: on a CPU, compute f32 matmuls and convolutions from parts in bf16, as a TPU does at the chosen
        precision: one product ("medium"), three ("high"), six ("highest").
    checks: raise where eager PyTorch raises on values (an index out of range, a division by zero, …), after the call.
    xla_flags: XLA debug options by name, e.g. {"xla_cpu_enable_fast_math": False}.
    target: "cpu", "tpu" or a TPU topology such as "v6e:2x2"; by default the daemon's own device.
    timeout: seconds that one compile may take, the queue included; by default no limit.
    name: what the graph is called in `tpud status` and in dumps.
    """

    fallback: str = "eager"
    precision: str | None = None
    emulate_tpu_precision: bool = False
    checks: bool = False
    xla_flags: Mapping[str, bool | int | float | str] = dataclasses.field(default_factory=dict)
    target: str = ""
    timeout: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        _one_of("fallback", self.fallback, FALLBACKS)
        if self.precision is not None:
            _one_of("precision", self.precision, PRECISIONS)
        for name in ("emulate_tpu_precision", "checks"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise OptionsError(f"option {name!r} takes True or False, not {value!r}")
        if not isinstance(self.target, str):
            raise OptionsError(f"option 'target' takes a string such as 'v6e:2x2', not {self.target!r}")
        if self.emulate_tpu_precision and self.target not in ("", "cpu"):
            raise OptionsError(f"option 'emulate_tpu_precision' is for CPUs: the target {self.target!r} does it by itself")
        if self.timeout is not None and not (isinstance(self.timeout, (int, float)) and self.timeout > 0):
            raise OptionsError(f"option 'timeout' takes a positive number of seconds, not {self.timeout!r}")
        if not isinstance(self.xla_flags, Mapping):
            raise OptionsError(f"option 'xla_flags' takes a dict of flag names to values, not {self.xla_flags!r}")
        for name, value in self.xla_flags.items():
            if not isinstance(name, str) or not isinstance(value, (bool, int, float, str)):
                raise OptionsError(f"option 'xla_flags' has {name!r}: {value!r}; values are bool, int, float or str")

    def compile_options(self) -> dict[str, Any]:
        """What goes to the daemon with a graph."""
        precision = self.precision or torch.get_float32_matmul_precision()
        result: dict[str, Any] = {"precision": precision}
        for name in ("emulate_tpu_precision", "checks"):
            if getattr(self, name):
                result[name] = True
        if self.xla_flags:
            result["xla_flags"] = dict(self.xla_flags)
        if ":" in self.target:
            result.update(platform="tpu", topology=self.target)
        elif self.target:
            result["platform"] = self.target
        return result


def parse(options: Mapping[str, Any] | None = None, mode: str | None = None) -> Options:
    """The options that torch.compile hands over. Unknown names and values raise `tpud.OptionsError`."""
    if mode is not None and mode not in MODES:
        raise OptionsError(f"unknown mode {mode!r}; known modes: {', '.join(MODES)}")
    known = [field.name for field in dataclasses.fields(Options)]
    for name in options or {}:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, 1)
            meant = f" (did you mean {close[0]!r}?)" if close else ""
            raise OptionsError(f"unknown option {name!r}{meant}; known options: {', '.join(known)}")
    return Options(**(options or {}))


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise OptionsError(f"option {name!r} takes {' or '.join(map(repr, allowed))}, not {value!r}")
