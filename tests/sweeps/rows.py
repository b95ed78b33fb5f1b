"""Rows of sweeps: reading them, and what each of them says.

A row is what one entry (a model, an op with a dtype, a program) gave; the tools that write them are described in
`sweep.py`. Here they all have "entry", "status" and "why".
"""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

Row = dict[str, Any]

# Eager PyTorch itself can't run it, or Dynamo compiles nothing of it: there is nothing to compare.
NOT_RUN = frozenset({"eager_error", "skip", "no_graph", "NOCOMPILE"})
PASS = frozenset({"pass", "ok"})
WRONG = frozenset({"wrong", "FAIL"})

_CAUSE_LENGTH = 220


def read_file(path: pathlib.Path) -> list[Row]:
    """The rows of one file; of several for an entry, the last. A sweep that was killed leaves half a line at the end."""
    if not path.exists():
        return []
    found: dict[str, Row] = {}
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError:
            if number == len(lines):
                break
            raise ValueError(f"{path}:{number} is not JSON") from None
        row.setdefault("entry", row.get("id"))
        found[row["entry"]] = row
    return [found[entry] for entry in sorted(found)]


def read(directory: pathlib.Path, name: str) -> list[Row]:
    """The rows of a sweep, by entry, whatever the number of processes that wrote them."""
    found = {row["entry"]: row for path in files(directory, name) for row in read_file(path)}
    return [found[entry] for entry in sorted(found)]


def read_stock(directory: pathlib.Path, name: str) -> dict[str, Row]:
    """By entry, what torch's own backend made of entries that failed."""
    return {row["entry"]: row for row in read_file(directory / f"{name}.stock.jsonl")}


def files(directory: pathlib.Path, name: str) -> list[pathlib.Path]:
    return sorted(path for path in directory.glob(f"{name}.*.jsonl") if re.fullmatch(r"\d+", path.name.split(".")[-2]))


def forget_failures(directory: pathlib.Path, name: str) -> None:
    """Removes rows that did not pass, so that a sweep runs those entries again."""
    for path in files(directory, name):
        kept = [row for row in read_file(path) if passed(row)]
        path.write_text("".join(json.dumps(row) + "\n" for row in kept))


def fallback_ops(row: Row) -> dict[str, int]:
    return (row.get("backend_stats") or {}).get("fallback_ops") or {}


def passed(row: Row) -> bool:
    """Whether a row is what it should be: the right answer with nothing run in eager PyTorch; for a sweep that only
    compiles, every graph compiled."""
    stats = row.get("backend_stats") or {}
    if "refused" in stats:
        return not stats["refused"] and stats["compiled"] > 0
    return row["status"] in PASS and not fallback_ops(row)


def counted(row: Row, stock: dict[str, Row]) -> bool:
    """Whether a miss is ours: eager PyTorch runs it, and so does torch's own backend."""
    if passed(row):
        return True
    if row["status"] in NOT_RUN or str(row.get("why")).startswith("ill-conditioned"):
        return False
    other = stock.get(row["entry"])
    if kind(row) == "wrong":
        # An error of torch's on another sample excuses no wrong number.
        return other is None or other["status"] not in WRONG
    return other is None or other["status"] in PASS


def kind(row: Row) -> str:
    """In one word, what became of an entry."""
    stats = row.get("backend_stats") or {}
    if passed(row):
        return "pass"
    if "refused" in stats:
        return "refused" if stats["refused"] else "no graph"
    if row["status"] in WRONG:
        return "wrong"
    if "UnsupportedOpError" in str([row.get(where) for where in ("why", "tb", "problems")]):
        return "refused"
    if row["status"] in PASS:
        return "falls back"
    return {"backend_error": "error", "ERROR": "error", "CRASH": "crash", "TIMEOUT": "timeout"}.get(row["status"], row["status"])


def cause(row: Row) -> str:
    """Why it is a miss, on one line that fits a table and names no place of this machine."""
    stats = row.get("backend_stats") or {}
    if stats.get("refused"):
        text = "; ".join(f"{phase}: {message}" for phase, message in stats["refused"][:2])
    elif row.get("problems"):
        text = str(row["problems"][0])
    elif fallback_ops(row):
        text = ", ".join(fallback_ops(row))
    else:
        text = str(row.get("why") or "")
        if text.startswith(("error", "Traceback")) and row.get("tb"):
            text = str(row["tb"]).strip().splitlines()[-1]
    text = re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "", " ".join(text.split()))
    text = re.sub(r"\s*\[sample \d+\]$", "", text)
    return text.replace("|", "\\|")[:_CAUSE_LENGTH].strip()
