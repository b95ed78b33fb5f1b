"""`make bench`: what tpud costs, as ratios within one run (machines are noisy, ratios less so).

calls     one call of a compiled function of two small ops, beside eager, a Dynamo-only backend, inductor and jax.jit
lowering  lowering and serialising a graph of 5,000 nodes against XLA's CPU compile time of the same graph
transfer  a call with large inputs against a memory copy of the same size
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import torch

LAYERS = 100
LOWERING_LIMIT = 0.10


def median_microseconds(call: Callable[[], object], calls: int = 400, rounds: int = 7) -> float:
    """The median over rounds of the mean time of a call."""
    for _ in range(50):
        call()
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - started) / calls * 1e6)
    return statistics.median(times)


def two_ops(a, b):
    return a * b + a


def bench_calls() -> dict[str, float]:
    a, b = torch.randn(8, 8), torch.randn(8, 8)
    figures: dict[str, float] = {}
    with torch.no_grad():
        figures["eager"] = median_microseconds(lambda: two_ops(a, b))
        for name, backend in (("dynamo only", "eager"), ("inductor", "inductor"), ("tpud", "tpu")):
            torch._dynamo.reset()
            compiled = torch.compile(two_ops, backend=backend)
            figures[name] = median_microseconds(lambda compiled=compiled: compiled(a, b))
    import jax

    x, y = jax.numpy.asarray(a.numpy()), jax.numpy.asarray(b.numpy())
    jitted = jax.jit(two_ops)
    figures["jax.jit"] = median_microseconds(lambda: jitted(x, y).block_until_ready())
    return figures


class Deep(torch.nn.Module):
    """Pre-norm residual blocks with attention: about 56 ATen nodes a layer."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleDict(
                {
                    "norm1": torch.nn.LayerNorm(width),
                    "qkv": torch.nn.Linear(width, 3 * width),
                    "out": torch.nn.Linear(width, width),
                    "norm2": torch.nn.LayerNorm(width),
                    "up": torch.nn.Linear(width, 2 * width),
                    "down": torch.nn.Linear(2 * width, width),
                }
            )
            for _ in range(LAYERS)
        )

    def forward(self, x):
        batch, length, width = x.shape
        for layer in self.layers:
            q, k, v = layer["qkv"](layer["norm1"](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1)
            x = x + layer["out"]((weights @ v).transpose(1, 2).reshape(batch, length, width))
            x = x + layer["down"](torch.nn.functional.gelu(layer["up"](layer["norm2"](x))))
        return x


def bench_lowering(workdir: pathlib.Path) -> dict[str, float]:
    import tpud

    path = workdir / "deep.tpudgraph"
    with torch.no_grad():
        tpud.save_graph(Deep().eval(), (torch.randn(2, 8, 32),), path)
    command = [os.environ["TPUD_BIN"], "compile", str(path), "--target", "cpu", "--json"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    timings = result["timings"]
    return {
        "nodes": sum(op["count"] for op in result["ops"]),
        "graph_bytes": path.stat().st_size,
        "module_bytes": result["module_bytes"],
        "lower_s": timings["lower_seconds"],
        "serialize_s": timings["serialize_seconds"],
        "compile_s": timings["compile_seconds"],
        "ratio": (timings["lower_seconds"] + timings["serialize_seconds"]) / timings["compile_seconds"],
    }


def bench_transfer() -> dict[str, float]:
    x = torch.randn(8 * 2**20)  # 32 MiB
    target = torch.empty_like(x)
    torch._dynamo.reset()
    compiled = torch.compile(lambda t: t + 1, backend="tpu")
    with torch.no_grad():
        copy = median_microseconds(lambda: target.copy_(x), calls=5, rounds=5)
        eager = median_microseconds(lambda: x + 1, calls=5, rounds=5)
        call = median_microseconds(lambda: compiled(x), calls=5, rounds=5)
    return {"copy_us": copy, "eager_us": eager, "tpud_us": call, "copies": call / copy}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", choices=[[], "calls", "lowering", "transfer"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    workdir = pathlib.Path(tempfile.mkdtemp(prefix="tpud-bench-"))
    os.environ.update(TPUD_RUNTIME_DIR=str(workdir), TPUD_CACHE_DIR=str(workdir / "cache"), TPUD_PYTHON=sys.executable)
    torch.set_num_threads(1)
    wanted = options.only or ["calls", "lowering", "transfer"]
    try:
        figures = {
            name: {"calls": bench_calls, "lowering": lambda: bench_lowering(workdir), "transfer": bench_transfer}[name]()
            for name in wanted
        }
    finally:
        subprocess.run([os.environ["TPUD_BIN"], "shutdown"], capture_output=True, check=False)
        shutil.rmtree(workdir, ignore_errors=True)
    if options.json:
        print(json.dumps(figures))
        return
    show(figures)


def show(figures: dict[str, dict[str, float]]) -> None:
    if calls := figures.get("calls"):
        print("One call of two small ops (median µs, and relative to eager):")
        for name, value in calls.items():
            print(f"  {name:<12} {value:8.1f}  {value / calls['eager']:6.1f}×")
    if lowering := figures.get("lowering"):
        print(
            f"Lowering {lowering['nodes']:,.0f} nodes: {lowering['lower_s'] * 1e3:.0f} ms, serialising "
            f"{lowering['serialize_s'] * 1e3:.0f} ms, XLA {lowering['compile_s']:.1f} s: {lowering['ratio']:.1%} "
            f"of XLA's time (limit {LOWERING_LIMIT:.0%}); module {lowering['module_bytes']:,} bytes"
        )
    if transfer := figures.get("transfer"):
        print(f"A call with 32 MiB in and out: {transfer['copies']:.1f} memory copies ({transfer['tpud_us'] / transfer['eager_us']:.1f}× eager)")


if __name__ == "__main__":
    main()
