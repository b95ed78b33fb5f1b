"""tpud: `torch.compile(model, backend="tpu")` with compilation in a shared daemon.

No import is needed for that: torch finds the backend through its entry point. This module has what one may want
besides: `explain`, `save_graph`, `invalidate`, and the exceptions.
"""

from __future__ import annotations

from typing import Any

from tpud._tpud import __version__

_ERRORS = (
    "AssertionFailedError",
    "CheckFailedError",
    "CheckIndexError",
    "CheckLinAlgError",
    "CompileError",
    "Error",
    "FallbackWarning",
    "OptionsError",
    "ResourceExhaustedError",
    "UnavailableError",
    "UnsupportedOpError",
    "VersionMismatchError",
)

__all__ = ["__version__", "explain", "invalidate", "save_graph", *_ERRORS]


def explain(fn: Any, **options: Any) -> Any:
    """`tpud.explain(fn)(*args)` compiles and runs `fn` once and returns a report: graphs, ops, keys, where the
    executables came from, times, memory, and ops that run in eager PyTorch."""
    from tpud.explanation import explain as implementation

    return implementation(fn, **options)


def save_graph(fn: Any, args: Any, path: Any, kwargs: Any = None) -> None:
    """Writes the graph of `fn(*args)` to a file for `tpud compile`."""
    from tpud.export import save_graph as implementation

    implementation(fn, args, path, kwargs)


def invalidate(tensor: Any) -> None:
    """Has a parameter or buffer uploaded again at the next call, after a write that torch does not count."""
    from tpud import parameters

    parameters.store.forget(tensor)


def __getattr__(name: str) -> Any:
    if name in _ERRORS:
        from tpud import errors

        return getattr(errors, name)
    raise AttributeError(f"module 'tpud' has no attribute {name!r}")
