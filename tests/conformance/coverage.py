"""What the conformance cases cover, for docs/OPS.md: `python -m tests.conformance.coverage`.

Prints a line for each op overload: its name, the case file, the number of samples, and the dtypes in them.
"""

from __future__ import annotations

import zlib
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.conformance.test_conformance import load


def dtypes(arguments: Any) -> set[str]:
    """The dtypes of tensors among the arguments, and those that are arguments themselves."""
    leaves = pytree.tree_leaves(arguments)
    found = {leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor)}
    found |= {leaf for leaf in leaves if isinstance(leaf, torch.dtype)}
    return {str(dtype).removeprefix("torch.") for dtype in found}


def main() -> None:
    counts: dict[str, tuple[str, int, set[str]]] = {}
    for family, case in load():
        torch.manual_seed(zlib.crc32(case.op.encode()))
        samples = list(case.samples())
        _, count, known = counts.get(case.op, (family, 0, set()))
        found = set().union(*(dtypes((sample.args, sample.kwargs)) for sample in samples))
        counts[case.op] = counts.get(case.op, (family,))[0], count + len(samples), known | found
    for op, (family, count, found) in sorted(counts.items()):
        print(op, family, count, " ".join(sorted(found)), sep="\t")


if __name__ == "__main__":
    main()
