"""Our decompositions against eager PyTorch, and the rules of the table."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from torch.fx.experimental.proxy_tensor import make_fx

from tpud.decompositions import KEEP, TORCH, _overloads, decompositions
from tpud.encode import UnencodableError, encode_graph
from tpud.testing import encode_op, trace_op

aten = torch.ops.aten


def check(fn, *args, without: str = ""):
    """Traces, runs the graph, and compares; `without` must be gone from the graph."""
    expected = fn(*[each.clone() if isinstance(each, torch.Tensor) else each for each in args])
    gm = trace_op(fn, args)
    ops = {str(node.target) for node in gm.graph.nodes if node.op == "call_function"}
    assert not without or not any(without in op for op in ops), ops
    got = gm(*[each for each in args if isinstance(each, torch.Tensor)])
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    torch.testing.assert_close(list(got), list(expected), equal_nan=True)
    return ops


@pytest.mark.parametrize("masked", ["none", "bool", "causal"])
def test_attention_reaches_the_server_whole(masked) -> None:
    q, k, v = (torch.randn(2, heads, length, 16) for heads, length in ((4, 8), (2, 10), (2, 10)))
    mask = [torch.rand(2, 1, 8, 10) > 0.3] if masked == "bool" else []

    def attention(q, k, v, *mask):
        return F.scaled_dot_product_attention(q, k, v, *mask, is_causal=masked == "causal", enable_gqa=True, scale=0.3)

    ops = check(attention, q, k, v, *mask, without="softmax")
    assert "aten._scaled_dot_product_flash_attention_for_cpu.default" in ops


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("ends", [[2, 2, 16], [0, 0, 16], [16, 16, 16]])
def test_grouped_matmul(ends, known, monkeypatch) -> None:
    pytest.importorskip("transformers.integrations.moe")
    if not known:
        monkeypatch.setattr(torch.ops, "transformers", object())
    offsets = torch.tensor(ends, dtype=torch.int32)
    left, right = torch.randn(16, 16).bfloat16(), torch.randn(3, 16, 16).bfloat16()
    check(lambda a, b, o: F.grouped_mm(a, b, offs=o), left, right, offsets, without="_grouped_mm.")
    check(lambda a, b, o: F.grouped_mm(a.t(), b, offs=o), left, left.clone(), offsets, without="_grouped_mm.")


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [((2, 3), (1, 2), 1), ((5, 6), (1, 5), 0), ((3, 3), (0, 1), 4), ((4,), (7,), 2), ((0, 3), (3, 1), 0)],
)
def test_as_strided_sees_a_contiguous_tensor(size, stride, offset) -> None:
    for fn in (lambda x: x.as_strided(size, stride, offset) + 0, lambda x: (x.t() + 1).as_strided(size, stride, offset) + 0):
        check(fn, torch.randn(6, 5))
        encode_op(fn, (torch.randn(6, 5),))


@pytest.mark.parametrize("offset", [None, 0, 7])
def test_as_strided_of_a_view_inside_of_the_graph(offset) -> None:
    """The memory is that of the value which the view looks at."""
    for fn in (
        lambda x: (x + 1)[2].as_strided((3,), (2,), offset) + 0,
        lambda x: (x + 1)[1:, ::2].as_strided((2, 2), (3, 1), offset) + 0,
        lambda x: torch.as_strided_copy((x + 1).t()[1], (2, 2), (1, 1), offset),
    ):
        check(fn, torch.randn(6, 5), without="as_strided_copy")
        encode_op(fn, (torch.randn(6, 5),))


@pytest.mark.parametrize("offset", [0, 7])
def test_as_strided_scatter_into_any_layout(offset) -> None:
    def fn(x, src):
        return torch.as_strided_scatter(x, src, (2, 3), (7, 2), offset)

    for x in (torch.randn(6, 5), torch.randn(5, 6).t(), torch.randn(8, 5)[2:], torch.randn(6, 10)[:, ::2]):
        src = torch.randn(2, 3)
        gm = trace_op(fn, (x, src))
        torch.testing.assert_close(gm(x, src)[0], fn(x, src))
        encode_op(fn, (x, src))


def test_as_strided_outside_of_what_is_known_is_refused() -> None:
    x = torch.randn(40)[10:]
    gm = make_fx(lambda x: aten.as_strided.default(x, (3,), (1,), 5), tracing_mode="fake")(x)
    with pytest.raises(UnencodableError, match="memory outside"):
        encode_graph(gm)


def test_uninitialised_memory_is_zero() -> None:
    for fn in (
        lambda x: torch.empty(2, 3) + 0,
        lambda x: torch.empty_like(x) + 0,
        lambda x: x.new_empty(4) + 0,
        lambda x: torch.empty_strided((2, 3), (1, 2)) + 0,
        lambda x: torch.empty_permuted((2, 3, 4), (0, 2, 1)) + 0,
    ):
        gm = trace_op(fn, (torch.randn(2, 2),))
        assert not any("empty" in str(node.target) for node in gm.graph.nodes)
        assert not gm(torch.randn(2, 2))[0].any()


def test_in_place_programs_become_functional() -> None:
    def fn(x):
        x = x.clone()
        x[1:3, ::2] = 0
        x.view(-1)[3:5].add_(1)
        x.t()[2].copy_(torch.ones(6))
        return x

    ops = check(fn, torch.randn(6, 5))
    assert not any(op.split(".")[1].endswith("_") for op in ops)


@pytest.mark.parametrize("offset", [0, 1, -2, 4])
@pytest.mark.parametrize("dims", [(0, 1), (1, 0), (-1, 0), (2, 1)])
def test_writes_to_a_diagonal(offset, dims) -> None:
    def fn(x):
        x = x.clone()
        x.diagonal(offset, *dims).mul_(-3)
        return x

    check(fn, torch.randn(4, 6, 5), without="scatter")


def test_a_gradient_through_a_diagonal() -> None:
    def fn(x, g):
        return aten.diagonal_backward.default(g, x.shape, 1, 0, 1)

    check(fn, torch.randn(3, 4), torch.randn(3), without="prims")


def test_writes_through_as_strided() -> None:
    def fn(x):
        x = x.clone()
        x.as_strided((2, 2), (5, 2), 1).add_(10)
        return x

    check(fn, torch.randn(4, 4), without="scatter")


def test_kept_ops_are_not_in_the_table() -> None:
    table = decompositions()
    for names in KEEP.values():
        for name in names:
            assert not [op for op in _overloads(name) if op in table], name
    assert aten.split_with_sizes.default not in table


def test_every_name_of_the_torch_group_exists() -> None:
    table = decompositions()
    for names in TORCH.values():
        for name in names:
            assert [op for op in _overloads(name) if op in table], name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [0, -1])
def test_gradients_of_weight_norm(dtype, dim) -> None:
    v, grad = torch.randn(4, 3, 5, dtype=dtype), torch.randn(4, 3, 5, dtype=dtype)
    g = torch.rand(4, 1, 1, dtype=dtype) if dim == 0 else torch.rand(1, 1, 5, dtype=dtype)
    kept = dim % v.dim()
    _, norms = aten._weight_norm_interface.default(v, g, kept)
    backward = aten._weight_norm_interface_backward.default
    got = trace_op(lambda *args: backward(*args, kept), (grad, v, g, norms))(grad, v, g, norms)
    wide = [each.detach().double().requires_grad_() for each in (v, g)]
    weight = wide[0] * (wide[1] / wide[0].norm(dim=[each for each in range(3) if each != kept], keepdim=True))
    expected = torch.autograd.grad(weight, wide, grad.double())
    tolerance = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 0.05, "rtol": 0.05}
    assert [each.dtype for each in got] == [dtype, dtype]
    torch.testing.assert_close([each.double() for each in got], list(expected), **tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bilinear_forms(dtype) -> None:
    x, y, w = torch.randn(4, 3, dtype=dtype), torch.randn(4, 5, dtype=dtype), torch.randn(2, 3, 5, dtype=dtype)
    check(lambda x, y, w: F.bilinear(x, y, w), x, y, w, without="_trilinear")
    check(lambda x, y, w: F.bilinear(x[:0], y[:0], w), x, y, w, without="_trilinear")


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_embedding_renorm_scales_the_rows_that_are_used(norm) -> None:
    weight = torch.randn(6, 4) * torch.tensor([[0.01], [1], [3], [5], [7], [0]])
    indices = torch.tensor([[0, 2], [2, 5], [-1, 3]]) % 6
    check(lambda w, i: aten.embedding_renorm.default(w, i, 1.5, norm), weight, indices, without="renorm")
