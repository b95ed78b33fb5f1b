"""Helpers for tests of the extension against `examples/loopback.rs`, whose executables return their inputs."""

import json
import os
import pathlib
import subprocess
import time

import torch

from tpud import _tpud

ROOT = pathlib.Path(__file__).resolve().parents[2]
_DTYPES = {torch.float32: "float32", torch.int64: "int64", torch.bool: "bool", torch.bfloat16: "bfloat16"}


def build() -> str:
    """The path of the loopback daemon, built if needed."""
    command = ["cargo", "build", "--quiet", "-p", "tpud-client", "--example", "loopback"]
    messages = subprocess.run(
        [*command, "--message-format=json"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    for line in messages.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message["target"]["name"] == "loopback":
            return message["executable"]
    raise RuntimeError("cargo built no loopback")


class Daemon:
    """A running loopback daemon."""

    def __init__(self, binary: str, address: str, shared: str | None = None):
        self.address = address
        self.process = subprocess.Popen([binary, address, *([shared] if shared else [])])
        for _ in range(500):
            try:
                _tpud.Connection.open(address, "0.1.0", torch.__version__).close()
                return
            except _tpud.RawError:
                time.sleep(0.02)
        raise RuntimeError(f"loopback does not answer at {address}")

    def connect(self) -> _tpud.Connection:
        return _tpud.Connection.open(self.address, "0.1.0", torch.__version__)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def graph(*metas: tuple[str, list[int]], name: str = "identity") -> bytes:
    """A graph that returns its inputs."""
    builder = _tpud.GraphBuilder(name)
    for value in [builder.add_input("user_input", dtype, sizes) for dtype, sizes in metas]:
        builder.add_output("user_output", value)
    return builder.finish()


def host(tensor: torch.Tensor) -> tuple[int, int, str, list[int]]:
    return tensor.data_ptr(), tensor.nbytes, _DTYPES[tensor.dtype], list(tensor.shape)


def fetch(tensor: torch.Tensor) -> tuple[str, int, int]:
    return "fetch", tensor.data_ptr(), tensor.nbytes


def in_child(body) -> int:
    """Runs `body` in a forked child and returns its exit code: 0 when it returned."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
