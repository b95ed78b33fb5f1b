"""`options={"checks": True}`: where eager PyTorch raises on values, so does the compiled function, with the user's line."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tpud
from tpud import stats

pytestmark = pytest.mark.usefixtures("connection")

aten = torch.ops.aten
MATRIX = torch.arange(12.0).reshape(3, 4)
LINE = "    at "


def at(*values: int) -> torch.Tensor:
    return torch.tensor(values)


@dataclasses.dataclass
class Case:
    """A function, arguments on which eager raises, and arguments on which it doesn't."""

    fn: Callable[..., Any]
    bad: list[tuple[Any, ...]]
    good: list[tuple[Any, ...]]
    says: str
    kind: type[Exception] = RuntimeError


ROW = torch.ones(3, 1)
CASES = {
    "index": Case(lambda x, i: x[:, i], [(MATRIX, at(4)), (MATRIX, at(-5))], [(MATRIX, at(-4, 3))], "dimension 1 of size 4", IndexError),
    "two indices": Case(
        lambda x, i, j: x[i, j], [(MATRIX, at(0), at(4)), (MATRIX, at(3), at(0))], [(MATRIX, at(-1), at(3))], "out of range", IndexError
    ),
    "a wide index": Case(lambda x, i: x[i], [(MATRIX, at(2**32))], [(MATRIX, at(2))], "dimension 0 of size 3", IndexError),
    "a narrow index": Case(
        lambda x, i: x[i], [(MATRIX, at(3).int()), (MATRIX, at(-4).int())], [(MATRIX, at(-3).int())], "dimension 0 of size 3", IndexError
    ),
    "_unsafe_index": Case(lambda x, i: aten._unsafe_index(x, [i]), [(MATRIX, at(7))], [(MATRIX, at(-1))], "size 3", IndexError),
    "index_put": Case(
        lambda x, i: x.index_put((i,), torch.ones(4)), [(MATRIX, at(7)), (MATRIX, at(-4))], [(MATRIX, at(-3))], "size 3", IndexError
    ),
    "index_put accumulating": Case(
        lambda x, i: x.index_put((i,), torch.ones(4), accumulate=True), [(MATRIX, at(7))], [(MATRIX, at(1, 1))], "size 3", IndexError
    ),
    "index_put with a mask": Case(
        lambda x, v: x.index_put((x > 1,), v), [(MATRIX, torch.ones(2))], [(MATRIX, torch.arange(10.0)), (MATRIX, torch.ones(1))], "true elements"
    ),
    "gather": Case(lambda x, i: x.gather(1, i[None]), [(MATRIX, at(4)), (MATRIX, at(-1))], [(MATRIX, at(3, 0))], "dimension 1 of size 4"),
    "scatter": Case(lambda x, i: x.scatter(1, i[None], 1.0), [(MATRIX, at(4)), (MATRIX, at(-1))], [(MATRIX, at(3))], "dimension 1 of size 4"),
    "scatter from a tensor": Case(lambda x, i: x.scatter(0, i[None], x), [(MATRIX, at(3))], [(MATRIX, at(2))], "dimension 0 of size 3"),
    "scatter_add": Case(lambda x, i: x.scatter_add(1, i[None], x), [(MATRIX, at(4))], [(MATRIX, at(3))], "dimension 1"),
    "scatter_reduce": Case(lambda x, i: x.scatter_reduce(1, i[None], x, "amax"), [(MATRIX, at(-1))], [(MATRIX, at(3))], "dimension 1"),
    "index_select": Case(lambda x, i: x.index_select(0, i), [(MATRIX, at(3)), (MATRIX, at(-1))], [(MATRIX, at(2))], "size 3", IndexError),
    "index_select of empty lines": Case(
        lambda x, i: x.index_select(0, i), [(torch.ones(3, 0), at(3))], [(torch.ones(3, 0), at(2))], "size 3"
    ),
    "index_add": Case(lambda x, i: x.index_add(1, i, ROW), [(MATRIX, at(4)), (MATRIX, at(-1))], [(MATRIX, at(3))], "size 4"),
    "index_copy": Case(lambda x, i: x.index_copy(1, i, ROW), [(MATRIX, at(4)), (MATRIX, at(-1))], [(MATRIX, at(3))], "size 4", IndexError),
    "index_fill": Case(lambda x, i: x.index_fill(1, i, 9.0), [(MATRIX, at(4)), (MATRIX, at(-5))], [(MATRIX, at(-4))], "size 4", IndexError),
    "index_reduce": Case(
        lambda x, i: x.index_reduce(1, i, ROW, "prod"), [(MATRIX, at(4)), (MATRIX, at(-1))], [(MATRIX, at(3))], "size 4", IndexError
    ),
    "take": Case(lambda x, i: x.take(i), [(MATRIX, at(12)), (MATRIX, at(-13))], [(MATRIX, at(-12, 11))], "size 12", IndexError),
    "put": Case(lambda x, i: x.put(i, torch.ones(1)), [(MATRIX, at(12))], [(MATRIX, at(-12))], "size 12", IndexError),
    "masked_scatter": Case(
        lambda x, v: x.masked_scatter(x > 1, v), [(MATRIX, torch.ones(2)), (MATRIX, torch.ones(0))], [(MATRIX, torch.ones(10))], "fewer than"
    ),
    "embedding": Case(lambda w, i: F.embedding(i, w), [(MATRIX, at(3)), (MATRIX, at(-1))], [(MATRIX, at(2))], "size 3", IndexError),
    "embedding_bag": Case(
        lambda w, i: F.embedding_bag(i, w, at(0)), [(MATRIX, at(3)), (MATRIX, at(-1))], [(MATRIX, at(2, 0))], "size 3"
    ),
    "bags": Case(
        lambda w, o: F.embedding_bag(at(1, 2), w, o), [(MATRIX, at(1)), (MATRIX, at(0, 5))], [(MATRIX, at(0, 2))], "offset"
    ),
    "a bag before the start": Case(
        lambda w, o: F.embedding_bag(at(1, 2), w, o), [(MATRIX, at(0, -1))], [(MATRIX, at(0, 1))], "offset", IndexError
    ),
    "nll_loss": Case(
        F.nll_loss, [(MATRIX, at(4, 0, 0)), (MATRIX, at(0, -1, 0))], [(MATRIX, at(3, -100, 0))], "Target is out of bounds", IndexError
    ),
    "nll_loss of one": Case(F.nll_loss, [(torch.ones(4), torch.tensor(4))], [(torch.ones(4), torch.tensor(3))], "Target is out", IndexError),
    "nll_loss2d": Case(
        F.nll_loss, [(torch.ones(1, 3, 1, 2), at(0, 3).view(1, 1, 2))], [(torch.ones(1, 3, 1, 2), at(0, 2).view(1, 1, 2))],
        "aten.nll_loss2d_forward.default: Target is out of bounds", IndexError,
    ),
    "cross_entropy": Case(
        lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), [(MATRIX, at(0, 0, 4))], [(MATRIX, at(3, -100, 0))], "Target is out", IndexError
    ),
    "multi_margin_loss": Case(F.multi_margin_loss, [(MATRIX, at(0, 4, 0))], [(MATRIX, at(0, 3, 0))], "out of range"),
    "div trunc": Case(lambda x, y: torch.div(x, y, rounding_mode="trunc"), [(at(1), at(0))], [(at(1), at(1))], "ZeroDivisionError"),
    "div floor": Case(lambda x, y: torch.div(x, y, rounding_mode="floor"), [(at(1, 1), at(1, 0))], [(at(0), at(1))], "ZeroDivisionError"),
    "floor_divide": Case(lambda x, y: x // y, [(at(1).int(), at(0).int())], [(at(0), at(-1)), (torch.ones(1), torch.ones(1))], "ZeroDivisionError"),
    "remainder": Case(lambda x, y: x % y, [(at(1), at(0))], [(at(0), at(1)), (torch.ones(1), torch.ones(1))], "ZeroDivisionError"),
    "remainder of a number": Case(lambda y: aten.remainder(7, y), [(at(0),)], [(at(2),)], "ZeroDivisionError"),
    "remainder by zero": Case(lambda x: x % 0, [(at(1),)], [(at(),)], "ZeroDivisionError"),
    "fmod": Case(torch.fmod, [(at(1), at(0))], [(at(0), at(1))], "ZeroDivisionError"),
    "repeat_interleave": Case(
        lambda x, r: torch.repeat_interleave(x, r, 0, output_size=4), [(MATRIX, at(1, 1, 1)), (MATRIX, at(4, -1, 1))], [(MATRIX, at(1, 3, 0))], "repeat"
    ),
    "histc": Case(
        lambda x: torch.histc(x, 4), [(torch.tensor([1.0, float("nan")]),), (torch.tensor([1.0, float("inf")]),)], [(MATRIX,)], "not finite"
    ),
    "searchsorted": Case(
        lambda s: torch.searchsorted(torch.arange(3.0), torch.ones(1), sorter=s), [(at(3, 0, 1),), (at(-1, 0, 1),)], [(at(0, 1, 2),)], "out of range"
    ),
    "binary_cross_entropy": Case(
        F.binary_cross_entropy, [(torch.tensor([2.0]), torch.ones(1)), (torch.ones(1), torch.tensor([float("nan")]))],
        [(torch.tensor([0.5]), torch.ones(1))], "between 0 and 1",
    ),
    "max_unpool2d": Case(
        lambda i: F.max_unpool2d(torch.ones(1, 2, 1, 1), i, 2), [(at(0, 4).view(1, 2, 1, 1),)], [(at(0, 3).view(1, 2, 1, 1),)], "invalid max index"
    ),
    "cholesky": Case(torch.linalg.cholesky, [(-torch.eye(2),)], [(torch.eye(2),)], "not positive-definite", torch.linalg.LinAlgError),
    "inv": Case(torch.linalg.inv, [(torch.zeros(2, 2),)], [(torch.eye(2) * 2,)], "singular", torch.linalg.LinAlgError),
    "solve": Case(torch.linalg.solve, [(torch.zeros(2, 2), torch.ones(2))], [(torch.eye(2), torch.ones(2))], "singular", torch.linalg.LinAlgError),
    "lu_factor": Case(lambda x: torch.linalg.lu_factor(x).LU, [(torch.zeros(2, 2),)], [(torch.eye(2),)], "singular"),
    "svdvals": Case(
        torch.linalg.svdvals, [(torch.full((2, 2), float("nan")),)], [(torch.eye(2),)], "non-finite", torch.linalg.LinAlgError
    ),
    "cholesky_inverse": Case(torch.cholesky_inverse, [(torch.zeros(2, 2),)], [(torch.eye(2),)], "singular", torch.linalg.LinAlgError),
    "cholesky_ex": Case(
        lambda x: torch.linalg.cholesky_ex(x, check_errors=True).L, [(-torch.eye(2),)], [(torch.eye(2),)], "not positive", torch.linalg.LinAlgError
    ),
}  # fmt: skip


