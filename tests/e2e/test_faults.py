"""What a user sees when something is wrong: their model, their machine, or the daemon."""

from __future__ import annotations

import inspect
import os
import re
import signal
import socket
import subprocess
import threading
import time
from contextlib import contextmanager

import pytest
import torch
from daemons import Daemon, short_directory

import tpud
from tpud import _tpud


def compiled(fn, **options):
    return torch.compile(fn, backend="tpu", options={"fallback": "error", **options})


def twice_plus_one(x):
    return x * 2 + 1


def works(**options) -> bool:
    """Whether a small function that no other test compiles is compiled and right."""
    torch._dynamo.reset()
    x = torch.arange(7.0)
    return torch.equal(compiled(twice_plus_one, **options)(x), x * 2 + 1)


def error_of(kind, call, *args):
    with pytest.raises(kind) as caught:
        call(*args)
    return caught.value


# The user's model


@torch.library.custom_op("tpud_faults::first", mutates_args=())
def first(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@torch.library.custom_op("tpud_faults::second", mutates_args=())
def second(x: torch.Tensor) -> torch.Tensor:
    return x * 5


first.register_fake(torch.empty_like)
second.register_fake(torch.empty_like)


def test_all_unsupported_ops_are_listed_with_the_users_lines(connection) -> None:
    def model(x):
        x = first(x + 1)
        x = torch.relu(x)
        x = second(x)
        return first(x).sum()

    executions = connection.status()["counters"]["executions"]
    error = error_of(tpud.UnsupportedOpError, compiled(model), torch.randn(3))
    start = inspect.getsourcelines(model)[1]
    places = [(issue.op, issue.location.file.endswith("test_faults.py"), issue.location.line) for issue in error.issues]
    name = "tpud_faults.{}.default".format
    assert places == [(name("first"), True, start + 1), (name("second"), True, start + 3), (name("first"), True, start + 4)]
    text = str(error)
    assert error.reason == "UNSUPPORTED_OP" and 'options={"fallback": "eager"}' in text
    assert all(f"test_faults.py:{line}" in text for _, _, line in places) and "x = second(x)" in text
    assert connection.status()["counters"]["executions"] == executions
    assert works()


def test_a_dtype_that_xla_does_not_have(connection) -> None:
    def model(x, y):
        return x * 2, y + 1

    x, y = torch.ones(3, dtype=torch.complex32), torch.ones(3)
    error = error_of(tpud.UnsupportedOpError, compiled(model), x, y)
    assert [issue.op for issue in error.issues] == ["aten.mul.Tensor"]
    assert "torch.complex32 is not supported" in str(error)
    assert error.issues[0].location.line == inspect.getsourcelines(model)[1] + 1
    with pytest.warns(tpud.FallbackWarning, match="torch.complex32 is not supported"):
        got = torch.compile(model, backend="tpu")(x, y)
    assert got[0].dtype == torch.complex32 and torch.equal(got[0].to(torch.complex64), torch.full((3,), 2 + 0j))
    assert torch.equal(got[1], y + 1)


def test_a_tensor_that_is_not_in_host_memory(connection) -> None:
    x = torch.ones(3, device="meta")
    assert "device meta" in str(error_of(tpud.UnsupportedOpError, compiled(twice_plus_one), x))
    with pytest.warns(tpud.FallbackWarning, match="device meta"):
        assert torch.compile(twice_plus_one, backend="tpu")(x).device.type == "meta"


def test_quantised_tensors_are_right_in_eager(connection) -> None:
    # Dynamo itself can't trace them, so it leaves them to eager PyTorch.
    x = torch.quantize_per_tensor(torch.ones(3), 0.5, 0, torch.quint8)
    assert torch.equal(torch.compile(lambda x: x.dequantize() + 1, backend="tpu")(x), torch.full((3,), 2.0))


def test_an_unknown_option_lists_the_known_ones(connection) -> None:
    call = torch.compile(twice_plus_one, backend="tpu", options={"fallbakc": "error"})
    error = error_of(tpud.OptionsError, call, torch.ones(2))
    assert isinstance(error, ValueError)
    for part in ("fallbakc", "'fallback'", "precision", "target", "timeout", "xla_flags"):
        assert part in str(error)


# The user's machine


def test_a_missing_plugin_of_the_daemon_that_is_started(fresh_client, monkeypatch) -> None:
    directory = short_directory()
    monkeypatch.setenv("TPUD_RUNTIME_DIR", str(directory / "run"))
    monkeypatch.setenv("TPUD_CACHE_DIR", str(directory / "cache"))
    monkeypatch.delenv("TPUD_ADDRESS", raising=False)
    monkeypatch.setenv("TPUD_CPU_PLUGIN", "/nonexistent/plugin.so")
    call = compiled(twice_plus_one)
    error = error_of(tpud.UnavailableError, call, torch.ones(2))
    assert error.reason == "DAEMON_START_FAILED"
    for part in ("no PJRT plugin for cpu", "/nonexistent/plugin.so", "TPUD_CPU_PLUGIN"):
        assert part in str(error)
    # Nothing of the failure is kept: the same function works once the plugin is there.
    monkeypatch.delenv("TPUD_CPU_PLUGIN")
    assert torch.equal(call(torch.ones(2)), torch.full((2,), 3.0))
    tpud.session.current.shutdown_daemon()


def test_a_missing_plugin_of_a_target(start_daemon) -> None:
    daemon = start_daemon(TPUD_LIBTPU="/nonexistent/libtpu.so")
    error = error_of(tpud.CompileError, compiled(twice_plus_one, target="v6e:1x1"), torch.ones(2))
    assert error.reason == "PLUGIN_MISSING"
    assert "/nonexistent/libtpu.so" in str(error) and "TPUD_LIBTPU" in str(error)
    platforms = {each["platform"]: each for each in daemon.json("devices")["platforms"]}
    assert platforms["cpu"]["available"] and not platforms["tpu"]["available"]
    assert "/nonexistent/libtpu.so" in platforms["tpu"]["detail"]


def test_a_compile_server_executes_nothing_and_says_so(start_daemon) -> None:
    daemon = start_daemon("--device", "none")
    error = error_of(tpud.Error, compiled(twice_plus_one), torch.ones(2))
    assert error.reason == "NO_DEVICE" and "--device" in str(error)
    assert daemon.status()["devices"] == []


@pytest.mark.parametrize("kind", ["unix", "http"])
def test_an_address_where_nobody_listens(fresh_client, monkeypatch, tmp_path, kind) -> None:
    address = f"unix://{tmp_path}/none.sock" if kind == "unix" else f"http://127.0.0.1:{_free_port()}"
    monkeypatch.setenv("TPUD_ADDRESS", address)
    began = time.monotonic()
    error = error_of(tpud.UnavailableError, compiled(twice_plus_one), torch.ones(2))
    assert error.reason == "CONNECTION_LOST" and address in str(error) and "unset TPUD_ADDRESS" in error.hint
    assert time.monotonic() - began < 5


def test_a_function_that_found_no_daemon_works_when_there_is_one(start_daemon, monkeypatch) -> None:
    address = f"http://127.0.0.1:{_free_port()}"
    monkeypatch.setenv("TPUD_ADDRESS", address)
    call = compiled(twice_plus_one)
    error_of(tpud.UnavailableError, call, torch.ones(2))
    start_daemon(address=address)
    assert torch.equal(call(torch.ones(2)), torch.full((2,), 3.0))


@pytest.mark.parametrize("place", ["a file", "a full disk"])
def test_a_cache_directory_that_takes_nothing_costs_warmth_only(start_daemon, tmp_path, place) -> None:
    if place == "a file":
        (tmp_path / "cache").write_text("this is no directory")
        daemon = start_daemon(TPUD_CACHE_DIR=str(tmp_path / "cache"))
    else:
        daemon = start_daemon(prefix=full_disk(tmp_path), TPUD_CACHE_DIR=str(tmp_path / "cache"))
    assert works() and works()
    status = daemon.status()
    counters = status["counters"]
    assert (counters["compile_requests"], counters["xla_compiles"], counters["memory_hits"]) == (2, 1, 1)
    assert counters["compile_errors"] == 0
    if place == "a file":
        assert status["cache_directory"] == ""
        assert str(tmp_path / "cache") in daemon.log() and "nothing will be kept" in daemon.log()
        assert (tmp_path / "cache").read_text() == "this is no directory"
    else:
        assert counters["cache_errors"] > 0, daemon.log()


def full_disk(directory) -> tuple[str, ...]:
    """A prefix for a command: `directory` has space for 8 KiB only."""
    namespace = ("unshare", "--user", "--map-root-user", "--mount")
    mount = f"mount -t tmpfs -o size=8k tmpfs {directory}"
    if subprocess.run([*namespace, "sh", "-c", mount], capture_output=True).returncode == 0:
        return (*namespace, "sh", "-c", f'{mount} && exec "$0" "$@"')
    # Where namespaces are forbidden, no file may grow beyond 2 KiB.
    return "sh", "-c", "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\""


# The daemon


def test_a_daemon_that_dies_and_comes_back(start_daemon) -> None:
    daemon = start_daemon()
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    call = compiled(model)
    x = torch.randn(3, 4)
    with torch.no_grad():
        expected = model(x)
        torch.testing.assert_close(call(x), expected)
        daemon.kill()
        began = time.monotonic()
        error = error_of(tpud.UnavailableError, call, x)
        assert time.monotonic() - began < 5
        assert daemon.address in str(error) and error.reason == "CONNECTION_LOST"
        daemon.start()
        torch.testing.assert_close(call(x), expected)
        torch.testing.assert_close(call(x * 2), model(x * 2))
    counters = daemon.status()["counters"]
    assert (counters["xla_compiles"], counters["disk_hits"], counters["executions"]) == (0, 1, 2)


def test_a_daemon_that_dies_while_it_compiles(start_daemon) -> None:
    daemon = start_daemon(TPUD_TEST_FAULT="hang@slow")

    def kill_when_busy() -> None:
        wait_for_busy_worker(daemon)
        daemon.kill()

    killer = threading.Thread(target=kill_when_busy)
    killer.start()
    call = compiled(twice_plus_one, name="slow")
    error = error_of(tpud.UnavailableError, call, torch.ones(2))
    killer.join()
    assert error.reason == "CONNECTION_LOST"
    daemon.variables["TPUD_TEST_FAULT"] = ""
    daemon.start()
    assert torch.equal(call(torch.ones(2)), torch.full((2,), 3.0))


def test_a_worker_that_is_killed(start_daemon) -> None:
    daemon = start_daemon(TPUD_TEST_FAULT="hang@slow")

    def kill_worker() -> None:
        os.kill(wait_for_busy_worker(daemon), signal.SIGKILL)

    killer = threading.Thread(target=kill_worker)
    killer.start()
    error = error_of(tpud.CompileError, compiled(twice_plus_one, name="slow"), torch.ones(2))
    killer.join()
    assert error.reason == "WORKER_DIED" and "SIGKILL" in str(error)
    assert works()
    status = daemon.status()
    assert status["pid"] == daemon.process.pid and status["counters"]["worker_deaths"] == 1


def test_a_graph_that_aborts_xla_is_given_up_after_two_workers(start_daemon) -> None:
    daemon = start_daemon(TPUD_TEST_FAULT="abort@bad")
    call = compiled(twice_plus_one, name="bad")
    reasons = []
    for _ in range(3):
        error = error_of(tpud.CompileError, call, torch.ones(2))
        reasons.append(error.reason)
        assert "check failed: this worker aborts" in str(error)
    assert reasons == ["WORKER_DIED", "WORKER_DIED", "WORKER_KILLER"]
    assert works()
    assert daemon.status()["counters"]["worker_deaths"] == 2


def test_a_compile_that_takes_longer_than_its_timeout(start_daemon) -> None:
    start_daemon(TPUD_TEST_FAULT="hang@slow")
    assert works()
    began = time.monotonic()
    error = error_of(tpud.Error, compiled(twice_plus_one, name="slow", timeout=1), torch.ones(2))
    assert error.reason == "DEADLINE_EXCEEDED" and time.monotonic() - began < 6
    assert works(precision="medium")


def test_a_graph_above_the_message_limit_names_it(start_daemon) -> None:
    daemon = start_daemon(TPUD_MAX_MESSAGE_BYTES="65536")

    def model(x):
        for _ in range(550):
            x = torch.nn.functional.layer_norm(x, (4,))
        return x

    error = error_of(tpud.ResourceExhaustedError, compiled(model), torch.zeros(3, 4))
    assert error.reason == "MESSAGE_TOO_LARGE" and error.needed_bytes > error.available_bytes == 65536
    assert "65,536 available" in str(error) and "limit" in error.hint
    assert works()
    assert daemon.status()["counters"]["compile_errors"] == 0


def test_tensors_above_the_message_limit_are_no_obstacle(start_daemon) -> None:
    daemon = start_daemon(TPUD_MAX_MESSAGE_BYTES="65536", address=f"http://127.0.0.1:{_free_port()}")
    model = torch.nn.Linear(300, 200)
    x = torch.randn(500, 300)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x), atol=1e-5, rtol=1e-5)
    stats = tpud.session.current.transfer_stats()
    assert stats["chunked_bytes"] > x.nbytes and stats["shared_bytes"] == 0
    assert daemon.status()["counters"]["executions"] == 1


