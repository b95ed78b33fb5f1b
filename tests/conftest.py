"""Fixtures for tests that need the real daemon: started by the client itself, in an empty runtime directory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import pytest


@pytest.fixture(scope="session")
def runtime_directory() -> Iterator[Path]:
    """The daemon's world for this test session: its socket, its log and its cache."""
    from tpud import _tpud, session

    if _tpud.find_binary() is None:
        pytest.fail("no `tpud` binary: run `make client`, or set TPUD_BIN")
    # A short path: a Unix socket's address has at most 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="tpud-"))
    os.environ["TPUD_RUNTIME_DIR"] = str(directory / "run")
    os.environ["TPUD_CACHE_DIR"] = str(directory / "cache")
    os.environ.pop("TPUD_ADDRESS", None)
    (directory / "run").mkdir(mode=0o700)
    yield directory
    if session.current is not None and session.current.alive:
        session.current.shutdown_daemon()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def daemon(runtime_directory: Path) -> Path:
    """For tests that only need the chain to work."""
    return runtime_directory