def compiled(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    options = {"fallback": "error", "checks": True, **options}
    return torch.compile(fn, backend="tpu", dynamic=False, options=options)


@pytest.mark.parametrize("name", CASES)
def test_raises_where_eager_raises(name: str) -> None:
    case = CASES[name]
    for args in case.bad:
        with pytest.raises(case.kind):
            case.fn(*args)
        fn = compiled(case.fn)
        # Twice: an error must leave nothing behind.
        for _ in range(2):
            with pytest.raises(tpud.CheckFailedError, match=case.says) as caught:
                fn(*args)
            assert isinstance(caught.value, case.kind), f"{type(caught.value)} is not {case.kind}"
    for args in case.good:
        torch.testing.assert_close(compiled(case.fn)(*args), case.fn(*args))


@pytest.mark.parametrize("name", CASES)
def test_without_the_option_nothing_raises(name: str) -> None:
    case = CASES[name]
    if name == "cholesky_ex":
        pytest.skip("the op itself asks for the error")
    for args in case.bad:
        fn = compiled(case.fn, checks=False)
        result = fn(*args)
        assert result.shape == fn(*args).shape


def test_what_happens_without_the_option() -> None:
    """The behaviour that docs/CHECKS.md promises."""

    def without(fn: Callable[..., Any], *args: Any) -> Any:
        return compiled(fn, checks=False)(*args)

    assert without(lambda x, i: x[i], MATRIX, at(7)).tolist() == [MATRIX[2].tolist()]  # the nearest element
    assert without(lambda x, i: x[i], MATRIX, at(-7)).tolist() == [MATRIX[0].tolist()]
    assert torch.equal(without(lambda x, i: x.index_put((i,), torch.ones(4)), MATRIX, at(7)), MATRIX)  # dropped
    assert torch.equal(without(lambda x, i: x.scatter(0, i[None], 1.0), MATRIX, at(7)), MATRIX)
    assert without(lambda x, y: x // y, at(5), at(0)).tolist() == [-1]
    assert without(lambda x, y: torch.fmod(x, y), at(5), at(0)).tolist() == [5]
    assert without(torch.linalg.cholesky, -torch.eye(2)).isnan().any()


def line_of(error: BaseException) -> str:
    return str(error).split(LINE)[1]


def test_the_error_names_op_and_line() -> None:
    def fn(x, i):
        y = x * 2
        return y.gather(0, i) + 1

    with pytest.raises(tpud.CheckFailedError) as caught:
        compiled(fn)(torch.ones(3), at(3))
    error = caught.value
    assert error.op == "aten.gather.default"
    assert error.reason == "CHECK_FAILED"
    assert error.location.file == __file__
    assert "y.gather(0, i) + 1" in line_of(error)
    assert error.location.line == fn.__code__.co_firstlineno + 2


def test_the_first_violation_in_the_graph_s_order_wins() -> None:
    def fn(x, i, j, k):
        return x[i] + x.gather(0, j) + x[k]

    call = compiled(fn)
    x = torch.ones(3)
    for bad, op in [((at(0), at(0), at(0)), None), ((at(0), at(9), at(9)), "gather"), ((at(9), at(9), at(0)), "index"), ((at(0), at(0), at(9)), "index")]:
        if op is None:
            torch.testing.assert_close(call(x, *bad), fn(x, *bad))
            continue
        with pytest.raises(tpud.CheckFailedError) as caught:
            call(x, *bad)
        assert f".{op}." in caught.value.op


def test_a_shifted_line_is_the_shifted_line_of_the_cached_executable() -> None:
    def first(x, i):
        return x[i] * 3

    # The same graph elsewhere: its key is the same, its line is not.
    def second(x, i):
        return x[i] * 3

    lines = []
    for fn in (first, second):
        with pytest.raises(tpud.CheckIndexError) as caught:
            compiled(fn)(torch.ones(5), at(5))
        lines.append(caught.value.location.line - fn.__code__.co_firstlineno)
    assert lines == [1, 1]


def test_training_raises_in_the_forward_and_the_backward() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Flatten(), torch.nn.Linear(8, 5))
    call = compiled(lambda i, t: F.cross_entropy(model(i), t))
    good = (torch.tensor([[1, 2], [3, 9]]), at(0, 4))
    call(*good).backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    F.cross_entropy(model(good[0]), good[1]).backward()
    for ours, parameter in zip(gradients, model.parameters(), strict=True):
        torch.testing.assert_close(ours, parameter.grad)
    with pytest.raises(IndexError, match="aten.embedding.default"):
        call(torch.tensor([[1, 2], [3, 10]]), at(0, 4))
    with pytest.raises(IndexError, match="Target is out of bounds"):
        call(good[0], at(0, 5))

    class Odd(torch.autograd.Function):
        """Its backward gathers where its forward does not."""

        @staticmethod
        def forward(ctx, x, i):
            ctx.save_for_backward(i)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            (i,) = ctx.saved_tensors
            return gradient.gather(0, i), None

    call = compiled(lambda x, i: Odd.apply(x, i))
    x = torch.ones(3, requires_grad=True)
    call(x, at(2, 1, 0)).sum().backward()
    result = call(x, at(2, 1, 3))
    with pytest.raises(tpud.CheckFailedError, match="aten.gather.default"):
        result.sum().backward()


def test_several_pieces_and_fallback() -> None:
    def fn(x, i, j):
        y = x[i] + 1
        y = torch.linalg.eigvals(y[None] * y[:, None]).real[None]  # has no lowering
        return y.gather(0, j)

    call = compiled(fn, fallback="eager")
    x = torch.rand(4)
    good = (at(0, 1, 2), torch.zeros(1, 3, dtype=torch.long))
    with pytest.warns(tpud.FallbackWarning):
        torch.testing.assert_close(call(x, *good), fn(x, *good))
    with pytest.raises(IndexError, match="aten.index.Tensor"):
        call(x, at(0, 1, 4), good[1])
    with pytest.raises(RuntimeError, match="aten.gather.default"):
        call(x, good[0], good[1] + 3)


def test_an_op_in_eager_pytorch_raises_by_itself() -> None:
    call = compiled(lambda x: torch.linalg.eigvals(x) + 1, fallback="eager")
    with pytest.warns(tpud.FallbackWarning):
        call(torch.eye(2))
    with pytest.raises(RuntimeError, match="infs or NaNs"):
        call(torch.full((2, 2), float("nan")))


def test_assertions_of_torch_raise_with_and_without_the_option() -> None:
    for checks in (True, False):
        call = compiled(lambda i: F.one_hot(i, 3), checks=checks)
        assert call(at(2)).tolist() == [[0, 0, 1]]
        for bad in (3, -1):
            with pytest.raises(tpud.AssertionFailedError, match="Class values must be") as caught:
                call(at(bad))
            assert "F.one_hot(i, 3)" in str(caught.value)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.amax(0),
        lambda x: x.argmax(),
        lambda x: x.max(),
        lambda x: x.min(),
        lambda x: x.max(0).values,
        lambda x: x.min(0).indices,
        lambda x: torch.aminmax(x),
        lambda x: x.median(0).values,
        lambda x: x.mode(0).values,
        lambda x: torch.linalg.vector_norm(x, float("inf")),
    ],
)
def test_empty_reductions_raise_when_compiling(fn, caplog) -> None:
    empty = torch.ones(0, 3)
    with pytest.raises((RuntimeError, IndexError)):
        fn(empty)
    for fallback in ("error", "eager"):
        with pytest.raises((RuntimeError, IndexError)):
            compiled(fn, checks=False, fallback=fallback)(empty)