def test_a_quota_says_what_is_needed_and_the_session_lives(start_daemon) -> None:
    start_daemon(TPUD_SESSION_MEMORY_BYTES="100000")
    large, small = torch.nn.Linear(400, 100), torch.nn.Linear(40, 10)
    with torch.no_grad():
        error = error_of(tpud.ResourceExhaustedError, compiled(large), torch.randn(2, 400))
        assert error.reason == "QUOTA_EXCEEDED" and error.needed_bytes > error.available_bytes > 0
        x = torch.randn(2, 40)
        torch.testing.assert_close(compiled(small)(x), small(x))


def test_a_client_of_another_time_learns_both_versions(start_daemon, monkeypatch) -> None:
    daemon = start_daemon()
    with newer_client(daemon, monkeypatch):
        error = error_of(tpud.VersionMismatchError, compiled(twice_plus_one), torch.ones(2))
    assert error.reason == "VERSION_MISMATCH"
    protocols = re.search(r"protocols? 99", str(error))
    assert protocols and str(error).count(tpud.__version__) >= 2, str(error)
    monkeypatch.setenv("TPUD_ADDRESS", daemon.address)
    assert works()


@contextmanager
def newer_client(daemon: Daemon, monkeypatch):
    """The client's handshake arrives as that of a client which speaks protocol 99 only."""
    assert (_tpud.PROTOCOL_MIN, _tpud.PROTOCOL_MAX) == (1, 1)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(daemon.directory / "proxy.sock"))
    listener.listen()
    monkeypatch.setenv("TPUD_ADDRESS", f"unix://{daemon.directory}/proxy.sock")

    def copy(source: socket.socket, target: socket.socket, old: bytes = b"\0", new: bytes = b"\0") -> None:
        while data := source.recv(65536):
            target.sendall(data.replace(old, new))
        target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        client, _ = listener.accept()
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(daemon.address.removeprefix("unix://"))
            # Fields 2 and 3 of OpenRequest: protocol_min and protocol_max.
            there = threading.Thread(target=copy, args=(client, server, b"\x10\x01\x18\x01", b"\x10\x63\x18\x63"))
            there.start()
            copy(server, client)
            there.join()

    thread = threading.Thread(target=serve)
    thread.start()
    yield
    thread.join()
    listener.close()


def wait_for_busy_worker(daemon: Daemon) -> int:
    """The process id of the worker that has a job."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for worker in daemon.status()["workers"]:
            if worker["busy"]:
                return worker["pid"]
        time.sleep(0.02)
    raise AssertionError("no worker became busy:\n" + daemon.log())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_deleted_socket_is_bound_again(start_daemon) -> None:
    daemon = start_daemon()
    path = daemon.directory / "daemon.sock"
    path.unlink()
    deadline = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.05)
    assert torch.compile(lambda x: x + 1, backend="tpu")(torch.zeros(2)).tolist() == [1.0, 1.0]
    assert daemon.process.poll() is None


def test_a_daemon_whose_directory_was_deleted_goes_down(start_daemon) -> None:
    daemon = start_daemon()
    for name in ("daemon.sock", "daemon.sock.lock"):
        (daemon.directory / name).unlink()
    assert daemon.process.wait(timeout=20) == 0
