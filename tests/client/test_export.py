"""Graph files, from functions, modules and torch.export archives."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from fake_daemon import FakeDaemon

import tpud
from tpud import export


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x):
        self.calls.add_(1)
        return self.norm(self.linear(x)).softmax(-1), x.shape[0]


def ops(encoded) -> list[str]:
    return [str(node.target) for node in encoded.nodes]


def test_exported_programs_become_functional() -> None:
    program = torch.export.export(Model().eval(), (torch.randn(3, 4),))
    encoded = export.graph_of_program(program)
    assert "aten.add.Tensor" in ops(encoded)
    assert "aten._native_batch_norm_legit_no_training.default" in ops(encoded)
    assert encoded.outputs[-1] == 3


def test_symbolic_sizes_take_their_example() -> None:
    sizes = {"x": {0: torch.export.Dim("batch")}}
    program = torch.export.export(Model().eval(), (torch.randn(3, 4),), dynamic_shapes=sizes)
    encoded = export.graph_of_program(program)
    assert tuple(encoded.outputs[1].shape) == (3, 4)


def test_the_command_line(tmp_path) -> None:
    archive, target = tmp_path / "model.pt2", tmp_path / "out.tpudgraph"
    torch.export.save(torch.export.export(Model().eval(), (torch.randn(3, 4),)), archive)
    command = [sys.executable, "-m", "tpud.export"]
    done = subprocess.run([*command, archive, "-o", target], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert target.read_bytes() == export.graph_of_program(torch.export.load(archive), "model").graph
    missing = subprocess.run([*command, tmp_path / "none.pt2"], capture_output=True, text=True)
    assert missing.returncode == 1
    assert "none.pt2" in missing.stderr


def test_save_graph_of_a_function(tmp_path) -> None:
    tpud.save_graph(lambda x, y: x @ y + 1, (torch.randn(2, 3), torch.randn(3, 2)), tmp_path / "f")
    assert (tmp_path / "f").stat().st_size > 50


def test_explain_reports_graphs_times_and_fallbacks(daemon: FakeDaemon) -> None:
    daemon.unsupported = {"aten.cos.default"}
    model = torch.nn.Linear(4, 4)
    with torch.no_grad():
        report = tpud.explain(lambda x: model(x).cos() + 1)(torch.randn(2, 4))
    data = report.to_dict()
    assert data["fallback_ops"] == {"aten.cos.default": 1}
    assert [each["calls"] for each in data["graphs"][0]["executables"]] == [1, 1]
    assert data["graphs"][0]["executables"][0]["uploaded_bytes"] == (16 + 4) * 4
    assert sum(v for k, v in data["seconds"].items() if k != "total") == pytest.approx(data["seconds"]["total"])
    text = str(report)
    assert "aten.cos.default: no lowering" in text
    assert "test_export.py:" in text


def test_explain_says_when_nothing_was_compiled(daemon: FakeDaemon) -> None:
    assert "Nothing was compiled" in str(tpud.explain(lambda x: x.shape[0])(torch.ones(2)))
