"""Fixtures: a connection to the real daemon."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tpud import _tpud, parameters, session


@pytest.fixture
def connection(runtime_directory: Path) -> _tpud.Connection:
    """The client's connection to a running daemon, with Dynamo and the parameter store fresh."""
    torch._dynamo.reset()
    parameters.store = parameters.ParameterStore()
    return session.connection()
