"""Fixtures: a connection to the daemon that all tests share, and daemons of a test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from daemons import Daemon

from tpud import _tpud, parameters, session


@pytest.fixture
def connection(runtime_directory: Path) -> _tpud.Connection:
    """The client's connection to a running daemon, with Dynamo and the parameter store fresh."""
    torch._dynamo.reset()
    parameters.store = parameters.ParameterStore()
    return session.connection()


@pytest.fixture
def fresh_client(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process as if it had never spoken to a daemon; afterwards it has its old connection again."""
    torch._dynamo.reset()
    monkeypatch.setattr(session, "current", None)
    monkeypatch.setattr(parameters, "store", parameters.ParameterStore())
    yield
    if session.current is not None:
        session.current.close()


@pytest.fixture
def start_daemon(fresh_client: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Daemon]]:
    """Starts a daemon, with the arguments of `Daemon`, to which the client of this process connects."""
    started: list[Daemon] = []

    def start(*flags: str, **settings: str) -> Daemon:
        daemon = Daemon(*flags, **settings)
        started.append(daemon)
        monkeypatch.setenv("TPUD_ADDRESS", daemon.address)
        return daemon

    yield start
    for daemon in started:
        daemon.close()
