"""Runs torch's OpInfo database with a second opinion: `judged_opinfo.py ZOO_DIRECTORY run …`, with the arguments of its
opinfo.py.

Two right answers can differ: sums in another order, and the order of equal values in a sort that is not stable. So
ops that sort are run with their indices replaced by what stands there, and where a floating answer is outside of the
tolerance, eager PyTorch in a wider type decides, as in `judged_zoo`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from judged_zoo import farther, largest

# By dtype, the wider one, and what is allowed beyond eager's own error, relative to the largest value.
WIDER = {
    torch.float32: (torch.float64, 2.0**-20),
    torch.bfloat16: (torch.float32, 2.0**-8),
    torch.complex64: (torch.complex128, 2.0**-20),
}
# Where the order of equals is free: how (values, indices) is had from a result.
SORTING = {
    "sort": lambda out: out,
    "topk": lambda out: out,
    "kthvalue": lambda out: out,
    "argsort": lambda out: (None, out),
}


def by_value(name: str, op: Callable[..., Any]) -> Callable[..., Any]:
    """The op with each index that it returns replaced by the value there, and by whether no index comes twice."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        values, indices = SORTING[name](op(x, *args, **kwargs))
        # The number k comes first in some.
        place = 1 if name in ("topk", "kthvalue") else 0
        dim = args[place] if len(args) > place else kwargs.get("dim", -1)
        if x.dim() == 0 or kwargs.get("stable"):
            return values, indices
        if name == "kthvalue":
            whole = indices if indices.dim() == x.dim() else indices.unsqueeze(dim)
            return values, torch.gather(x, dim, whole)
        distinct = (indices.sort(dim)[0].diff(dim=dim) > 0).all()
        return values, torch.gather(x, dim, indices), distinct

    return call


class Judge:
    """Patches the ops of the database, and how their results are compared."""

    def __init__(self, zoo: Any, database: list[Any]) -> None:
        self.compare = zoo.compare
        self.flat = zoo.named_flat
        self.last: tuple[Any, ...] | None = None
        for info in database:
            op = by_value(info.name, info.op) if info.name in SORTING else info.op
            info.op = self.remembering(op)
        zoo.compare = self.judge

    def remembering(self, op: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():
                self.last = op, args, kwargs
            return op(*args, **kwargs)

        return call

    def judge(self, reference: Any, answer: Any, torch_: Any, rtol: float, atol: float) -> dict:
        verdict = self.compare(reference, answer, torch_, rtol, atol)
        pairs = [(theirs, mine) for (_, theirs), mine in zip(reference, answer, strict=False)]
        if verdict["ok"] or len(reference) != len(answer) or self.last is None:
            return verdict
        if any(mine.shape != theirs.shape or mine.dtype != theirs.dtype for theirs, mine in pairs):
            return verdict
        try:
            exact = self.wide_answer()
        except Exception:  # noqa: BLE001 (the op does not take the wider type: no second opinion)
            return verdict
        if [value.shape for value in exact] != [theirs.shape for theirs, _ in pairs]:
            return verdict
        for (theirs, mine), right in zip(pairs, exact, strict=True):
            _, rounding = WIDER.get(theirs.dtype, (None, 0.0))
            parts = [torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in (mine, theirs, right)]
            why = farther(*parts, rounding * largest(parts[1]))
            if why:
                return {**verdict, "why": why}
        return {**verdict, "ok": True, "why": None}

    def wide_answer(self) -> list[Any]:
        """What the last op gives in the wider type, without gradients."""
        from torch.utils import _pytree as pytree

        op, args, kwargs = self.last
        wide = lambda x: x.to(WIDER[x.dtype][0]) if isinstance(x, torch.Tensor) and x.dtype in WIDER else x  # noqa: E731
        with torch.no_grad():
            args, kwargs = pytree.tree_map(wide, (args, kwargs))
            return [value for _, value in self.flat(op(*args, **kwargs), torch)]


def main() -> None:
    directory = sys.argv.pop(1)
    sys.path.insert(0, directory)
    import opinfo
    import zoo
    from torch.testing._internal.common_methods_invocations import op_db

    Judge(zoo, op_db)
    opinfo.main()


if __name__ == "__main__":
    main()
