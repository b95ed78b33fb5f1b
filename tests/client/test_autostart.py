"""Finding the daemon of the user and starting it."""

import os
import stat
import subprocess
import sys
import time

import pytest
from loopback import build

from tpud import _tpud

REAL = os.environ.get("TPUD_BIN")

# A daemon as far as starting is concerned: one process gets the lock and serves, the others leave. The test that
# uses it counts how many were started; a real `tpud` is used where TPUD_BIN names one.
SERVE = """#!/bin/sh
[ "$1" = serve ] || exit 9
[ -x "$TPUD_PYTHON" ] || exit 8
echo "started $$" >&2
exec 9>"$TPUD_RUNTIME_DIR/lock"
flock -n 9 || exit 0
echo "serving $$" >&2
sleep 0.3
rm -f "$TPUD_RUNTIME_DIR/daemon.sock"
exec {loopback} "unix://$TPUD_RUNTIME_DIR/daemon.sock"
"""


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    directory = tmp_path / "runtime"
    monkeypatch.setenv("TPUD_RUNTIME_DIR", str(directory))
    monkeypatch.delenv("TPUD_ADDRESS", raising=False)
    monkeypatch.delenv("TPUD_BIN", raising=False)
    return directory


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_default_socket_path(monkeypatch):
    monkeypatch.delenv("TPUD_RUNTIME_DIR", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert str(_tpud.default_socket_path()) == f"/tmp/tpud-{os.getuid()}/daemon.sock"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert str(_tpud.default_socket_path()) == "/run/user/7/tpud/daemon.sock"
    monkeypatch.setenv("TPUD_RUNTIME_DIR", "/somewhere")
    assert str(_tpud.default_socket_path()) == "/somewhere/daemon.sock"


def test_a_named_daemon_is_taken_as_it_is(runtime, monkeypatch):
    monkeypatch.setenv("TPUD_ADDRESS", "http://host:1234")
    assert _tpud.daemon_address() == "http://host:1234" and not runtime.exists()
    monkeypatch.setenv("TPUD_ADDRESS", "host:1234")
    with pytest.raises(_tpud.RawError) as caught:
        _tpud.daemon_address()
    assert caught.value.reason == "INVALID_ADDRESS"


def test_no_binary(runtime, monkeypatch, tmp_path):
    monkeypatch.setenv("TPUD_BIN", str(tmp_path / "absent"))
    with pytest.raises(_tpud.RawError) as caught:
        _tpud.daemon_address()
    assert caught.value.reason == "DAEMON_NOT_FOUND" and "absent" in caught.value.message


def test_a_binary_that_fails(runtime, monkeypatch, tmp_path):
    monkeypatch.setenv("TPUD_BIN", script(tmp_path / "tpud", "#!/bin/sh\necho no plugin for you >&2\nexit 3\n"))
    with pytest.raises(_tpud.RawError) as caught:
        _tpud.daemon_address()
    assert caught.value.reason == "DAEMON_START_FAILED" and "code 3" in caught.value.message
    assert caught.value.log_tail == "no plugin for you\n"


def test_a_binary_that_never_serves(runtime, monkeypatch, tmp_path):
    monkeypatch.setenv("TPUD_BIN", script(tmp_path / "tpud", "#!/bin/sh\necho hm\nexec sleep 3\n"))
    began = time.monotonic()
    with pytest.raises(_tpud.RawError) as caught:
        _tpud.daemon_address(0.5)
    assert caught.value.reason == "DAEMON_START_FAILED" and caught.value.log_tail == "hm\n"
    assert time.monotonic() - began < 2.5


def test_a_directory_of_others_is_refused(runtime, monkeypatch, tmp_path):
    monkeypatch.setenv("TPUD_BIN", script(tmp_path / "tpud", "#!/bin/sh\nexit 0\n"))
    runtime.mkdir(mode=0o777)
    runtime.chmod(0o777)
    with pytest.raises(_tpud.RawError) as caught:
        _tpud.daemon_address()
    assert caught.value.reason == "UNSAFE_RUNTIME_DIRECTORY"


CHILD = """
from tpud import _tpud
connection = _tpud.Connection.open(_tpud.daemon_address(20), "0.1.0", "2.15.0")
print(connection.epoch)
connection.close()
"""


def test_many_at_once_end_with_one_daemon(runtime, monkeypatch, tmp_path):
    monkeypatch.setenv("TPUD_BIN", script(tmp_path / "tpud", SERVE.format(loopback=build())))
    children = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", CHILD], stdout=-1, stderr=-1) for _ in range(8)
    ]
    try:
        ends = [(*child.communicate(timeout=60), child.returncode) for child in children]
        assert [(stderr, code) for _, stderr, code in ends] == [(b"", 0)] * 8
        log = (runtime / "daemon.log").read_text().splitlines()
        serving = [line for line in log if line.startswith("serving")]
        assert len(serving) == 1 and len({stdout for stdout, _, _ in ends}) == 1
        assert stat.S_IMODE(runtime.stat().st_mode) == 0o700
    finally:
        for line in (runtime / "daemon.log").read_text().splitlines():
            if line.startswith("serving"):
                os.kill(int(line.split()[1]), 9)


@pytest.mark.skipif(REAL is None, reason="TPUD_BIN names no daemon")
def test_many_at_once_end_with_one_real_daemon(runtime, monkeypatch, tmp_path):
    monkeypatch.setenv("TPUD_BIN", REAL)
    monkeypatch.setenv("TPUD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TPUD_DEVICE", "none")
    children = [subprocess.Popen([sys.executable, "-c", CHILD], stdout=-1, stderr=-1) for _ in range(64)]
    ends = [(*child.communicate(timeout=120), child.returncode) for child in children]
    try:
        assert {(stderr, code) for _, stderr, code in ends} == {(b"", 0)}
        assert len({stdout for stdout, _, _ in ends}) == 1
    finally:
        connection = _tpud.Connection.open(_tpud.daemon_address(), "0.1.0", "2.15.0")
        connection.shutdown_daemon()
        connection.close()