def test_mutations_do_not_happen_when_a_check_fails() -> None:
    def fn(buffer, i, v):
        buffer.index_copy_(0, i, v)
        return buffer.sum()

    buffer = torch.zeros(4, 2)
    call = compiled(fn)
    call(buffer, at(1), torch.ones(1, 2))
    before = buffer.clone()
    with pytest.raises(IndexError):
        call(buffer, at(4), torch.ones(1, 2))
    assert torch.equal(buffer, before)
    call(buffer, at(3), torch.ones(1, 2))
    assert buffer.sum() == 4


@pytest.mark.parametrize("checks", [True, False])
def test_checks_of_linear_algebra_leave_inputs_and_outputs_where_they_are(checks: bool) -> None:
    """torch orders these checks by a token, which is an input and an output more."""

    def fn(buffer, x):
        buffer.add_(1)
        factor = torch.linalg.cholesky(x)
        return factor, factor[0], buffer * 2

    ours, theirs = torch.zeros(2), torch.zeros(2)
    x = torch.eye(2) * 4
    call = compiled(fn, checks=checks)
    for _ in range(2):
        results, expected = call(ours, x), fn(theirs, x)
        assert [type(each) for each in results] == [torch.Tensor] * 3
        torch.testing.assert_close(results, expected)
        torch.testing.assert_close(ours, theirs)
    y = x.clone().requires_grad_()
    call(ours, y)[0].sum().backward()
    z = x.clone().requires_grad_()
    fn(theirs, z)[0].sum().backward()
    torch.testing.assert_close(y.grad, z.grad)


