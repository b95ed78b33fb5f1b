"""Runs one sweep over the outside collections of models and programs, and asks torch's own backend about what failed.

    sweep.py NAME --shared DIRECTORY --rows DIRECTORY [--limit N] [--retry] [--jobs 2]

NAME is a key of `SWEEPS`. Rows are appended as JSON lines to `ROWS/NAME.I.jsonl`, one file for each process; entries
that have a row are not run again, so a sweep that was interrupted goes on. `--retry` forgets rows that did not pass.
What fails at the end is run with `aot_eager` under the same flags (`ROWS/NAME.stock.jsonl`): what torch itself can't
do is not counted against tpud.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterable

import rows

from tpud import session

HERE = pathlib.Path(__file__).parent
STOCK = "aot_eager"


@dataclasses.dataclass(frozen=True)
class Run:
    """Where a sweep reads and writes, and what it may take."""

    shared: pathlib.Path
    directory: pathlib.Path
    limit: int
    jobs: int


@dataclasses.dataclass(frozen=True)
class Sweep:
    """One sweep. `command` gives the command line that writes rows to a file: for a shard of all entries, or for some
    entries that are named."""

    command: Callable[[Run, str, pathlib.Path, str, list[str]], list[list[str]]]
    backend: str = "strict:strict"
    splits: bool = True


def zoo(mode: str, *, thin: int = 1, dtype: str = "float32", suites: str = "hf,tv,timm,decode", flags: tuple[str, ...] = ()) -> Callable:
    """Every `thin`th model of the public list, of these suites."""

    def command(run: Run, backend: str, out: pathlib.Path, shard: str, entries: list[str]) -> list[list[str]]:
        names = entries
        if not names:
            public = sorted((run.shared / "zoo/public.txt").read_text().split())
            names = [name for name in public if name.split("/")[0] in suites.split(",")][::thin]
        wanted = out.with_suffix(".txt")
        wanted.write_text("\n".join(names) + "\n")
        line = [str(HERE / "judged_zoo.py"), str(run.shared / "zoo"), dtype, "run", "--backend", backend, "--mode", mode, "--suite", suites, "--list", str(wanted)]
        line += ["--once", "--timeout", "240", "--out", str(out), *flags]
        if not entries:
            line += ["--shard", shard, *(["--limit", str(run.limit)] if run.limit else [])]
        return [line]

    return command


def opinfo(mode: str, dtypes: str) -> Callable:
    """Every op of torch's database, with all of its samples."""

    def command(run: Run, backend: str, out: pathlib.Path, shard: str, entries: list[str]) -> list[list[str]]:
        script = [str(HERE / "judged_opinfo.py"), str(run.shared / "zoo")]
        line = [*script, "run", "--backend", backend, "--mode", mode, "--samples", "0", "--out", str(out)]
        if not entries:
            limit = ["--limit", str(run.limit)] if run.limit else []
            return [[*line, "--dtypes", dtypes, "--shard", shard, *limit]]
        by_dtype: dict[str, list[str]] = {}
        for entry in entries:
            name, _, dtype = entry.rpartition("/")
            by_dtype.setdefault(dtype, []).append(name)
        only = {dtype: f"^({'|'.join(map(re.escape, names))})$" for dtype, names in by_dtype.items()}
        return [[*line, "--dtypes", dtype, "--only", pattern] for dtype, pattern in only.items()]

    return command


def cases(*flags: str) -> Callable:
    """All programs from fault reports."""

    def command(run: Run, backend: str, out: pathlib.Path, shard: str, entries: list[str]) -> list[list[str]]:
        if not entries and out.exists():
            return []
        line = [str(run.shared / "cases/run_cases.py"), "--backend", backend, "--out", str(out), "--jobs", str(run.jobs), *flags]
        return [[*line, "--import", "strict", *(["--cases", ",".join(entries)] if entries else [])]]

    return command


# Rounding alone makes right answers differ by this much in bfloat16; see judged_zoo for what happens beyond it.
BF16 = ("--rtol", "0.02", "--atol", "0.02")
OTHER_DTYPES = "int64,bool,bfloat16,complex64"
DYNAMIC = {"auto": (), "true": (), "false": (), "capture": ("--capture-dynamic", "--allow-rnn")}

SWEEPS = {
    "zoo-infer": Sweep(zoo("infer")),
    "zoo-train": Sweep(zoo("train", suites="hf,tv,timm")),
    "zoo-bf16": Sweep(zoo("infer", thin=3, dtype="bfloat16", suites="hf,tv,timm", flags=BF16)),
    "zoo-tpu-infer": Sweep(zoo("infer"), backend="tpu_aot:tpu_aot"),
    "zoo-tpu-train": Sweep(zoo("train", suites="hf,tv,timm"), backend="tpu_aot:tpu_aot"),
    "opinfo-infer": Sweep(opinfo("infer", f"float32,{OTHER_DTYPES}")),
    "opinfo-train": Sweep(opinfo("train", "float32")),
    **{
        f"cases-{name}-{backend}": Sweep(cases("--dynamic", name.replace("capture", "auto"), *flags), backend, splits=False)
        for name, flags in DYNAMIC.items()
        for backend in ("tpu", "tpud_strict")
    },
}


def execute(lines: Iterable[list[str]], log: pathlib.Path) -> subprocess.Popen | None:
    """Starts command lines one after the other, in the background."""
    commands = [[sys.executable, *line] for line in lines]
    if not commands:
        return None
    script = "; ".join(" ".join(map(_quoted, command)) for command in commands)
    paths = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    with log.open("ab") as stream:
        return subprocess.Popen(["bash", "-c", script], stdout=stream, stderr=stream, env={**os.environ, "PYTHONPATH": paths})


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=SWEEPS)
    parser.add_argument("--shared", type=pathlib.Path, required=True)
    parser.add_argument("--rows", type=pathlib.Path, required=True)
    parser.add_argument("--limit", type=int, default=0, help="entries for each process; 0: all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--retry", action="store_true")
    options = parser.parse_args()
    if not options.shared.is_dir():
        parser.error(f"{options.shared} does not exist; say where the collections are with SHARED=")
    sweep, directory = SWEEPS[options.name], options.rows.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    # The tools limit the processor time of their children. A daemon that one of them starts would inherit that.
    daemon = session.connection()
    run = Run(options.shared.resolve(), directory, options.limit, options.jobs)
    count = options.jobs if sweep.splits else 1
    files = [directory / f"{options.name}.{index}.jsonl" for index in range(count)]
    if options.retry and sweep.splits:
        rows.forget_failures(directory, options.name)
    elif options.retry:
        files[0].unlink(missing_ok=True)
    started = [
        execute(sweep.command(run, sweep.backend, out, f"{index}/{count}", []), out.with_suffix(".log"))
        for index, out in enumerate(files)
    ]
    codes = [process.wait() for process in started if process is not None]
    failed = [row["entry"] for row in rows.read(directory, options.name) if not rows.passed(row)]
    stock = directory / f"{options.name}.stock.jsonl"
    failed = sorted(set(failed) - {row["entry"] for row in rows.read_file(stock)})
    if failed:
        process = execute(sweep.command(run, STOCK, stock, "", failed), stock.with_suffix(".log"))
        codes += [process.wait()] if process is not None else []
    daemon.close()
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(main())
