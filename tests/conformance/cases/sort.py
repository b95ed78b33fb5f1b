"""Order along a dimension."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand, special


def distinct(*sizes, dtype=torch.float32):
    """No two elements are equal: torch does not define the order of equal ones."""
    count = torch.Size(sizes).numel()
    return (torch.randperm(count) - count // 2).reshape(sizes).to(dtype)


def sort():
    yield S(distinct(3, 4))
    yield S(distinct(3, 4), 0, True)
    yield S(distinct(2, 9, 3), 1)
    yield S(rand())
    yield S(rand(0, 3), 0)
    yield S(rand(3, 1), -1, True)
    yield S(special())
    yield S(special(), 0, True)
    yield S(distinct(20, dtype=torch.int64))
    yield S(distinct(20, dtype=torch.int64), 0, True)
    for dtype in FLOATS[1:]:
        yield S(distinct(12, dtype=dtype))


def sort_stable():
    for sample in sort():
        dim, descending = (*sample.args[1:], *(-1, False)[len(sample.args) - 1 :])
        yield S(sample.args[0], stable=True, dim=dim, descending=descending)
    yield S(distinct(5), stable=None)
    for dtype in (torch.int64, torch.uint8, torch.bfloat16):
        yield S(rand(20, dtype=dtype).round(), stable=True)
        yield S(rand(20, dtype=dtype).round(), stable=True, descending=True)
    yield S(rand(9, dtype=torch.bool), stable=True)


def topk():
    yield S(distinct(3, 9), 4)
    yield S(distinct(3, 9), 9)
    yield S(distinct(3, 9), 2, 0, False)
    yield S(distinct(3, 9), 1, -1, True, True)
    yield S(distinct(3, 9), 0)
    yield S(rand(), 1)
    yield S(rand(0, 3), 2)
    yield S(torch.tensor([1.0, float("nan"), float("inf"), float("-inf"), -0.0]), 3)
    yield S(torch.tensor([1.0, float("nan"), float("inf"), float("-inf"), -0.0]), 4, -1, False)
    yield S(torch.tensor([1.0, -float("nan"), float("inf"), 2.0]), 4, -1, False)
    yield S(torch.tensor([1.0, -float("nan"), float("inf"), 2.0]), 2)
    yield S(distinct(2000), 7)
    yield S(distinct(12, dtype=torch.int64), 5)
    yield S(distinct(12, dtype=torch.int64), 5, -1, False)
    yield S(distinct(12, dtype=torch.int8), 5, -1, False)
    yield S(distinct(12, dtype=torch.bfloat16), 5)
    yield S(distinct(12, dtype=torch.float64), 5, -1, False)


def kthvalue():
    yield S(distinct(3, 9), 4)
    yield S(distinct(3, 9), 1, 0)
    yield S(distinct(3, 9), 9, 1, True)
    yield S(rand(), 1)
    yield S(rand(0, 3), 2)
    yield S(torch.tensor([1.0, float("nan"), 3.0, float("-inf")]), 4)
    yield S(distinct(12, dtype=torch.int64), 5)


def median_dim():
    nan = float("nan")
    yield S(distinct(3, 9), 1)
    yield S(distinct(4, 9), 0)
    yield S(distinct(3, 4), -1, True)
    yield S(rand(), 0)
    yield S(rand(0, 3), 1)
    yield S(torch.tensor([[3.0, nan, 1.0, 2.0, nan], [5.0, 4.0, 3.0, 2.0, 1.0]]), 1)
    yield S(torch.tensor([[3.0, nan, 1.0, 2.0], [-1.0, float("inf"), 3.0, float("-inf")]]), 1)
    yield S(distinct(12, dtype=torch.int64), 0)


def median():
    nan = float("nan")
    yield S(rand(3, 9))
    yield S(rand(4))
    yield S(rand())
    yield S(rand(0))
    yield S(torch.tensor([3.0, nan, 1.0, 2.0, nan]))
    yield S(torch.tensor([nan, nan]))
    yield S(rand(12, dtype=torch.int64))


def mode():
    yield S(rand(3, 12, dtype=torch.int64))
    yield S(rand(12, 3, dtype=torch.int64), 0)
    yield S(torch.tensor([3, 1, 1, 3, 2]), 0, True)
    yield S(torch.tensor([[2.0, 2.0, float("nan")], [5.0, 4.0, 4.0]]))
    yield S(rand())
    yield S(rand(5, 1))
    yield S(rand(0, 3))
    yield S(rand(9, dtype=torch.bool))


CASES = [
    case("aten.sort.default", sort),
    case("aten.sort.stable", sort_stable),
    case("aten.topk.default", topk),
    case("aten.kthvalue.default", kthvalue),
    case("aten.median.dim", median_dim),
    case("aten.nanmedian.dim", median_dim),
    case("aten.median.default", median),
    case("aten.nanmedian.default", median),
    case("aten.mode.default", mode),
]
