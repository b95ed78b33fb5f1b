"""Runs the model zoo with a second opinion: `judged_zoo.py ZOO_DIRECTORY DTYPE run …`, with the arguments of its zoo.py.

DTYPE is float32, or bfloat16, to which models and floating inputs are cast after they are built. Rounding alone can
make two right answers differ by more than the tolerance, in bfloat16 and in models whose gradients are
ill-conditioned. Where they do, eager PyTorch in a wider type decides: an answer is right if it is no farther from
that than four times what eager's own answer is, plus some roundings of the largest value that is compared with it (of
1 for a loss, which is what remains of much larger numbers). The row then says so in "judged". Where that fails, too,
but eager's own answer is outside of the tolerance, the cause begins with "ill-conditioned": nobody can be held to it.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

# By dtype, the wider one, and the rounding that is always allowed, relative to the largest value.
WIDER = {"float32": ("float64", 2.0**-20), "bfloat16": ("float32", 2.0**-8)}
TIMES = 4
ILL_CONDITIONED = "ill-conditioned"


def farther(ours: Any, eagers: Any, exact: Any, rounding: float) -> str:
    """Why a tensor is wrong, or nothing. All three are tensors of the same shape; `rounding` is absolute."""
    if not exact.is_floating_point():
        return "" if ours.equal(eagers) else "integers differ"
    ours, eagers, exact = ours.double(), eagers.double(), exact.double()
    finite = exact.isfinite() & eagers.isfinite()
    if not ours.isfinite().equal(eagers.isfinite()):
        return "finite where eager is not, or the other way round"
    if not finite.any():
        return ""
    error, allowed, scale = (value[finite].abs().max().item() for value in (ours - exact, eagers - exact, exact))
    allowed = TIMES * allowed + rounding
    return f"{error:.3g} from the wider answer, where {allowed:.3g} is allowed at scale {scale:.3g}" if error > allowed else ""


def largest(value: Any) -> float:
    """The largest finite magnitude of a floating tensor, else 0."""
    if not value.is_floating_point():
        return 0.0
    finite = value[value.isfinite()]
    return finite.abs().max().item() if finite.numel() else 0.0


class Judge:
    """Patches one zoo module: how it builds a model, and how it compares."""

    def __init__(self, zoo: Any, dtype: str) -> None:
        self.zoo, self.dtype = zoo, dtype
        self.wider, self.rounding = WIDER[dtype]
        self.build, self.compare, self.run = zoo.build_case, zoo.compare, zoo.run_entry
        self.case: Any = None
        self.train = False
        self.judged: list[str] = []
        self.exact: dict[str, Any] | None = None
        zoo.build_case, zoo.compare, zoo.run_entry = self.build_case, self.judge, self.run_entry

    def run_entry(self, entry: str, options: Any) -> dict:
        row = self.run(entry, options)
        return {**row, "judged": self.judged} if self.judged else row

    def build_case(self, entry: str, torch: Any, train: bool = False) -> Any:
        case = self.build(entry, torch, train)
        self.case, self.train = copy.copy(case), train
        self.case.model = copy.deepcopy(case.model)
        if self.dtype != "float32":
            make = case.make
            case.model = case.model.to(getattr(torch, self.dtype))
            case.make = lambda *args, **kwargs: cast(make(*args, **kwargs), torch, self.dtype)
        return case

    def judge(self, reference: Any, answer: Any, torch: Any, rtol: float, atol: float) -> dict:
        verdict = self.compare(reference, answer, torch, rtol, atol)
        if verdict["ok"] or len(reference) != len(answer) or self.case is None:
            return verdict
        pairs = [(name, mine, theirs) for (name, theirs), mine in zip(reference, answer, strict=True)]
        if any(mine.shape != theirs.shape or mine.dtype != theirs.dtype for _, mine, theirs in pairs):
            return verdict
        try:
            exact = self.wide_answer(torch)
        except Exception as error:  # noqa: BLE001 (the model does not run in the wider type: no second opinion)
            return {**verdict, "why": f"{verdict['why']} (in {self.wider}: {type(error).__name__})"}
        conditions = ""
        values = [1.0] if [name for name, *_ in pairs] == ["loss"] else [largest(theirs) for _, _, theirs in pairs]
        for name, mine, theirs in pairs:
            if name not in exact or exact[name].shape != theirs.shape:
                return {**verdict, "why": f"{verdict['why']} (no {name} in {self.wider})"}
            why = farther(mine, theirs, exact[name], self.rounding * max(values))
            eagers = self.compare([(name, exact[name].to(theirs.dtype))], [theirs], torch, rtol, atol)
            if why and eagers["ok"]:
                return {**verdict, "why": f"{name}: {why}"}
            if why and not conditions:
                conditions = f"{ILL_CONDITIONED} (eager itself in {self.dtype} and {self.wider}: {eagers['why']}): {why}"
        if conditions:
            return {**verdict, "why": conditions}
        self.judged += [name for name in verdict.get("bad") or [] if name not in self.judged]
        return {**verdict, "ok": True, "why": None, "bad": []}

    def wide_answer(self, torch: Any) -> dict[str, Any]:
        """By name, what eager PyTorch gives in the wider type: outputs, or loss, gradients and buffers."""
        if self.exact is None:
            case = self.case
            model = case.model.to(getattr(torch, self.wider))
            inputs = cast(case.make(), torch, self.wider)
            with torch.set_grad_enabled(self.train):
                torch.manual_seed(5)
                self.exact = self.step(case, model, inputs, torch) if self.train else dict(self.zoo.named_flat(case.call(model, inputs), torch))
        return self.exact

    def step(self, case: Any, model: Any, inputs: Any, torch: Any) -> dict[str, Any]:
        """One step as the zoo makes it."""
        model.train()
        self.zoo.zero_dropout(model, torch)
        for parameter in model.parameters():
            parameter.requires_grad_(parameter.is_floating_point())
        out = case.call(model, inputs)
        tensors = type(out) is dict and "loss" not in out and all(isinstance(value, torch.Tensor) for value in out.values())
        loss = sum(value.float().mean() for value in out.values()) if tensors else self.zoo.sum_loss(out, torch)
        loss.backward()
        grads = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
        return {"loss": loss.detach(), **grads, **dict(model.named_buffers())}


def cast(value: Any, torch: Any, dtype: str) -> Any:
    """Floating tensors anywhere in `value`, cast."""
    from torch.utils import _pytree as pytree

    def each(leaf: Any) -> Any:
        return leaf.to(getattr(torch, dtype)) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    return pytree.tree_map(each, value)


def main() -> None:
    directory, dtype = sys.argv.pop(1), sys.argv.pop(1)
    sys.path.insert(0, directory)
    import zoo

    Judge(zoo, dtype)
    zoo.main()


if __name__ == "__main__":
    main()
