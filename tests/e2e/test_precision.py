"""`precision` and `emulate_tpu_precision`: on a CPU, f32 products as a TPU computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tpud
from tpud import stats

pytestmark = pytest.mark.usefixtures("connection")

PRECISIONS = ("medium", "high", "highest")


def emulated(fn: Callable[..., Any], precision: str, **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    options = {"fallback": "error", "emulate_tpu_precision": True, "precision": precision, **options}
    return torch.compile(fn, backend="tpu", dynamic=False, options=options)


def bf16(x: torch.Tensor) -> torch.Tensor:
    return x.bfloat16().to(x.dtype)


def parts(x: torch.Tensor, count: int) -> list[torch.Tensor]:
    """As the lowering splits, in f32: each part is what is left, rounded to bf16; exact in f64."""
    found = []
    for _ in range(count):
        found.append(x.bfloat16().float())
        x = x - found[-1]
    return [part.double() for part in found]


def reference(fn: Callable[..., torch.Tensor], precision: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The sum of the products of parts, in f64: what is computed but for f32's rounding of sums."""
    count = {"medium": 1, "high": 2, "highest": 3}[precision]
    a, b = parts(x, count), parts(y, count)
    return sum(fn(a[i], b[j]) for i in range(count) for j in range(count) if i + j < count)


PRODUCTS = {
    "mm": (lambda x, y: x @ y, (24, 32), (32, 16)),
    "bmm": (torch.bmm, (3, 8, 32), (3, 32, 8)),
    "addmm": (lambda x, y: torch.addmm(torch.zeros(16, dtype=x.dtype), x, y), (24, 32), (32, 16)),
    "conv1d": (F.conv1d, (2, 6, 20), (4, 6, 3)),
    "conv2d": (lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=2), (2, 8, 9, 9), (4, 4, 3, 3)),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2), (2, 6, 5, 5), (6, 4, 3, 3)),
    "attention": (lambda q, k: F.scaled_dot_product_attention(q, k, torch.eye(8), scale=1.0), (2, 8, 16), (2, 8, 16)),
}  # fmt: skip
LINEAR = [name for name in PRODUCTS if name != "attention"]


def operands(name: str) -> tuple[Callable[..., torch.Tensor], torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    fn, left, right = PRODUCTS[name]
    return fn, torch.randn(left), torch.randn(right)


@pytest.mark.parametrize("name", LINEAR)
def test_products_are_sums_of_products_of_parts(name: str) -> None:
    fn, x, y = operands(name)
    exact = fn(x.double(), y.double())
    errors = {}
    for precision in PRECISIONS:
        ours = emulated(fn, precision)(x, y).double()
        wanted = reference(fn, precision, x, y)
        # A few roundings of an f32 sum.
        torch.testing.assert_close(ours, wanted, atol=2e-5, rtol=2e-6)
        errors[precision] = (ours - exact).abs().max().item()
    assert errors["medium"] > 20 * errors["high"] > 100 * errors["highest"] > 0, errors


def test_medium_is_the_product_of_bf16_operands() -> None:
    fn, x, y = operands("mm")
    torch.testing.assert_close(emulated(fn, "medium")(x, y), bf16(x) @ bf16(y), atol=1e-5, rtol=1e-6)
    # And not what f32 gives, by far.
    assert (emulated(fn, "medium")(x, y) - x @ y).abs().max() > 1e-3


def test_every_product_of_attention_is_emulated() -> None:
    fn, q, k = operands("attention")
    weights = torch.softmax(bf16(q) @ bf16(k).transpose(1, 2), -1)
    torch.testing.assert_close(emulated(fn, "medium")(q, k), bf16(weights), atol=1e-2, rtol=1e-2)
    got = emulated(fn, "medium")(q, k)
    assert torch.equal(got, bf16(got)), "the weights were not rounded before the second product"


def test_a_matrix_times_a_vector_is_no_matrix_product() -> None:
    """torch takes it apart into products of elements and a sum, which a TPU computes in f32."""
    x, y = torch.randn(24, 32), torch.randn(32)
    torch.testing.assert_close(emulated(torch.mv, "medium")(x, y), x @ y, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.float16])
