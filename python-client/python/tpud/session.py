"""This process's connection to the daemon: opened at first use, again after a fork and when it was lost."""

from __future__ import annotations

import os
import threading
import time

import torch

from tpud import _tpud, errors

# Read without a lock on every call of a compiled function: an object that was loaded through another connection is
# stale.
current: _tpud.Connection | None = None

# Seconds to wait after an attempt to connect that was cut off.
RETRIES = (0.05, 0.2, 1.0, 0.0)

_lock = threading.Lock()


def connection() -> _tpud.Connection:
    """The live connection; opens one, and starts the per-user daemon, if there is none."""
    global current
    live = current
    if live is not None and live.alive:
        return live
    with _lock:
        if current is None or not current.alive:
            current = _open()
        return current


def discard(lost: _tpud.Connection) -> None:
    """Forgets a connection that failed, so that the next call opens another. Its handles are gone."""
    global current
    with _lock:
        if current is lost:
            current = None


def _open() -> _tpud.Connection:
    raw: _tpud.RawError
    for pause in RETRIES:
        try:
            return _tpud.Connection.open(_tpud.daemon_address(), _tpud.__version__, torch.__version__)
        except _tpud.RawError as error:
            raw = error
        # A daemon that was killed or goes down accepts connections until its socket is closed, and drops them.
        if not errors.is_lost(raw):
            break
        time.sleep(pause)
    errors.raise_from(raw, "connecting to the tpud daemon")


def _after_fork() -> None:
    """In the child: the parent's connection is not ours, and its lock may be held by a thread that is not here."""
    global current, _lock
    current = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
