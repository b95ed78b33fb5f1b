"""The `tpud` command with `--json`: every field of every answer, and compiles for TPUs that are not there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from daemons import Daemon
from torch._subclasses.fake_tensor import FakeTensorMode

import tpud

TARGETS = {"v5e:1x1": 16, "v5p:1x1x1": 95, "v6e:1x1": 31, "v7x:1x1x1": 94}
KEY = "hexadecimal key"
NUMBER = (int, float)

DEVICE = {
    "id": int, "platform": str, "kind": str, "description": str, "memory_bytes": int, "memory_used_bytes": int,
}  # fmt: skip
PLATFORM = {
    "platform": str, "available": bool, "plugin_path": str, "plugin_identity": str, "detail": str, "topologies": [str],
}  # fmt: skip
COUNTERS = (
    "compile_requests", "xla_compiles", "lowerings", "memory_hits", "disk_hits", "module_hits", "shared",
    "worker_deaths", "compile_errors", "executions", "cache_errors", "quarantined",
)  # fmt: skip
STATUS = {
    "version": str, "epoch": str, "pid": int, "address": str, "uptime_seconds": NUMBER, "cache_directory": str,
    "queued": int, "sessions": int, "devices": [DEVICE], "counters": dict.fromkeys(COUNTERS, int),
    "workers": [{"pid": int, "busy": bool, "graph_key": str, "busy_seconds": NUMBER}],
}  # fmt: skip
COMPONENT = {"name": str, "value": str, "digest": KEY}
ENTRY = {
    "key": KEY, "kind": str, "tier": str, "bytes": int, "last_used_unix_seconds": int, "components": [COMPONENT],
}  # fmt: skip
MEMORY = dict.fromkeys(
    ("argument_bytes", "output_bytes", "temporary_bytes", "alias_bytes", "code_bytes", "peak_bytes", "device_bytes"), int
)
COMPILED = {
    "target": str, "graph_key": KEY, "module_key": KEY, "outcome": str, "fits": bool, "memory": MEMORY,
    "cost": dict.fromkeys(("flops", "bytes_accessed", "optimal_seconds", "roofline_seconds"), NUMBER),
    "ops": [{"op": str, "count": int}],
    "executable_bytes": int, "module_bytes": int, "graph_key_components": [COMPONENT],
    "module_key_components": [COMPONENT],
    "timings": dict.fromkeys(
        [f"{what}_seconds" for what in ("queue", "lower", "serialize", "compile", "load", "total")], NUMBER
    ),
}  # fmt: skip
ISSUE = {
    "op": str, "node": int, "message": str,
    "location": {"file": str, "line": int, "function": str, "code": str, "module_path": str},
}  # fmt: skip
ERROR = {
    "error": {
        "code": int, "message": str, "reason": str, "hint": str, "issues": [ISSUE], "log_tail": str,
        "needed_bytes": int, "available_bytes": int,
    }
}  # fmt: skip


def conforms(value: Any, schema: Any, at: str = "answer") -> None:
    """Asserts that a value has exactly the fields and types of a schema."""
    if isinstance(schema, dict):
        assert isinstance(value, dict) and value.keys() == schema.keys(), f"{at}: {value}"
        for name, kind in schema.items():
            conforms(value[name], kind, f"{at}.{name}")
    elif isinstance(schema, list):
        assert isinstance(value, list), f"{at}: {value}"
        for index, item in enumerate(value):
            conforms(item, schema[0], f"{at}[{index}]")
    elif schema == KEY:
        assert isinstance(value, str) and len(value) == 64 and int(value, 16) >= 0, f"{at}: {value}"
    else:
        # A bool is an int to Python, but not here.
        right = isinstance(value, schema) and (schema is bool or not isinstance(value, bool))
        assert right, f"{at}: {value!r} is not {schema}"


@pytest.fixture(scope="module")
def server() -> Iterator[Daemon]:
    daemon = Daemon()
    yield daemon
    daemon.close()


@pytest.fixture(scope="module")
def perceptron(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small graph: [8, 64] · [64, 128] → relu → [8, 128] · [128, 32]."""
    path = tmp_path_factory.mktemp("graphs") / "perceptron.tpudgraph"
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 32))
    tpud.save_graph(model.eval(), (torch.randn(8, 64),), path)
    return path


PARAMETERS = 4 * (64 * 128 + 128 + 128 * 32 + 32)
FLOPS = 2 * 8 * (64 * 128 + 128 * 32)


def test_status(server) -> None:
    status = server.json("status")
    conforms(status, STATUS)
    assert (status["version"], status["pid"]) == (tpud.__version__, server.process.pid)
    assert (status["address"], status["cache_directory"]) == (server.address, str(server.directory / "cache"))
    assert [device["platform"] for device in status["devices"]] == ["cpu"]
    assert 0 < status["uptime_seconds"] < server.json("status")["uptime_seconds"]


