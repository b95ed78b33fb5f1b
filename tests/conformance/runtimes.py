"""Where an encoded graph can run: the daemon (as users do), or, while developing a lowering, jaxlib's CPU client."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Unsupported(Exception):
    """The lowering refused the graph."""


class JaxRuntime:
    """`target/debug/examples/lower` prints StableHLO, jaxlib compiles and runs it: no daemon, no MLIR build.

    For development: `TPUD_CONFORMANCE=jax pytest tests/conformance`.
    """

    def __init__(self) -> None:
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax
        from jax._src.lib import xla_client

        jax.config.update("jax_enable_x64", True)
        self.jax, self.xla = jax, xla_client
        self.client = jax.devices("cpu")[0].client
        target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        self.lower = target / "debug" / "examples" / "lower"

    def run(self, gm: torch.fx.GraphModule, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        from tpud.encode import encode_graph
        from tpud.seeds import Draw

        encoded = encode_graph(gm)
        with tempfile.NamedTemporaryFile(suffix=".tpudgraph") as file:
            file.write(encoded.graph)
            file.flush()
            done = subprocess.run([self.lower, file.name], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Unsupported(done.stderr.strip())
        devices = self.xla.DeviceList(tuple(self.client.local_devices()[:1]))
        executable = self.client.compile_and_load(done.stdout, devices, self.xla.CompileOptions())
        inputs = [tensors[i] if isinstance(i, int) else i.words().view(torch.uint64) if isinstance(i, Draw) else i for i in encoded.inputs]
        results = executable.execute([self.jax.device_put(to_numpy(t)) for t in inputs])
        return [from_numpy(np.asarray(r), meta) for r, meta in zip(results, encoded.outputs, strict=True)]


class DaemonRuntime:
    """The real chain: client, daemon, worker, device."""

    def run(self, gm: torch.fx.GraphModule, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        import tpud
        from tpud.backend import compile_graph
        from tpud.options import Options

        try:
            return list(compile_graph(gm, list(tensors), Options(fallback="error"))(list(tensors)))
        except tpud.UnsupportedOpError as error:
            raise Unsupported(str(error)) from error


def to_numpy(tensor: torch.Tensor) -> Any:
    """torch to numpy, the narrow floats through ml_dtypes."""
    import ml_dtypes

    tensor = tensor.contiguous()
    narrow = {
        torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
        torch.float8_e4m3fn: (torch.int8, ml_dtypes.float8_e4m3fn),
        torch.float8_e5m2: (torch.int8, ml_dtypes.float8_e5m2),
    }
    if tensor.dtype in narrow:
        bits, dtype = narrow[tensor.dtype]
        return tensor.view(bits).numpy().view(dtype)
    return tensor.numpy()


def from_numpy(array: Any, like: torch.Tensor) -> torch.Tensor:
    """numpy to torch; a dtype that differs from the expected one stays visible."""
    if array.dtype.kind == "V" or array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        bits = {2: np.int16, 1: np.int8}[array.dtype.itemsize]
        return torch.from_numpy(np.ascontiguousarray(array).view(bits).copy()).view(getattr(torch, array.dtype.name)).reshape(array.shape)
    return torch.from_numpy(np.array(array, copy=True))