def test_dynamic_sizes() -> None:
    call = torch.compile(lambda x, i: x[i], backend="tpu", dynamic=True, options={"checks": True, "fallback": "error"})
    for size in (3, 5, 8):
        x = torch.arange(float(size))
        assert call(x, at(size - 1)).item() == size - 1
        with pytest.raises(IndexError, match=f"size {size}"):
            call(x, at(size))


def test_a_graph_without_checks_has_no_flag_and_the_same_module() -> None:
    modules = []
    for checks in (True, False):
        with stats.listen() as graphs:
            compiled(lambda x: torch.relu(x) + 1, checks=checks)(torch.ones(3))
        piece = graphs[0].pieces[0].result
        assert piece["checks"] == [] and len(piece["signature"]["outputs"]) == 1
        modules.append((piece["graph_key"], piece["module_key"]))
    assert modules[0][0] != modules[1][0] and modules[0][1] == modules[1][1]


def test_the_flag_costs_little() -> None:
    """A guard against a flag that makes calls much slower, with a wide margin; docs/CHECKS.md has the measured ratio."""

    def fn(x, i):
        return (x @ x)[i]

    x, i = torch.randn(256, 256), at(3, 5)
    best = {}
    for checks in (False, True):
        call = compiled(fn, checks=checks)
        call(x, i)
        times = []
        for _ in range(50):
            started = time.perf_counter()
            call(x, i)
            times.append(time.perf_counter() - started)
        best[checks] = min(times)
    assert best[True] < best[False] * 2, best