def test_devices(server) -> None:
    reply = server.json("devices")
    conforms(reply, {"devices": [DEVICE], "platforms": [PLATFORM]})
    cpu, tpu = reply["platforms"]
    assert (cpu["platform"], cpu["available"], cpu["topologies"]) == ("cpu", True, [])
    assert (tpu["platform"], tpu["available"]) == ("tpu", True) and Path(tpu["plugin_path"]).is_file()
    assert [each.partition(":")[0] for each in tpu["topologies"]] == ["v5e", "v5p", "v6e", "tpu7x"]


def test_ops(server) -> None:
    reply = server.json("ops")
    conforms(reply, {"ops": [str]})
    ops = reply["ops"]
    assert ops == sorted(set(ops)) and {"aten.mm.default", "aten.convolution.default"} <= set(ops)
    # Names are those of torch, so that a user can look them up.
    missing = [op for op in ops if op.startswith("aten.") and not _exists(op)]
    assert missing == []


def _exists(op: str) -> bool:
    _, packet, overload = op.split(".")
    return overload in getattr(torch.ops.aten, packet).overloads()


@pytest.mark.parametrize("target", TARGETS)
def test_compile_for_a_tpu(server, perceptron, target) -> None:
    reply = server.json("compile", str(perceptron), "--target", target)
    conforms(reply, COMPILED)
    assert (reply["target"], reply["outcome"], reply["fits"]) == (target, "COMPILED", True)
    memory, cost = reply["memory"], reply["cost"]
    assert memory["device_bytes"] >> 30 == TARGETS[target] - (target == "v5e:1x1")
    # Layouts on a TPU are padded, so tensors take at least their own size.
    assert PARAMETERS + 4 * 8 * 64 <= memory["argument_bytes"] < 8 * PARAMETERS
    assert memory["output_bytes"] >= 4 * 8 * 32
    assert FLOPS <= cost["flops"] < 2 * FLOPS and cost["bytes_accessed"] >= PARAMETERS
    assert 0 < cost["optimal_seconds"] < 1e-3 and 0 < cost["roofline_seconds"] < 1e-3
    assert reply["executable_bytes"] > 10_000 and reply["module_bytes"] > 100
    assert {"op": "aten.relu.default", "count": 1} in reply["ops"]
    text = server.tpud("compile", str(perceptron), "--target", target).stdout
    for part in ("from the memory cache", "fits        yes", "HBM", "FLOP", "by XLA's estimate", reply["graph_key"]):
        assert part in text, text


def test_every_target_has_keys_of_its_own(server, perceptron) -> None:
    replies = [server.json("compile", str(perceptron), "--target", target) for target in TARGETS]
    assert len({reply["graph_key"] for reply in replies}) == len({reply["module_key"] for reply in replies}) == len(TARGETS)


def test_compile_for_the_cpu(server, perceptron) -> None:
    reply = server.json("compile", str(perceptron), "--target", "cpu")
    # What a host's memory holds, and how fast it is, is not the compiler's to know.
    cost = {**COMPILED["cost"], "roofline_seconds": type(None)}
    conforms(reply, {**COMPILED, "fits": type(None), "cost": cost})
    assert reply["memory"]["device_bytes"] == 0 and reply["memory"]["argument_bytes"] == PARAMETERS + 4 * 8 * 64


def test_an_archive_of_torch_export(server, tmp_path) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.softmax(self.layer(x), dim=-1)

    archive, graph = tmp_path / "model.pt2", tmp_path / "saved.tpudgraph"
    model, x = Model().eval(), torch.randn(3, 16)
    torch.export.save(torch.export.export(model, (x,)), archive)
    before = sorted(tmp_path.iterdir())
    reply = server.json("compile", str(archive), "--target", "v6e:1x1")
    conforms(reply, COMPILED)
    assert {op["op"]: op["count"] for op in reply["ops"]}["aten.addmm.default"] == 1
    assert sorted(tmp_path.iterdir()) == before, "converting leaves nothing behind"
    # The same model saved by the client is the same graph.
    tpud.save_graph(model, (x,), graph)
    again = server.json("compile", str(graph), "--target", "v6e:1x1")
    assert (again["graph_key"], again["outcome"]) == (reply["graph_key"], "MEMORY_HIT")


def test_an_archive_that_is_none(server, tmp_path) -> None:
    archive = tmp_path / "model.pt2"
    archive.write_bytes(b"PK but no archive")
    done = server.tpud("compile", str(archive), "--target", "cpu", "--json")
    message = json.loads(done.stdout)["error"]["message"]
    assert done.returncode != 0 and str(archive) in message and "Traceback" not in message, message


