"""Branches and loops over graphs."""

import torch

from tests.conformance.harness import S, case, rand, traced


def cond():
    x, y = rand(3, 4), rand(3, 4)
    then = traced(lambda x, y: (x.sin() + y, x.sum()), x, y)
    otherwise = traced(lambda x, y: (x @ y.t() @ y, y.max()), x, y)
    for pred in (torch.tensor(True), torch.tensor(False), torch.tensor([True]), True, False):
        yield S(pred, then, otherwise, (x, y))
    integers = rand(4, dtype=torch.int64)
    yield S(torch.tensor(True), traced(lambda x: (x + 1,), integers), traced(lambda x: (x // 2,), integers), (integers,))
    # Branches that hand on what they are given, one of them twice.
    same, twice = traced(lambda x, y: (x, y), x, y), traced(lambda x, y: (y, y), x, y)
    yield S(torch.tensor(False), same, twice, (x, y))


def nested(x):
    inner_then, inner_otherwise = traced(lambda x: (x * 2,), x), traced(lambda x: (x.cos(),), x)

    def outer(x):
        return torch.ops.higher_order.cond(x.sum() > 0, inner_then, inner_otherwise, (x,))

    return traced(outer, x)


def cond_in_cond():
    for sign in (1, -1):
        x = rand(5).abs() * sign
        yield S(torch.tensor(True), nested(x), traced(lambda x: (x,), x), (x,))


def while_loop():
    counter, x, step = torch.tensor(0), rand(3, 4), rand(4)
    cond = traced(lambda i, x, step: i < 5, counter, x, step)
    body = traced(lambda i, x, step: (i + 1, x * 0.5 + step), counter, x, step)
    yield S(cond, body, (counter, x), (step,))
    # No round at all.
    yield S(cond, body, (torch.tensor(9), x), (step,))
    # As long as the values need.
    cond = traced(lambda x: x.abs().max() > 0.1, x)
    yield S(cond, traced(lambda x: (x * 0.7,), x), (x,), ())
    branch = traced(lambda i, x: i < 3, counter, x[0])
    inner = nested(x[0])
    body = traced(lambda i, x: (i + 1, inner(x)[0]), counter, x[0])
    yield S(branch, body, (counter, x[0]), ())


def scan():
    rows, start, scale = rand(5, 3), rand(3), rand(3)
    combine = traced(lambda c, x, scale: (c * 0.5 + x, (c * x).sum(), x + scale), start, rows[0], scale)
    yield S(combine, (start,), (rows,), (scale,))
    yield S(combine, (start,), (rows[:1],), (scale,))
    # Several running values and inputs; no results but the running values.
    combine = traced(lambda a, n, x, y: (a + x.float().mean(), n + y), start, torch.tensor(0), rows[0], torch.tensor(1))
    yield S(combine, (start, torch.tensor(0)), (rows, rand(5, dtype=torch.int64)), ())
    # Nothing runs along.
    yield S(traced(lambda x: (x.exp(),), rows[0]), (), (rows,), ())


def map_impl():
    rows, other = rand(4, 2, 3), rand(3, 2)
    yield S(traced(lambda x, other: (x @ other, x.sum()), rows[0], other), (rows,), (other,))
    yield S(traced(lambda x: (x * 2,), torch.tensor(1.0)), (rand(6),), ())


def associative_scan():
    rows, other = rand(7, 3), rand(7, 3)
    yield S(traced(lambda a, b: (a * b,), rows[0], rows[0]), (rows,), ())
    yield S(traced(lambda a, b: (a * b,), rows[0], rows[0]), (rows[:1],), ())
    linear = traced(lambda a, x, b, y: (a * b, b * x + y), rows[0], other[0], rows[0], other[0])
    yield S(linear, (rows, other), ())


CASES = [
    case("higher_order.cond", cond),
    case("higher_order.cond", cond_in_cond),
    case("higher_order.while_loop", while_loop),
    case("higher_order.scan", scan),
    case("higher_order.map_impl", map_impl),
    case("higher_order.associative_scan", associative_scan, rtol=1e-5, atol=1e-6),
]
