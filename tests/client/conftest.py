"""Fixtures: a pretended daemon, and torch as a compiled program meets it."""

from __future__ import annotations

import os

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import pytest
import torch
from fake_daemon import FakeDaemon

from tpud import _tpud, encode, errors, parameters, program, session


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> FakeDaemon:
    """A fresh pretended daemon, which this process's session talks to."""
    fake = FakeDaemon()

    def remember(gm, *args, **kwargs):
        encoded = encode.encode_graph(gm, *args, **kwargs)
        fake.graphs[encoded.graph] = gm, encoded
        return encoded

    def open_connection():
        try:
            return fake.open()
        except _tpud.RawError as raw:
            errors.raise_from(raw, "connecting to the tpud daemon")

    monkeypatch.setattr(program, "encode_graph", remember)
    monkeypatch.setattr(session, "_open", open_connection)
    monkeypatch.setattr(session, "current", None)
    monkeypatch.setattr(parameters, "store", parameters.ParameterStore())
    torch._dynamo.reset()
    return fake
