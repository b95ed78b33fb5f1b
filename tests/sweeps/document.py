"""Documents that are made of sections, each of which another sweep writes."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence


def write(path: pathlib.Path, title: str, preface: str, order: Sequence[str], sections: dict[str, Iterable[str]]) -> None:
    """Writes a document with these sections; sections that it already has and that are not given stay as they are."""
    kept = _sections(path.read_text()) if path.exists() else {}
    new = {heading: list(lines) for heading, lines in sections.items()}
    blocks = [["# " + title], [preface]]
    for heading in order:
        body = new.get(heading, kept.get(heading))
        if body is not None:
            blocks.append(["## " + heading, "", *body])
    path.write_text("\n\n".join("\n".join(block) for block in blocks) + "\n")


def _sections(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    heading = None
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line[3:]
            found[heading] = []
        elif heading is not None:
            found[heading].append(line)
    return {heading: _stripped(lines) for heading, lines in found.items()}


def _stripped(lines: list[str]) -> list[str]:
    return "\n".join(lines).strip("\n").split("\n")


def table(header: Sequence[str], body: Iterable[Sequence[object]]) -> list[str]:
    """A table, or nothing when it has no rows."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in body]
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *lines] if lines else []


def share(part: int, whole: int) -> str:
    """A percentage that says 100 only where nothing is missing."""
    if not whole:
        return "–"
    return "100 %" if part == whole else f"{min(100 * part / whole, 99.9):.1f} %"