def test_what_does_not_fit_says_by_how_much(server, tmp_path) -> None:
    # Never allocated: 2 · 40 GB of arguments on a chip with 31 GiB.
    path = tmp_path / "large.tpudgraph"
    with FakeTensorMode():
        tpud.save_graph(torch.mm, (torch.empty(100_000, 100_000), torch.empty(100_000, 100_000)), path)
    done = server.tpud("compile", str(path), "--target", "v6e:1x1", "--json")
    reply = json.loads(done.stdout)
    conforms(reply, ERROR)
    error = reply["error"]
    assert done.returncode == 1 and error["reason"] == "DOES_NOT_FIT"
    assert error["needed_bytes"] >= 3 * 4 * 100_000**2 > error["available_bytes"] > 30 << 30
    text = server.tpud("compile", str(path), "--target", "v6e:1x1").stderr
    gib = [f"{count / 2**30:.1f} GiB" for count in (error["needed_bytes"], error["needed_bytes"] - error["available_bytes"])]
    assert f"NO: {gib[0]} are needed, {gib[1]} more than the" in text, text


def test_cache(server, perceptron, tmp_path) -> None:
    compiled = server.json("compile", str(perceptron), "--target", "cpu")
    listed = server.json("cache", "list", "--limit", "500")
    conforms(listed, {"entries": [ENTRY], "total_entries": int, "total_bytes": int})
    entries = {entry["key"]: entry for entry in listed["entries"]}
    assert listed["total_entries"] == len(entries) >= 2
    assert listed["total_bytes"] == sum(entry["bytes"] for entry in entries.values())
    assert entries[compiled["graph_key"]]["kind"] == "graph" and entries[compiled["module_key"]]["kind"] == "module"
    assert entries[compiled["graph_key"]]["components"] == compiled["graph_key_components"]

    explanation = {"key": KEY, "stored": bool, "components": [COMPONENT], "nearest": ENTRY, "differing": [str]}
    known = server.json("cache", "explain", str(perceptron), "--target", "cpu")
    conforms(known, {**explanation, "nearest": (dict, type(None))})
    assert (known["key"], known["stored"], known["differing"]) == (compiled["graph_key"], True, [])
    unknown = server.json("cache", "explain", str(perceptron), "--target", "v6e:4x4")
    conforms(unknown, explanation)
    assert not unknown["stored"] and unknown["differing"]
    assert set(unknown["differing"]) <= {component["name"] for component in unknown["components"]}

    verified = server.json("cache", "verify")
    conforms(verified, {"checked": int, "quarantined": [KEY]})
    assert verified["checked"] >= 2 and verified["quarantined"] == []
    pruned = server.json("cache", "prune", "--max-bytes", "0")
    conforms(pruned, {"removed": int, "freed_bytes": int})
    assert pruned["removed"] == listed["total_entries"]
    assert server.json("cache", "list")["entries"] == []
    assert server.json("compile", str(perceptron), "--target", "cpu")["outcome"] == "COMPILED"


def test_errors_are_json_too(server, tmp_path) -> None:
    @torch.library.custom_op("tpud_cli::thrice", mutates_args=())
    def thrice(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    thrice.register_fake(torch.empty_like)
    path = tmp_path / "unsupported.tpudgraph"
    tpud.save_graph(lambda x: thrice(x) + 1, (torch.randn(3),), path)
    done = server.tpud("compile", str(path), "--target", "cpu", "--json")
    reply = json.loads(done.stdout)
    conforms(reply, ERROR)
    (issue,) = reply["error"]["issues"]
    assert (done.returncode, reply["error"]["reason"], issue["op"]) == (1, "UNSUPPORTED_OP", "tpud_cli.thrice.default")
    assert issue["location"]["file"].endswith("test_cli.py") and "thrice(x) + 1" in issue["location"]["code"]

    missing = server.tpud("cache", "explain", "0123456789abcdef", "--json")
    assert json.loads(missing.stdout)["error"]["reason"] == "CACHE_KEY_UNKNOWN" and missing.returncode == 1
    nobody = server.tpud("status", "--json", "--address", f"unix://{tmp_path}/nobody.sock")
    assert nobody.returncode == 1 and "nobody.sock" in json.loads(nobody.stdout)["error"]["message"]


def test_shutdown() -> None:
    daemon = Daemon("--device", "none")
    try:
        reply = daemon.json("shutdown")
        conforms(reply, {"pid": int, "shutting_down": bool})
        assert reply["pid"] == daemon.process.pid and daemon.process.wait(timeout=10) == 0
    finally:
        daemon.close()
