"""A slice of torch's own database of operators: some ops of each family, by a seed, each with one of its dtypes.

`make opinfo` runs the whole of it; docs/OPINFO.md has what comes of that.
"""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
import torch
from comparing import STRICT, outputs

import tpud

pytestmark = pytest.mark.usefixtures("connection")

SEED = 3
DTYPES = (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64)
# Ops that tpud does not lower yet. They may be refused; a wrong answer is never right.
REFUSED = frozenset(
    {
        "linalg.cond", "linalg.eig", "linalg.eigvals", "linalg.ldl_factor_ex", "nn.functional.linear_cross_entropy.chunked",
        "nonzero_static", "norm.nuc", "ormqr", "var",
    }
)  # fmt: skip
# (relative, absolute); other dtypes are exact.
TOLERANCE = {torch.float32: (1e-3, 1e-4), torch.bfloat16: (3e-2, 2e-2), torch.complex64: (1e-3, 1e-4)}
# Per family: how many ops of it, and which those are; an op belongs to the first that takes it.
FAMILIES = {
    "linalg": (8, r"linalg\.|.*(matmul|addmm|addmv|bmm|einsum|cholesky|svd|qr$|lu(_|$)|triangular)"),
    "fft": (6, r"fft\."),
    "special": (8, r"special\."),
    "nn": (16, r"nn\.functional\."),
    "masked": (6, r"masked\."),
    "indexing": (10, r".*(index|gather|scatter|take|select|sort|topk|where|slice|diag|tri[lu])"),
    "shapes": (10, r".*(view|reshape|stack|split|cat|expand|repeat|roll|flip|permute|squeeze|pad|chunk|fold|tile)"),
    "reductions": (10, r"(?!f).*(sum|prod|mean|std|var|max|min|any|all|norm|median|count|argm|cum)"),
    "pointwise": (16, r".*"),
}
# No single right answer: random numbers, uninitialised memory, the order of equals; or not a dense tensor.
UNDETERMINED = re.compile(
    r".*(dropout|bernoulli|multinomial|normal|rand|uniform|exponential|cauchy|geometric|rrelu|empty|poisson|lowrank|sort|topk|sparse|kthvalue)"
)


def rows(family: str) -> list[tuple[Any, torch.dtype]]:
    """The ops of a family that this slice has, each with a dtype."""
    from torch.testing._internal.common_methods_invocations import op_db

    chosen = random.Random(f"{SEED} {family}")
    count, _ = FAMILIES[family]
    earlier = [re.compile(pattern) for name, (_, pattern) in FAMILIES.items()]
    earlier = earlier[: list(FAMILIES).index(family) + 1]
    members = [
        op
        for op in op_db
        if not UNDETERMINED.match(op.name)
        and next((index for index, pattern in enumerate(earlier) if pattern.match(op.name)), None) == len(earlier) - 1
    ]
    ops = chosen.sample(members, count)
    return [(op, chosen.choice([dtype for dtype in DTYPES if dtype in op.dtypes] or [torch.float32])) for op in ops]


def sample(op: Any, dtype: torch.dtype) -> Any:
    """The middle one of an op's samples: the first ones are often empty or of one element."""
    torch.manual_seed(0)
    samples = list(op.sample_inputs("cpu", dtype))
    return samples[len(samples) // 2]


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def problem(op: Any, dtype: torch.dtype) -> str:
    """Why tpud's answer is not that of eager PyTorch, or nothing."""
    given = sample(op, dtype)
    torch._dynamo.reset()

    def call(*args: Any, **kwargs: Any) -> Any:
        return op.op(*args, **kwargs)

    compiled = torch.compile(call, backend="tpu", options=STRICT, dynamic=False)
    with torch.no_grad():
        expected = outputs(op.op(given.input, *given.args, **given.kwargs))
        try:
            got = outputs(compiled(given.input, *given.args, **given.kwargs))
        except tpud.UnsupportedOpError as error:
            return "" if name_of(op) in REFUSED else str(error).splitlines()[0]
    relative, absolute = TOLERANCE.get(dtype, (0, 0))
    try:
        assert got.keys() == expected.keys()
        for name, right in expected.items():
            exact = not (right.is_floating_point() or right.is_complex())
            # A float of an integer sample, as the mean of a mask.
            limits = (0, 0) if exact else (relative or 1e-3, absolute or 1e-4)
            torch.testing.assert_close(got[name], right, rtol=limits[0], atol=limits[1], equal_nan=True, check_stride=False)
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""


@pytest.mark.parametrize("family", FAMILIES)
def test_ops_agree_with_eager(family: str) -> None:
    problems = {f"{name_of(op)}/{dtype}": problem(op, dtype) for op, dtype in rows(family)}
    assert {name: text for name, text in problems.items() if text} == {}
