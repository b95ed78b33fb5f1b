"""`options={"checks": True}`: a compiled function raises where eager PyTorch raises on values.

The server checks what its lowerings see (`compiler/lowering/src/checks.rs`); the ops that are taken apart before they
get there are checked by assertions that are added here. An executable with checks returns a flag, which is read after
every call.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor, fx

from tpud import errors
from tpud.locations import Location, locate

aten = torch.ops.aten

# Assertions with this mark stand for a check of eager PyTorch's; what it raises comes next. The server reads it too.
MARK = "tpud check: "


@dataclasses.dataclass(frozen=True)
class Check:
    """Something on which eager PyTorch raises: what `tpud.v1.Check` says, with the user's line."""

    op: str
    message: str
    kind: str
    location: Location


def of_result(result: Any, nodes: Sequence[fx.Node]) -> list[Check]:
    """The checks of a compiled graph; `nodes` are those that were encoded."""
    return [_of_entry(each, nodes[each["node"]]) for each in result.checks]


def _of_entry(entry: Mapping[str, Any], node: fx.Node) -> Check:
    op, message = entry["op"], entry["message"]
    if is_check(node):
        # The assertion names the op that was taken apart.
        op, _, message = message.partition(": ")
    return Check(op, message, entry["kind"], locate(node))


def fail(check: Check) -> NoReturn:
    """Raises what eager PyTorch raises, as one of tpud's exceptions."""
    kinds = {"index": errors.CheckIndexError, "linalg": errors.CheckLinAlgError}
    message = f"{check.op}: {check.message}\n    at {check.location}"
    raise kinds.get(check.kind, errors.CheckFailedError)(message, check.op, check.location)


def is_check(node: fx.Node) -> bool:
    """Whether a node is an assertion that was added here."""
    return node.target is aten._assert_async.msg and str(node.args[1]).startswith(MARK)


def _state(op: Any, holds: Tensor, kind: str, message: str) -> None:
    aten._assert_async.msg(holds.all(), f"{MARK}{kind}: {op}: {message}")


def _between(tensor: Tensor, low: float, high: float) -> Tensor:
    return (tensor >= low) & (tensor <= high)


def _targets(
    op: Any, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> None:
    classes = self.shape[1] if self.dim() > 1 else self.shape[0]
    holds = _between(target, 0, classes - 1) | (target == ignore_index)
    _state(op, holds, "IndexError", f"Target is out of bounds: valid are 0 to {classes - 1} and {ignore_index}.")


def _probabilities(op: Any, self: Tensor, target: Tensor, *_: Any, **__: Any) -> None:
    _state(op, _between(self, 0, 1), "RuntimeError", "all elements of input should be between 0 and 1")
    _state(op, _between(target, 0, 1), "RuntimeError", "all elements of target should be between 0 and 1")


def _bernoulli(op: Any, self: Tensor, *_: Any, **__: Any) -> None:
    _state(op, _between(self, 0, 1), "RuntimeError", "all probabilities should be between 0 and 1")


def _unpooled(op: Any, self: Tensor, indices: Tensor, output_size: Sequence[int], *_: Any, **__: Any) -> None:
    places = 1
    for size in output_size:
        places *= size
    _state(op, _between(indices, 0, places - 1), "RuntimeError", f"Found an invalid max index: valid are 0 to {places - 1}")


def _invertible(op: Any, self: Tensor, upper: bool = False) -> None:
    diagonal = self.diagonal(dim1=-2, dim2=-1)
    _state(op, diagonal != 0, "LinAlgError", "a diagonal element is zero: the input matrix is singular")


# What holds of the arguments of ops that are taken apart; each function states it for one op.
PRECONDITIONS: dict[Any, Callable[..., None]] = {
    aten.nll_loss_forward.default: _targets,
    aten.nll_loss2d_forward.default: _targets,
    aten.binary_cross_entropy.default: _probabilities,
    aten.bernoulli.default: _bernoulli,
    aten.max_unpool2d.default: _unpooled,
    aten.max_unpool3d.default: _unpooled,
    aten.cholesky_inverse.default: _invertible,
}


def checked(table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """A table of decompositions in which those of `PRECONDITIONS` state them first."""

    def wrap(op: Any) -> Callable[..., Any]:
        @functools.wraps(table[op])
        def run(*args: Any, **kwargs: Any) -> Any:
            PRECONDITIONS[op](op, *args, **kwargs)
            return table[op](*args, **kwargs)

        return run

    return {**table, **{op: wrap(op) for op in PRECONDITIONS if op in table}}
