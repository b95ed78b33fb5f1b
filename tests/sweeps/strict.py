"""The Dynamo backend `tpud_strict`: tpud with nothing run in eager PyTorch, so that an unsupported op is an error.

For sweeps: `--backend strict:strict` with this directory on PYTHONPATH, or `--import strict --backend tpud_strict`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx
from torch._dynamo import register_backend

from tpud import backend


@register_backend(name="tpud_strict")
def strict(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compiles one Dynamo graph whole, or raises `tpud.UnsupportedOpError` with every op that stands in the way."""
    return backend.tpud(gm, example_inputs, options={"fallback": "error"})


zoo_stats = backend.zoo_stats
