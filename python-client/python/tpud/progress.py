"""One line on a terminal while a compile takes longer than a second."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

SILENT_SECONDS = 1.0


@contextlib.contextmanager
def line() -> Iterator[Callable[[str, float, int], None] | None]:
    """A callback for `Connection.compile`; the line is gone afterwards. None where nobody would see it."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        yield None
        return
    width = 0

    def report(stage: str, elapsed: float, queue_position: int) -> None:
        nonlocal width
        if elapsed < SILENT_SECONDS:
            return
        place = f", {queue_position} ahead" if stage == "queued" and queue_position else ""
        text = f"tpud: {stage}{place} ({elapsed:.0f} s)"
        stream.write("\r" + text.ljust(width))
        stream.flush()
        width = len(text)

    try:
        yield report
    finally:
        if width:
            stream.write("\r" + " " * width + "\r")
            stream.flush()
