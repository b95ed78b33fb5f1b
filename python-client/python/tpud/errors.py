"""The exceptions of tpud, and how failures of the daemon become them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch

from tpud.encode import Issue
from tpud.locations import Location


class Error(RuntimeError):
    """The base of every exception that tpud raises. `reason` is stable and documented in docs/ERRORS.md."""

    def __init__(self, message: str, reason: str = "", hint: str = "") -> None:
        self.reason = reason
        self.hint = hint
        super().__init__(f"{message}\nWhat to do: {hint}" if hint else message)


class CompileError(Error):
    """A graph could not be compiled."""

    def __init__(self, message: str, reason: str = "", hint: str = "", issues: Sequence[Issue] = ()) -> None:
        self.issues = list(issues)
        super().__init__(message, reason, hint)


class UnsupportedOpError(CompileError):
    """Ops that tpud can't lower, all of them; raised with `options={"fallback": "error"}`."""


class AssertionFailedError(Error):
    """A `torch._assert_async` in a compiled graph was false."""


class CheckFailedError(Error):
    """With `options={"checks": True}`: values on which eager PyTorch raises a RuntimeError. `op` and `location` say
    where they came in."""

    def __init__(self, message: str, op: str, location: Location) -> None:
        self.op = op
        self.location = location
        super().__init__(message, "CHECK_FAILED")


class CheckIndexError(CheckFailedError, IndexError):
    """The same where eager PyTorch raises an IndexError."""


class CheckLinAlgError(CheckFailedError, torch.linalg.LinAlgError):
    """The same where eager PyTorch raises a `torch.linalg.LinAlgError`."""


class OptionsError(Error, ValueError):
    """An unknown option, or a value that an option doesn't take."""


class ResourceExhaustedError(Error):
    """Not enough memory on the device, on disk or in a quota."""

    def __init__(self, message: str, reason: str = "", hint: str = "", needed: int = 0, available: int = 0) -> None:
        self.needed_bytes = needed
        self.available_bytes = available
        super().__init__(message, reason, hint)


class UnavailableError(Error):
    """The daemon can't be reached, also after connecting again."""


class VersionMismatchError(Error):
    """The client and the daemon don't speak a common protocol version."""


class FallbackWarning(UserWarning):
    """Some ops of a compiled function run in eager PyTorch."""


# Reasons after which a new connection to the daemon is worth a try: what the old one held is gone.
_LOST = frozenset({"CONNECTION_LOST", "SESSION_EXPIRED", "FORKED", "CLOSED"})
_UNAVAILABLE_CODE, _EXHAUSTED_CODE = "UNAVAILABLE", "RESOURCE_EXHAUSTED"
_START = "see the daemon's log (`tpud status`), or start one by hand with `tpud serve`"


def is_lost(raw: Exception) -> bool:
    """Whether the connection behind a `RawError` is gone, so that it has to be opened again."""
    return getattr(raw, "reason", "") in _LOST


def raise_from(
    raw: Exception, doing: str, issues: Sequence[Issue] = (), kind: type[Error] = CompileError
) -> NoReturn:
    """Raises the tpud exception for a `_tpud.RawError`: the one for its reason, else `kind`. `doing` says what failed,
    e.g. "compiling this graph"."""
    reason, message = raw.reason, raw.message
    issues = issues or [_issue(entry) for entry in raw.issues]
    text = f"{doing} failed: {message}" + (f" [{reason}]" if reason else "")
    if issues:
        text += "\n" + describe_issues(issues)
    if raw.log_tail:
        text += f"\nThe end of the log:\n{raw.log_tail}"
    if reason == "VERSION_MISMATCH":
        raise VersionMismatchError(text, reason, raw.hint or "install the same tpud version on both sides") from raw
    if raw.code_name == _EXHAUSTED_CODE:
        if raw.needed_bytes:
            text += f"\n{raw.needed_bytes:,} bytes needed, {raw.available_bytes:,} available"
        raise ResourceExhaustedError(text, reason, raw.hint, raw.needed_bytes, raw.available_bytes) from raw
    if reason.startswith("UNSUPPORTED"):
        raise UnsupportedOpError(text, reason, raw.hint, issues) from raw
    if raw.code_name == _UNAVAILABLE_CODE or reason in _LOST or reason.startswith("DAEMON_"):
        raise UnavailableError(text, reason, raw.hint or _START) from raw
    if kind is CompileError:
        raise CompileError(text, reason, raw.hint, issues) from raw
    raise kind(text, reason, raw.hint) from raw


def headline(issues: Sequence[Issue]) -> str:
    """The kinds of issues on one line, for logs that keep no more of a message than that."""
    kinds = list(dict.fromkeys(f"{issue.op} ({issue.message})" for issue in issues))
    return ", ".join(kinds[:3]) + (f" and {len(kinds) - 3} other kinds" if len(kinds) > 3 else "")


def describe_issues(issues: Sequence[Issue]) -> str:
    """One paragraph for each op: how often it occurs, why it is refused and the source lines that made it."""
    grouped: dict[tuple[str, str], list[Location]] = {}
    for issue in issues:
        grouped.setdefault((issue.op, issue.message), []).append(issue.location)
    lines = []
    for (op, message), locations in grouped.items():
        times = f" ({len(locations)} times)" if len(locations) > 1 else ""
        lines.append(f"  {op}{times}: {message}")
        unique = list(dict.fromkeys(str(each) for each in locations))
        lines.extend(f"    at {each}" for each in unique[:5])
        if len(unique) > 5:
            lines.append(f"    and at {len(unique) - 5} other lines")
    return "\n".join(lines)


def _issue(entry: dict) -> Issue:
    location = Location(entry["file"], entry["line"], entry["function"], entry["code"], entry["module_path"])
    return Issue(entry["op"], None, entry["message"], location)
