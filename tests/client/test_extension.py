"""The connection: calls, transfers, threads, forks, signals, and what becomes of errors."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import torch
from loopback import Daemon, build, fetch, graph, host, in_child

from tpud import _tpud


@pytest.fixture(scope="session")
def binary():
    return build()


@pytest.fixture(scope="module")
def daemon(binary, tmp_path_factory):
    root = tmp_path_factory.mktemp("loopback")
    (root / "shared").mkdir()
    daemon = Daemon(binary, f"unix://{root}/socket", str(root / "shared"))
    yield daemon
    daemon.kill()


@pytest.fixture
def connection(daemon):
    connection = daemon.connect()
    yield connection
    connection.close()


def identity(connection, tensor):
    return connection.compile(graph((host(tensor)[2], list(tensor.shape)))).executable


def test_import_starts_nothing():
    script = """
import os
count = lambda: (len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")))
before = count()
import tpud._tpud
assert count() == before, (count(), before)
"""
    package = os.path.dirname(os.path.dirname(_tpud.__file__))
    # Without tpud/__init__.py, which may import torch.
    stub = f"import sys, types; p = types.ModuleType('tpud'); p.__path__ = [{package!r} + '/tpud']; sys.modules['tpud'] = p"
    subprocess.run([sys.executable, "-c", stub + script], check=True)


def test_handshake(connection):
    assert connection.daemon_version == "loopback" and connection.protocol == 1 and connection.alive
    assert connection.devices[0]["platform"] == "loopback"
    assert connection.pid == os.getpid() and connection.lease_seconds == 3
    assert connection.ops() == ["aten.add.Tensor"]


def test_version_mismatch(daemon):
    with pytest.raises(_tpud.RawError) as caught:
        _tpud.Connection.open(daemon.address, "0.0.0", "2.15.0")
    assert caught.value.reason == "VERSION_MISMATCH" and caught.value.code_name == "FAILED_PRECONDITION"


@pytest.mark.parametrize("numel", [0, 1, 1000, 16_384, 16_385, 3_000_000])
def test_round_trip(connection, numel):
    source = torch.randn(numel)
    executable = identity(connection, source)
    target = torch.full_like(source, 7)
    assert executable.run([host(source)], [fetch(target)]) == [None]
    assert torch.equal(source, target)
    (kept,) = executable.run([(source.data_ptr(), source.nbytes)], ["keep"])
    assert kept.nbytes == source.nbytes
    target = torch.full_like(source, 7)
    (again,) = executable.run([kept], [("keep_fetch", target.data_ptr(), target.nbytes)])
    assert torch.equal(source, target) and again.handle != kept.handle
    target = torch.full_like(source, 7)
    again.download(target.data_ptr(), target.nbytes)
    assert torch.equal(source, target)


@pytest.mark.parametrize("numel", [1, 16_385, 12_000_000])
def test_upload_is_free_to_change(connection, numel):
    source = torch.arange(numel)
    expected = source.clone()
    buffer = connection.upload(*host(source))
    source.zero_()
    target = torch.empty_like(expected)
    buffer.download(target.data_ptr(), target.nbytes)
    assert torch.equal(target, expected)


def test_large_data_goes_through_segments_which_are_reused_and_removed(daemon):
    connection = daemon.connect()
    source = torch.randn(100_000)
    executable = identity(connection, source)
    for _ in range(20):
        target = torch.empty_like(source)
        executable.run([host(source)], [fetch(target)])
        assert torch.equal(source, target)
    stats = connection.transfer_stats()
    assert stats["shared_bytes"] == 40 * source.nbytes and stats["segments"] == 1 and stats["inline_bytes"] == 0
    assert os.listdir(connection.shared_directory) != []
    connection.close()
    assert os.listdir(connection.shared_directory) == []


@pytest.mark.parametrize("where", ["tcp", "no room"])
def test_data_in_messages(binary, tmp_path, where):
    if where == "tcp":
        daemon = Daemon(binary, "http://127.0.0.1:47311")
    else:
        daemon = Daemon(binary, f"unix://{tmp_path}/socket", str(tmp_path / "absent"))
    try:
        connection = daemon.connect()
        source = torch.randn(3_300_000)
        executable = identity(connection, source)
        target = torch.empty_like(source)
        executable.run([host(source)], [fetch(target)])
        assert torch.equal(source, target)
        buffer = connection.upload(*host(source))
        target = torch.empty_like(source)
        executable.run([buffer], [("keep_fetch", target.data_ptr(), target.nbytes)])
        assert torch.equal(source, target)
        assert connection.transfer_stats()["chunked_bytes"] == 4 * source.nbytes
        connection.close()
    finally:
        daemon.kill()


def test_pipelined_runs(connection):
    source = torch.randn(64)
    executable = identity(connection, source)
    buffers = [connection.upload(*host(source))]
    for _ in range(500):
        buffers = executable.run(buffers, ["keep"], wait=False)
    target = torch.empty_like(source)
    buffers[0].download(target.data_ptr(), target.nbytes)
    assert torch.equal(source, target)
    with pytest.raises(ValueError, match="wait=False"):
        executable.run(buffers, [fetch(target)], wait=False)


def test_a_failed_upload_is_raised_by_its_user_or_by_synchronize(connection):
    source = torch.randn(13)
    executable = identity(connection, source)
    buffer = connection.upload(*host(source))
    target = torch.empty_like(source)
    with pytest.raises(_tpud.RawError, match="bad luck"):
        executable.run([buffer], [fetch(target)])
    connection.upload(*host(source))
    with pytest.raises(_tpud.RawError, match="bad luck") as caught:
        connection.synchronize()
    assert caught.value.code_name == "FAILED_PRECONDITION"
    connection.synchronize()
    executable.run([host(source)], [fetch(target)])
    assert torch.equal(source, target)


def test_errors_carry_their_details(connection):
    with pytest.raises(_tpud.RawError) as caught:
        connection.compile(graph(("float32", [2]), name="refuse"))
    error = caught.value
    assert (error.reason, error.message) == ("UNSUPPORTED_OP", "1 op has no lowering")
    assert error.issues[0]["op"] == "aten.nonzero.default" and error.issues[0]["node"] == 3
    assert (error.issues[0]["file"], error.issues[0]["line"]) == ("model.py", 7)
    with pytest.raises(_tpud.RawError) as caught:
        connection.compile(bytes(80 << 20))
    assert caught.value.reason == "MESSAGE_TOO_LARGE"
    with pytest.raises(_tpud.RawError) as caught:
        connection.status()
    assert caught.value.code_name == "UNIMPLEMENTED" and connection.alive


def test_wrong_calls(connection):
    source = torch.randn(4)
    executable = identity(connection, source)
    other = torch.randn(5)
    for inputs, outputs in [
        ([], ["keep"]),
        ([host(source)] * 2, ["keep"]),
        ([host(source)], []),
        ([(source.data_ptr(), 17)], ["keep"]),
        ([(source.data_ptr(), 16, "float32", [5])], ["keep"]),
        ([(0, 16)], ["keep"]),
        ([host(source)], [fetch(other)]),
    ]:
        with pytest.raises(ValueError):
            executable.run(inputs, outputs)
    with pytest.raises(TypeError):
        executable.run([source], ["keep"])
    with pytest.raises(TypeError):
        executable.run([host(source)], ["hold"])
    with pytest.raises(ValueError, match="platform, topology"):
        connection.compile(graph(("float32", [2])), {"plattform": "cpu"})
    (buffer,) = executable.run([host(source)], ["keep"])
    buffer.free()
    buffer.free()
    with pytest.raises(ValueError, match="was freed"):
        executable.run([buffer], ["keep"])


def test_progress_and_its_exceptions(connection):
    steps = []
    connection.compile(graph(("float32", [2])), progress=lambda *step: steps.append(step))
    assert steps == [("compiling", 0.5, 0)]

    def stop(*_):
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        connection.compile(graph(("float32", [2])), progress=stop)
    result = connection.compile(graph(("float32", [2])), executable=False)
    assert result.executable is None and result.outcome == "compiled"
    assert result.to_dict()["signature"]["inputs"] == [{"dtype": "float32", "sizes": [2]}]


def test_threads(connection):
    failures = []

    def work(seed):
        try:
            source = torch.full((1 + seed * 4000,), float(seed))
            executable = identity(connection, source)
            for _ in range(100):
                target = torch.empty_like(source)
                executable.run([host(source)], [fetch(target)])
                assert torch.equal(source, target)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)


def test_a_signal_interrupts_a_wait(connection):
    def ring(*_):
        raise TimeoutError("rang")

    previous = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="rang"):
            connection.compile(graph(("float32", [2]), name="slow"))
        assert time.monotonic() - began < 0.9
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert connection.compile(graph(("float32", [2]))).executable is not None


def test_fork(daemon, connection):
    source = torch.randn(64)
    executable = identity(connection, source)
    buffer = connection.upload(*host(source))

    def child():
        nonlocal buffer
        assert not connection.alive
        with pytest.raises(_tpud.RawError) as caught:
            executable.run([buffer], ["keep"])
        assert caught.value.reason == "FORKED" and caught.value.code_name == "UNAVAILABLE"
        buffer.free()
        buffer = None
        connection.close()
        again = daemon.connect()
        target = torch.empty_like(source)
        identity(again, source).run([host(source)], [fetch(target)])
        assert torch.equal(source, target)
        again.close()

    for _ in range(3):
        assert in_child(child) == 0
    target = torch.empty_like(source)
    executable.run([buffer], [fetch(target)])
    assert torch.equal(source, target)


def test_fork_while_threads_call(connection):
    source = torch.randn(64)
    executable = identity(connection, source)
    stop = threading.Event()

    def call():
        while not stop.is_set():
            executable.run([host(source)], ["keep"])

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert [in_child(lambda: connection.close()) for _ in range(10)] == [0] * 10
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert not any(thread.is_alive() for thread in threads) and connection.alive


def test_a_killed_daemon(binary, tmp_path):
    daemon = Daemon(binary, f"unix://{tmp_path}/socket")
    connection = daemon.connect()
    source = torch.randn(4)
    executable = identity(connection, source)
    (buffer,) = executable.run([host(source)], ["keep"])
    daemon.kill()
    for _ in range(2):
        with pytest.raises(_tpud.RawError) as caught:
            executable.run([buffer], ["keep"])
        assert (caught.value.code_name, caught.value.reason) == ("UNAVAILABLE", "CONNECTION_LOST")
    assert not connection.alive
    with pytest.raises(_tpud.RawError) as caught:
        daemon.connect()
    assert caught.value.reason == "CONNECTION_LOST" and "socket" in caught.value.message
    connection.close()


def test_closed(daemon):
    connection = daemon.connect()
    buffer = connection.upload(*host(torch.randn(4)))
    connection.close()
    connection.close()
    with pytest.raises(_tpud.RawError) as caught:
        connection.ops()
    assert caught.value.reason == "CLOSED" and not connection.alive
    del buffer


@pytest.mark.parametrize("address", ["", "unix://relative", "ftp://a:1", "http://"])
def test_invalid_addresses(address):
    with pytest.raises(_tpud.RawError) as caught:
        _tpud.Connection.open(address, "0.1.0", "2.15.0")
    assert caught.value.reason == "INVALID_ADDRESS"


def test_exit_without_close(daemon):
    script = f"""
import torch
from tpud import _tpud
connection = _tpud.Connection.open({daemon.address!r}, "0.1.0", "2.15.0")
source = torch.randn(40000)
buffer = connection.upload(source.data_ptr(), source.nbytes, "float32", [40000])
"""
    done = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_command_that_nobody_waits_for_leaves_at_once(daemon, tmp_path):
    sent = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "proxy"))
    listener.listen()

    def pump(source, target, record):
        while data := source.recv(1 << 16):
            record(time.monotonic())
            target.sendall(data)

    def serve():
        client, _ = listener.accept()
        upstream = socket.socket(socket.AF_UNIX)
        upstream.connect(daemon.address.removeprefix("unix://"))
        threading.Thread(target=pump, args=(upstream, client, lambda _: None), daemon=True).start()
        pump(client, upstream, sent.append)

    threading.Thread(target=serve, daemon=True).start()
    connection = _tpud.Connection.open(f"unix://{tmp_path}/proxy", "0.1.0", "2.15.0")
    source = torch.randn(16)
    executable = identity(connection, source)
    delays = []
    for _ in range(10):
        for _ in range(5):
            executable.run([host(source)], ["keep"])
        before = len(sent)
        executable.run([host(source)], ["keep"], wait=False)
        began = time.monotonic()
        time.sleep(0.1)
        delays.append(sent[before] - began)
    connection.close()
    # The background thread alone would take 20 to 40 ms each time.
    assert sorted(delays)[5] < 0.01
