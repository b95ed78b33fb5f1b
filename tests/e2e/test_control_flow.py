"""Branches and loops in compiled functions: values and gradients as in eager PyTorch."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch.utils import _pytree as pytree

import tpud
from tpud import stats

pytestmark = pytest.mark.usefixtures("connection")


def call(fn, args, *, grad: bool, **options):
    """Outputs and gradients of a function on copies of its arguments."""
    given = [each.detach().clone() if isinstance(each, torch.Tensor) else each for each in args]
    leaves = [each for each in given if isinstance(each, torch.Tensor) and each.is_floating_point()]
    if not grad:
        with torch.no_grad():
            return fn(*given), []
    outputs = fn(*[each.requires_grad_() if any(each is leaf for leaf in leaves) else each for each in given])
    flat = [each for each in pytree.tree_leaves(outputs) if isinstance(each, torch.Tensor) and each.requires_grad]
    loss = sum((each * (i + 1)).sum() for i, each in enumerate(flat))
    return outputs, torch.autograd.grad(loss, leaves, allow_unused=True)


def check(fn, *args, reference=None, grad=True, dynamic=False, fallback="error"):
    """Compares a compiled function with eager PyTorch, values and gradients."""
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="tpud", fullgraph=True, dynamic=dynamic, options={"fallback": fallback})
    for with_grad in (False, True) if grad else (False,):
        got, gradients = call(compiled, args, grad=with_grad)
        expected, wanted = call(reference or fn, args, grad=with_grad)
        torch.testing.assert_close(got, expected)
        torch.testing.assert_close(gradients, wanted)


def branches(x, w):
    return torch.cond(x.sum() > 0, lambda a: (a @ w).sin(), lambda a: a.cos() @ w * 2, (x,))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dynamic", [False, True])
def test_cond(sign, dynamic) -> None:
    check(branches, torch.rand(3, 4) * sign, torch.randn(4, 4), dynamic=dynamic)


def test_only_the_chosen_branch_counts() -> None:
    def fn(x):
        # The other branch would give NaN, also in the gradient.
        return torch.cond(x.min() > 0, lambda x: x.log(), lambda x: x * 0, (x,))

    check(fn, torch.tensor([1.0, 2.0]))
    check(fn, torch.tensor([-1.0, 2.0]))


def test_branches_with_several_results_views_and_constants() -> None:
    def fn(x, flag):
        def then(x):
            return x.t().clone(), x[0] + torch.tensor([1.0, 2.0, 3.0]), x.sum()

        def otherwise(x):
            return x.t() * 2, x[1] * torch.tensor([4.0, 5.0, 6.0]), x.prod()

        a, b, c = torch.cond(flag, then, otherwise, (x,))
        return a @ x, b.exp(), c

    for flag in (True, False):
        check(fn, torch.randn(3, 3), torch.tensor(flag))


def test_modules_in_branches() -> None:
    class Experts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.small, self.large = torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))

        def forward(self, x):
            return torch.cond(x.mean() > 0, self.small, self.large, (x,))

    torch.manual_seed(0)
    model = Experts()
    compiled = torch.compile(model, backend="tpud", fullgraph=True, options={"fallback": "error"})
    for sign in (1, -1):
        x = torch.rand(2, 4) * sign
        results = []
        for call in (compiled, model):
            model.zero_grad()
            out = call(x)
            out.square().sum().backward()
            results.append((out, [torch.zeros(()) if p.grad is None else p.grad.clone() for p in model.parameters()]))
        torch.testing.assert_close(results[0][0], results[1][0])
        for got, expected in zip(results[0][1], results[1][1], strict=True):
            torch.testing.assert_close(got, expected.expand_as(got))


def count_to(x, n):
    def go_on(i, x):
        return i < n

    def body(i, x):
        return i + 1, x.sin() + i

    return torch.while_loop(go_on, body, (torch.zeros((), dtype=torch.int64), x))


@pytest.mark.parametrize("rounds", [0, 1, 7])
@pytest.mark.parametrize("dynamic", [False, True])
def test_while_loop(rounds, dynamic) -> None:
    check(count_to, torch.randn(3, 4), torch.tensor(rounds), grad=False, dynamic=dynamic)


def test_a_branch_in_a_loop() -> None:
    def fn(x):
        def go_on(i, x):
            return (i < 20) & (x.norm() < 50)

        def body(i, x):
            grown = torch.cond(i % 3 == 0, lambda x: x * 1.5, lambda x: x + torch.tensor(0.25), (x,))
            return i + 1, grown

        return torch.while_loop(go_on, body, (torch.tensor(0), x))

    check(fn, torch.rand(5) + 1, grad=False)


def running(x, w):
    def combine(carry, row):
        return (carry @ w + row).sin(), carry * row

    return scan(combine, torch.zeros(x.shape[-1]), x, dim=0)


def running_in_eager(x, w):
    state, results = torch.zeros(x.shape[-1]), []
    for row in x:
        results.append(state * row)
        state = (state @ w + row).sin()
    return state, torch.stack(results)


@pytest.mark.parametrize("dynamic", [False, True])
def test_scan(dynamic) -> None:
    check(running, torch.randn(6, 4), torch.randn(4, 4), reference=running_in_eager, dynamic=dynamic)


def test_scan_backwards_over_another_dimension() -> None:
    def fn(x, y):
        def combine(carry, xs):
            a, b = xs["a"], xs["b"]
            return carry + a * b, {"sum": carry.clone(), "product": a * b}

        return scan(combine, torch.zeros(3), {"a": x, "b": y}, dim=1, reverse=True)

    def reference(x, y):
        carry, sums, products = torch.zeros(3), [], []
        for i in reversed(range(x.shape[1])):
            sums.append(carry)
            products.append(x[:, i] * y[:, i])
            carry = carry + x[:, i] * y[:, i]
        return carry, {"sum": torch.stack(sums[::-1]), "product": torch.stack(products[::-1])}

    x, y = torch.randn(3, 5), torch.randn(3, 5)
    torch.testing.assert_close(fn(x, y)[0], reference(x, y)[0])
    check(fn, x, y, reference=fn)


def test_map() -> None:
    def fn(x, w):
        return map_rows(lambda row, w: (row @ w).sin() + row.sum(), x, w)

    check(fn, torch.randn(5, 2, 3), torch.randn(3, 4), reference=lambda x, w: (x @ w).sin() + x.sum((1, 2))[:, None, None])


@pytest.mark.parametrize("mode", ["pointwise", "generic"])
def test_associative_scan(mode) -> None:
    def fn(a, b):
        def combine(left, right):
            return left[0] * right[0], right[0] * left[1] + right[1]

        return associative_scan(combine, (a, b), dim=0, combine_mode=mode)

    def reference(a, b):
        state, product, results, products = torch.zeros(3), torch.ones(3), [], []
        for x, y in zip(a, b, strict=True):
            state, product = x * state + y, product * x
            results.append(state)
            products.append(product)
        return torch.stack(products), torch.stack(results)

    # torch's own gradient of the first mode is wrong when one running value enters another.
    check(fn, torch.randn(9, 3), torch.randn(9, 3), reference=reference, grad=mode == "generic")


def test_the_gradient_of_a_running_product() -> None:
    def fn(x):
        return associative_scan(lambda a, b: a * b, x, dim=1, reverse=True)

    check(fn, torch.rand(3, 6) + 0.5, reference=lambda x: x.flip(1).cumprod(1).flip(1))


def test_mutation_next_to_a_branch() -> None:
    def fn(x, seen):
        y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        seen.add_(y)
        return y

    compiled = torch.compile(fn, backend="tpud", fullgraph=True, options={"fallback": "error"})
    x, got, expected = torch.randn(4), torch.zeros(4), torch.zeros(4)
    with torch.no_grad():
        for sign in (1, -1, 1):
            torch.testing.assert_close(compiled(x * sign, got), fn(x * sign, expected))
    torch.testing.assert_close(got, expected)


def test_an_unsupported_op_in_a_branch_is_named_with_its_line() -> None:
    @torch.library.custom_op("tpud_test::unknown", mutates_args=())
    def unknown(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    unknown.register_fake(torch.empty_like)

    def fn(x):
        def then(x):
            return unknown(x)  # this line

        return torch.cond(x.sum() > 0, then, lambda x: x * 2, (x,)) + 1

    torch._dynamo.reset()
    x = torch.rand(3)
    with torch.no_grad(), pytest.raises(tpud.UnsupportedOpError) as caught:
        torch.compile(fn, backend="tpud", fullgraph=True, options={"fallback": "error"})(x)
    assert [issue.op for issue in caught.value.issues] == ["tpud_test.unknown.default"]
    assert "# this line" in str(caught.value)
    # The whole branch runs in eager PyTorch then.
    torch._dynamo.reset()
    with torch.no_grad(), pytest.warns(tpud.FallbackWarning, match="tpud_test.unknown"):
        torch.testing.assert_close(torch.compile(fn, backend="tpud", fullgraph=True)(x), fn(x))


def test_random_numbers_in_a_branch_are_refused() -> None:
    def fn(x):
        return torch.cond(x.sum() > 0, lambda x: x + torch.rand_like(x), lambda x: x * 2, (x,))

    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(tpud.UnsupportedOpError, match="draw the numbers before it"):
        torch.compile(fn, backend="tpud", fullgraph=True, options={"fallback": "error"})(torch.rand(3))


def test_names_and_lines_do_not_change_the_key() -> None:
    def first(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    def second(some_other_name):
        def on_true(y):
            return y.sin()

        def on_false(z):
            return z.cos()

        return torch.cond(some_other_name.sum() > 0, on_true, on_false, (some_other_name,))

    keys = []
    for fn in (first, second):
        torch._dynamo.reset()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("error", tpud.FallbackWarning)
            with stats.listen() as records:
                torch.compile(fn, backend="tpud", fullgraph=True)(torch.rand(3))
        keys.append(records[0].pieces[0].result["graph_key"])
    assert keys[0] == keys[1]
