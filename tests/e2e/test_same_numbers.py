"""The same numbers, bit by bit: at every call, and from every daemon."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from daemons import binary, environment, short_directory

PROGRAM = '''
import hashlib, json
import torch, transformers
from tpud import session

torch.manual_seed(0)
config = transformers.BertConfig(
    vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, max_position_embeddings=16,
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)
model = transformers.BertForMaskedLM(config)
ids = torch.randint(3, 60, (3, 11))


def digest(tensors):
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(tensor.detach().contiguous().numpy().tobytes())
    return total.hexdigest()


def infer(call):
    with torch.no_grad():
        return digest([call(input_ids=ids).logits])


def train(call):
    model.zero_grad()
    loss = call(input_ids=ids, labels=ids).loss
    loss.backward()
    return digest([loss, *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)])


numbers = {}
for name, run in ("infer", infer), ("train", train):
    model.train(name == "train")
    call = torch.compile(model, backend="tpu", options={"fallback": "error"})
    numbers[name] = [run(call) for _ in range(4)]
    # A daemon that has compiled it before, a client that has not.
    torch._dynamo.reset()
    numbers[name].append(run(torch.compile(model, backend="tpu", options={"fallback": "error"})))
counters = session.connection().status()["counters"]
print(json.dumps({"numbers": numbers, "compiles": counters["xla_compiles"]}))
'''


@pytest.fixture(scope="module")
def runs():
    """What two users' programs print, who each have a daemon and a cache of their own; both run at the same time."""
    roots = [short_directory(), short_directory()]
    worlds = [environment(TPUD_RUNTIME_DIR=str(root / "run"), TPUD_CACHE_DIR=str(root / "cache"), PYTHONHASHSEED=str(seed)) for seed, root in enumerate(roots)]
    processes = [subprocess.Popen([sys.executable, "-c", PROGRAM], env=world, stdout=-1, stderr=-1, text=True) for world in worlds]
    try:
        found = []
        for process in processes:
            stdout, stderr = process.communicate(timeout=300)
            assert process.returncode == 0, stderr
            found.append(json.loads(stdout.splitlines()[-1]))
        yield found
    finally:
        for process, world, root in zip(processes, worlds, roots, strict=True):
            process.kill()
            subprocess.run([binary(), "shutdown"], env=world, capture_output=True)
            shutil.rmtree(root, ignore_errors=True)


@pytest.mark.parametrize("mode", ["infer", "train"])
def test_every_call_and_every_daemon_gives_the_same_numbers(runs, mode) -> None:
    assert all(run["compiles"] >= 3 for run in runs), "each daemon compiled by itself"
    assert len({number for run in runs for number in run["numbers"][mode]}) == 1


def test_other_models_give_other_numbers(runs) -> None:
    assert runs[0]["numbers"]["infer"][0] != runs[0]["numbers"]["train"][0]