def test_other_types_are_not_touched(dtype) -> None:
    x, y = torch.randn(8, 8).to(dtype), torch.randn(8, 8).to(dtype)
    results = [emulated(torch.mm, "medium", emulate_tpu_precision=on)(x, y) for on in (True, False)]
    assert torch.equal(*results)


def test_without_emulation_a_cpu_computes_f32() -> None:
    fn, x, y = operands("mm")
    for precision in PRECISIONS:
        torch.testing.assert_close(emulated(fn, precision, emulate_tpu_precision=False)(x, y), x @ y, atol=2e-5, rtol=2e-6)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_infinities_and_nan_are_those_of_f32(precision: str) -> None:
    """Parts of an infinity are an infinity and NaN: only the first may count."""
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([[inf, 1.0], [1.0, 0.0], [0.0, 2.0], [nan, 1.0], [inf, -inf], [1.0, -inf]])
    y = torch.tensor([[1.5, inf, 0.0, nan], [1.25, 1.0, 2.0, 1.0]])
    torch.testing.assert_close(emulated(torch.mm, precision)(x, y), x @ y, equal_nan=True)


def test_finite_numbers_above_bf16_s_largest_become_infinite() -> None:
    big = torch.tensor([[torch.finfo(torch.float32).max]])
    for precision in PRECISIONS:
        assert emulated(torch.mm, precision)(big, torch.ones(1, 1)).item() == float("inf")
    largest = torch.tensor([[torch.finfo(torch.bfloat16).max]])
    for precision in PRECISIONS:
        assert emulated(torch.mm, precision)(largest, torch.ones(1, 1)).item() == largest.item()


class Rounded(torch.autograd.Function):
    """A product of operands that are rounded to bf16, in the forward and in both products of the backward."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return bf16(x) @ bf16(weight)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return bf16(gradient) @ bf16(weight).t(), bf16(x).t() @ bf16(gradient)


def losses(product: Callable[..., torch.Tensor], run: Callable[..., Any], steps: int = 12) -> list[float]:
    torch.manual_seed(0)
    weights = [torch.randn(16, 32) / 4, torch.randn(32, 8) / 6]
    weights = [weight.requires_grad_() for weight in weights]
    x, target = torch.randn(64, 16), torch.randn(64, 8)

    def loss(x, target, first, second):
        return F.mse_loss(product(torch.tanh(product(x, first)), second), target)

    step, curve = run(loss), []
    for _ in range(steps):
        value = step(x, target, *weights)
        value.backward()
        curve.append(value.item())
        with torch.no_grad():
            for weight in weights:
                weight -= 0.5 * weight.grad
                weight.grad = None
    return curve


def test_a_loss_curve_shows_the_drift_of_medium() -> None:
    by_hand = losses(Rounded.apply, lambda loss: loss)
    exact = losses(torch.mm, lambda loss: loss)
    ours = {precision: losses(torch.mm, lambda loss, p=precision: emulated(loss, p)) for precision in PRECISIONS}
    torch.testing.assert_close(torch.tensor(ours["medium"]), torch.tensor(by_hand), atol=1e-5, rtol=1e-4)

    def drift(curve: list[float]) -> float:
        return max(abs(a - b) for a, b in zip(curve, exact, strict=True))

    assert exact[-1] < exact[0] / 1.5, "nothing was learned"
    assert drift(ours["medium"]) > 10 * drift(ours["high"]) and drift(ours["medium"]) > 1e-4, [drift(c) for c in ours.values()]
    assert drift(ours["highest"]) < 1e-5


def test_the_emulation_is_part_of_the_graph_key() -> None:
    keys = {}
    for on in (True, False):
        for precision in PRECISIONS:
            with stats.listen() as graphs:
                emulated(torch.mm, precision, emulate_tpu_precision=on)(torch.ones(2, 2), torch.ones(2, 2))
            result = graphs[0].pieces[0].result
            keys[on, precision] = result["graph_key"]
            parts = {part["name"]: part["value"] for part in result["graph_key_components"]}
            assert parts["emulation"] == ("on" if on else "off") and parts["precision"] == precision
    assert len(set(keys.values())) == 6


def test_a_tpu_is_not_asked_to_emulate_itself() -> None:
    for target in ("tpu", "v6e:2x2"):
        with pytest.raises(tpud.OptionsError, match="is for CPUs"):
            emulated(torch.mm, "medium", target=target)(torch.ones(2, 2), torch.ones(2, 2))
