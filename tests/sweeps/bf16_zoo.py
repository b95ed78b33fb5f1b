"""Runs the model zoo in bfloat16: `bf16_zoo.py ZOO_DIRECTORY run …`, with the arguments of its zoo.py.

Models and floating inputs are cast after they are built, and the reference is eager PyTorch in bfloat16. Rounding
alone makes two right answers differ in this type, so where they do, a third one decides: the eager model in float32.
An answer is right if it is no farther from that than twice what eager's own bfloat16 answer is, plus one rounding of
the largest value.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

ROUNDING = 2.0**-8


def farther(ours: Any, eagers: Any, exact: Any) -> str:
    """Why our answer is wrong, or nothing. All three are lists of tensors."""
    for index, (mine, theirs, right) in enumerate(zip(ours, eagers, exact, strict=True)):
        if not right.is_floating_point() or not right.numel():
            continue
        mine, theirs, right = mine.double(), theirs.double(), right.double()
        finite = mine.isfinite() & theirs.isfinite() & right.isfinite()
        scale = right[finite].abs().max().item() if finite.any() else 0.0
        error = (mine - right)[finite].abs().max().item() if finite.any() else 0.0
        allowed = 2 * ((theirs - right)[finite].abs().max().item() if finite.any() else 0.0) + ROUNDING * scale
        if not mine.isfinite().equal(theirs.isfinite()) or error > allowed:
            return f"output {index}: {error:.3g} from float32, where {allowed:.3g} is allowed at scale {scale:.3g}"
    return ""


def cast(value: Any, torch: Any) -> Any:
    """Floating tensors anywhere in `value` as bfloat16."""
    from torch.utils import _pytree as pytree

    def each(leaf: Any) -> Any:
        return leaf.to(torch.bfloat16) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    return pytree.tree_map(each, value)


def install(zoo: Any) -> None:
    """Has the zoo build its models in bfloat16 and judge their answers as this module says."""
    build, compare = zoo.build_case, zoo.compare
    exact: dict[str, Any] = {}

    def build_case(entry: str, torch: Any, train: bool = False) -> Any:
        case = build(entry, torch, train)
        single, make = copy.deepcopy(case.model), case.make
        with torch.no_grad():
            torch.manual_seed(5)
            exact["answer"] = [value.detach().clone() for value in zoo.flat_tensors(case.call(single, make()), torch)]
        case.model = case.model.to(torch.bfloat16)
        case.make = lambda *args, **kwargs: cast(make(*args, **kwargs), torch)
        return case

    def judge(reference: Any, answer: Any, torch: Any, rtol: float, atol: float) -> dict:
        verdict = compare(reference, answer, torch, rtol, atol)
        eagers = [value for _, value in reference]
        if verdict["ok"] or len(eagers) != len(answer) or len(exact["answer"]) != len(answer):
            return verdict
        if any(mine.shape != theirs.shape or mine.dtype != theirs.dtype for mine, theirs in zip(answer, eagers, strict=True)):
            return verdict
        if any(not theirs.is_floating_point() and not mine.equal(theirs) for mine, theirs in zip(answer, eagers, strict=True)):
            return verdict
        why = farther(answer, eagers, exact["answer"])
        return {**verdict, "ok": not why, "why": why or None}

    zoo.build_case, zoo.compare = build_case, judge


def main() -> None:
    directory = sys.argv.pop(1)
    sys.path.insert(0, directory)
    import zoo

    install(zoo)
    zoo.main()


if __name__ == "__main__":
    main()
