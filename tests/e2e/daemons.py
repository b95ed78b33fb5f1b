"""Daemons of a test's own: their flags, variables, directory and end are the test's."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tpud import _tpud

# Variables of the session's shared daemon, and of whoever runs the tests, that would change what a daemon does.
_FOREIGN = ("TPUD_RUNTIME_DIR", "TPUD_CACHE_DIR", "TPUD_ADDRESS", "TPUD_IDLE_TIMEOUT", "TPUD_TEST_FAULT", "TPUD_CONFIG")


def binary() -> str:
    """The `tpud` binary under test."""
    found = _tpud.find_binary()
    assert found is not None, "no `tpud` binary: run `make client`, or set TPUD_BIN"
    return str(found)


def environment(**variables: str) -> dict[str, str]:
    """This process's environment without what concerns other daemons, and with these variables."""
    kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    return {**kept, "TPUD_PYTHON": sys.executable, **variables}


def short_directory() -> Path:
    """A fresh directory with a short path: a Unix socket's address has at most 107 bytes."""
    return Path(tempfile.mkdtemp(prefix="tpud-"))


class Daemon:
    """`tpud serve` in a directory of its own. `prefix` is put before the command, e.g. to limit its resources."""

    def __init__(self, *flags: str, prefix: tuple[str, ...] = (), address: str = "", **variables: str) -> None:
        self.directory = short_directory()
        self.address = address or f"unix://{self.directory}/daemon.sock"
        self.command = [*prefix, binary(), "serve", *flags]
        self.variables = {"TPUD_CACHE_DIR": str(self.directory / "cache"), **variables, "TPUD_ADDRESS": self.address}
        self.start()

    def start(self) -> None:
        """Starts it, also again after its end, and waits until it answers."""
        log = (self.directory / "log").open("ab")
        environ = environment(**self.variables)
        self.process = subprocess.Popen(self.command, env=environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not self._accepts():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def _accepts(self) -> bool:
        scheme, _, place = self.address.partition("://")
        host, _, port = place.partition(":")
        family, target = (socket.AF_UNIX, place) if scheme == "unix" else (socket.AF_INET, (host, int(port)))
        with socket.socket(family) as probe:
            try:
                probe.connect(target)
            except OSError:
                return False
        return True

    def log(self) -> str:
        """All that it has logged."""
        return (self.directory / "log").read_text()

    def kill(self) -> None:
        """Ends it without a warning."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def status(self) -> dict[str, Any]:
        """What `tpud status` says."""
        return self.json("status")

    def json(self, *arguments: str) -> Any:
        """What a command that succeeds prints as JSON."""
        done = self.tpud(*arguments, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def tpud(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A `tpud` command against this daemon."""
        environ = environment(TPUD_ADDRESS=self.address, **variables)
        return subprocess.run([binary(), *arguments], env=environ, capture_output=True, text=True, timeout=300)

    def close(self) -> None:
        """Ends it and removes its directory."""
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

