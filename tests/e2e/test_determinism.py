"""The same model gives the same keys and the same module, whoever compiles it and wherever."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from daemons import binary, environment, short_directory

MODELS = '''
import torch
import transformers


class Block(torch.nn.Module):
    def __init__(self, channels, stride):
        super().__init__()
        self.first = torch.nn.Conv2d(channels, 2 * channels, 3, stride, 1, bias=False)
        self.norm = torch.nn.BatchNorm2d(2 * channels)
        self.second = torch.nn.Conv2d(2 * channels, 2 * channels, 3, 1, 1, bias=False)
        self.second_norm = torch.nn.BatchNorm2d(2 * channels)
        self.shortcut = torch.nn.Conv2d(channels, 2 * channels, 1, stride, bias=False)

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(y)) + self.shortcut(x))


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.pool = torch.nn.MaxPool2d(3, 2, 1)
        self.blocks = torch.nn.Sequential(Block(8, 1), Block(16, 2))
        self.head = torch.nn.Linear(32, 10)

    def forward(self, x):
        x = self.blocks(self.pool(torch.relu(self.stem(x))))
        return self.head(x.mean((2, 3)))


class Logits(torch.nn.Module):
    def __init__(self):
        super().__init__()
        config = transformers.LlamaConfig(
            vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=32, use_cache=False,
        )
        self.llama = transformers.LlamaForCausalLM(config)

    def forward(self, ids):
        return self.llama(ids).logits


def models():
    yield "residual", Residual().eval(), torch.rand(1, 3, 32, 32)
    yield "llama", Logits().eval(), torch.randint(0, 64, (2, 9))
'''

PROGRAM = '''
import json, sys
import torch, tpud
import model

torch.manual_seed(int(sys.argv[1]))
report = {}
with torch.no_grad():
    for name, module, x in model.models():
        explanation = tpud.explain(module, options={"fallback": "error"})(x)
        (graph,) = explanation.to_dict()["graphs"]
        (executable,) = graph["executables"]
        report[name] = {key: executable[key] for key in ("graph_key", "module_key", "outcome")}
        report[name]["components"] = executable["result"]["graph_key_components"]
        tpud.save_graph(module, (x,), name + ".tpudgraph")
print(json.dumps(report))
'''


class User:
    """Somebody with a home, a working directory, a daemon and a copy of the model of their own."""

    def __init__(self, name: str, hash_seed: str, blank_lines: int) -> None:
        self.root = short_directory()
        self.home = self.root / name
        place = self.home / "some" / "place" if blank_lines else self.home
        place.mkdir(parents=True)
        self.place = place
        (place / "model.py").write_text("\n" * blank_lines + MODELS)
        (place / "program.py").write_text(PROGRAM)
        self.environment = environment(
            PYTHONHASHSEED=hash_seed, HOME=str(self.home), USER=name, LOGNAME=name, XDG_CACHE_HOME=str(self.home / "caches"),
            TPUD_RUNTIME_DIR=str(self.root / "run"), TPUD_IDLE_TIMEOUT="300",
        )  # fmt: skip
        command = [sys.executable, "program.py", hash_seed]
        self.process = subprocess.Popen(command, cwd=place, env=self.environment, stdout=-1, stderr=-1, text=True)

    def report(self) -> dict:
        """What the program printed, with what the `tpud` command says about the graphs that it saved."""
        stdout, stderr = self.process.communicate(timeout=300)
        assert self.process.returncode == 0, stderr
        report = json.loads(stdout)
        for name, entry in report.items():
            text = self.place / f"{name}.mlir"
            lowered = self.tpud("compile", f"{name}.tpudgraph", "--target", "cpu", "--stablehlo", str(text))
            entry["digest"], entry["text"] = lowered["module_digest"], text.read_text()
            # For a TPU the keys say nothing of this machine's processor.
            compiled = self.tpud("compile", f"{name}.tpudgraph", "--target", "v6e:1x1")
            entry["tpu"] = compiled["graph_key"], compiled["module_key"], compiled["outcome"]
        return report

    def tpud(self, *arguments: str) -> dict:
        command = [binary(), *arguments, "--json"]
        done = subprocess.run(command, cwd=self.place, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        subprocess.run([binary(), "shutdown"], env=self.environment, capture_output=True)
        shutil.rmtree(self.root, ignore_errors=True)


@pytest.fixture(scope="module")
def reports():
    users = [User("anna", "1", 0), User("bert", "4242", 37)]
    try:
        yield [user.report() for user in users]
    finally:
        for user in users:
            user.close()


@pytest.mark.parametrize("name", ["residual", "llama"])
def test_two_users_get_the_same_keys_and_the_same_module(reports, name) -> None:
    first, second = (report[name] for report in reports)
    # Each compiled it: nothing was handed on.
    assert (first["outcome"], second["outcome"]) == ("compiled", "compiled")
    differing = [a["name"] for a, b in zip(first["components"], second["components"], strict=True) if a != b]
    assert differing == []
    for what in ("graph_key", "module_key", "digest", "tpu", "text"):
        assert first[what] == second[what], what
    assert first["tpu"][2] == "COMPILED"


def test_other_models_get_other_keys(reports) -> None:
    one, other = reports[0]["residual"], reports[0]["llama"]
    for what in ("graph_key", "module_key", "digest"):
        assert len(one[what]) == 64 and one[what] != other[what]
