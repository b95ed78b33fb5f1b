"""Random ops through the real chain: distributions, independence, seeds, forward with backward.

Values are fixed by the seed, so a statistic either always passes or never; the bounds are those of a p-value of 0.001.
"""

from __future__ import annotations

import functools
import math
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from daemons import Daemon, environment
from torch._dynamo.backends.common import aot_autograd
from torch.utils.checkpoint import checkpoint

from tpud.backend import compile_graph
from tpud.decompositions import decompositions
from tpud.options import Options

N = 200_000
COUNT = 40_000


def compiled(fn, **options):
    """Without fallback: what the server does not draw is an error."""
    torch._dynamo.reset()
    return torch.compile(fn, backend="tpud", options={"fallback": "error", **options})


def drawn(fn, *args, seed: int = 0):
    torch.manual_seed(seed)
    return compiled(fn)(*args)


def kolmogorov(sample: torch.Tensor, cdf) -> None:
    """The largest distance between the sample's distribution and `cdf`, which maps f64 to f64."""
    x = sample.double().sort().values
    expected = cdf(x)
    steps = torch.arange(len(x) + 1, dtype=torch.float64) / len(x)
    distance = torch.maximum(expected - steps[:-1], steps[1:] - expected).max().item()
    assert distance < 1.95 / math.sqrt(len(x)), distance


def mean_is(sample: torch.Tensor, mean: float, variance: float) -> None:
    x = sample.double()
    assert abs(x.mean().item() - mean) < 3.3 * math.sqrt(variance / x.numel()), (x.mean(), mean)


def variance_is(sample: torch.Tensor, variance: float, kurtosis: float) -> None:
    """`kurtosis`: the fourth central moment over the squared variance."""
    error = variance * math.sqrt((kurtosis - 1) / sample.numel())
    assert abs(sample.double().var().item() - variance) < 3.3 * error, (sample.double().var(), variance)


def frequencies_are(sample: torch.Tensor, expected: torch.Tensor) -> None:
    """Chi-squared, by the normal approximation of Wilson and Hilferty."""
    counts = torch.bincount(sample.flatten().long(), minlength=len(expected)).double()
    assert len(counts) == len(expected), "a value that can't be"
    assert not counts[expected == 0].any(), "a value of probability 0"
    possible = expected > 0
    wanted = expected[possible].double() * sample.numel()
    freedom = int(possible.sum()) - 1
    chi = (((counts[possible] - wanted) ** 2) / wanted).sum().item()
    z = ((chi / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    assert abs(z) < 3.3, (chi, freedom)


def normal_cdf(x: torch.Tensor) -> torch.Tensor:
    return torch.special.ndtr(x)


def uncorrelated(a: torch.Tensor, b: torch.Tensor) -> None:
    a, b = (each.flatten().double() - each.double().mean() for each in (a, b))
    correlation = ((a * b).sum() / (a.norm() * b.norm())).item()
    assert abs(correlation) < 3.3 / math.sqrt(a.numel()), correlation


def test_uniform(connection) -> None:
    def fn(x):
        return torch.rand_like(x), torch.rand(N, dtype=torch.float64), torch.empty(N).uniform_(-2, 5), torch.rand(N)

    single, double, shifted, other = drawn(fn, torch.zeros(N))
    kolmogorov(single, lambda x: x)
    kolmogorov(double, lambda x: x)
    kolmogorov(shifted, lambda x: (x + 2) / 7)
    uncorrelated(single, other)
    uncorrelated(single[1:], single[:-1])
    # Multiples of 2⁻²⁴, as in torch.
    assert torch.equal(single * 2**24, (single * 2**24).round())


@pytest.mark.parametrize(("dtype", "digits"), [(torch.bfloat16, 8), (torch.float16, 11)])
def test_narrow_uniform_numbers_are_never_one(connection, dtype, digits) -> None:
    sample = drawn(lambda x: torch.rand_like(x), torch.zeros(N, dtype=dtype))
    assert sample.min() >= 0 and sample.max() == 1 - 2.0**-digits
    frequencies_are((sample.double() * 2**digits).long(), torch.full((2**digits,), 2.0**-digits))


def test_normal_and_its_tails(connection) -> None:
    def fn(x):
        mean, std = torch.full((N,), 3.0), torch.full((N,), 0.5)
        return torch.randn_like(x), torch.randn(N, dtype=torch.float64), torch.normal(mean, std), torch.randn(N // 2, dtype=torch.complex64)

    single, double, scaled, complexes = drawn(fn, torch.zeros(N))
    kolmogorov(single, normal_cdf)
    kolmogorov(double, normal_cdf)
    kolmogorov((scaled - 3) / 0.5, normal_cdf)
    kolmogorov(torch.view_as_real(complexes).flatten() * math.sqrt(2), normal_cdf)
    variance_is(single, 1.0, 3.0)
    uncorrelated(single, double)
    uncorrelated(single[1:], single[:-1])
    uncorrelated(complexes.real, complexes.imag)
    # 10⁷ numbers, of which 2 · 10⁷ · Φ(-4) = 633.4 are beyond 4, 5.7 beyond 5.
    tail = drawn(lambda x: torch.randn_like(x), torch.zeros(10_000_000)).abs()
    for bound, expected in ((3.0, 26_998.0), (4.0, 633.4), (5.0, 5.7)):
        found = int((tail > bound).sum())
        assert abs(found - expected) < 3.3 * math.sqrt(expected) + 1, (bound, found)
    assert 5 < tail.max() < 6.7 and tail.isfinite().all()


def test_what_is_made_of_uniform_numbers(connection) -> None:
    def fn(x):
        return (
            torch.empty(N).exponential_(2.0),
            torch.empty(N).cauchy_(1.0, 3.0),
            torch.empty(N).log_normal_(0.5, 0.25),
            torch.empty(N).geometric_(0.3),
            torch.empty(N, dtype=torch.int64).geometric_(0.001),
            F.rrelu(x, 0.1, 0.4, training=True),
        )

    exponential, cauchy, log_normal, geometric, rare, rrelu = drawn(fn, torch.full((N,), -1.0))
    kolmogorov(exponential, lambda x: -torch.expm1(-2 * x))
    assert exponential.min() > 0
    kolmogorov(cauchy, lambda x: 0.5 + torch.atan((x - 1) / 3) / math.pi)
    # A tail of 1/x: the largest of 200,000 is of their order.
    assert cauchy.abs().max() > 10_000
    kolmogorov(log_normal, lambda x: normal_cdf((x.log() - 0.5) / 0.25))
    weights = 0.3 * 0.7 ** torch.arange(60, dtype=torch.float64)
    frequencies_are(geometric.clamp(max=60) - 1, torch.cat([weights[:-1], 1 - weights[:-1].sum()[None]])[:60])
    mean_is(rare, 1000, 999_000)
    kolmogorov(-rrelu, lambda x: (x - 0.1) / 0.3)


def test_bernoulli_and_integers(connection) -> None:
    def fn(p):
        return (
            torch.bernoulli(p),
            torch.empty(N).bernoulli_(0.2),
            torch.empty(10_000_000).bernoulli_(1e-5),
            torch.randint(-3, 10, (N,)),
            torch.randint(0, 64, (N,), dtype=torch.int32),
            torch.randint(-(2**62), 2**62 + 2**61, (N,)),
            torch.randperm(N),
        )

    some, fifth, rare, small, power, large, order = drawn(fn, torch.full((N,), 0.7))
    frequencies_are(some, torch.tensor([0.3, 0.7]))
    frequencies_are(fifth, torch.tensor([0.8, 0.2]))
    mean_is(rare, 1e-5, 1e-5)
    frequencies_are(small + 3, torch.full((13,), 1 / 13))
    frequencies_are(power, torch.full((64,), 1 / 64))
    kolmogorov(large, lambda x: (x + 2.0**62) / (2.0**63 + 2.0**61))
    assert torch.equal(order.sort().values, torch.arange(N))
    uncorrelated(order, torch.arange(N))


def test_small_permutations_are_equally_likely(connection) -> None:
    fn = compiled(lambda: torch.stack([torch.randperm(3) for _ in range(20)]))
    torch.manual_seed(0)
    orders = torch.cat([fn() for _ in range(100)])
    code = orders[:, 0] * 2 + (orders[:, 1] > orders[:, 2])
    frequencies_are(code, torch.full((6,), 1 / 6))


def test_multinomial(connection) -> None:
    weights = torch.tensor([0.0, 1.0, 3.0, 0.0, 2.0, 4.0, 0.0])

    def fn(w):
        rows = w.expand(COUNT, 7)
        return torch.multinomial(w, COUNT, True), torch.multinomial(rows, 1), torch.multinomial(rows, 2)

    many, one, two = drawn(fn, weights)
    frequencies_are(many, weights / 10)
    frequencies_are(one, weights / 10)
    frequencies_are(two[:, 0], weights / 10)
    assert (two[:, 0] != two[:, 1]).all()
    p = (weights / 10).double()
    second = sum(p[i] * torch.where(torch.arange(7) == i, 0.0, p) / (1 - p[i]) for i in range(7))
    frequencies_are(two[:, 1], second)


def test_rejection(connection) -> None:
    shapes = (0.3, 1.0, 7.5)
    rates = (0.5, 9.0, 10.0, 250.0)
    trials = ((20.0, 0.1), (300.0, 0.4), (300.0, 0.9), (5.0, 0.7))

    def fn(shape, rate, count, p):
        return torch._standard_gamma(shape), torch._sample_dirichlet(shape.T), torch.poisson(rate), torch.binomial(count, p)

    rows = [torch.tensor(each).unsqueeze(1).expand(-1, COUNT).contiguous() for each in (shapes, rates)]
    pairs = [torch.tensor(each).unsqueeze(1).expand(-1, COUNT).contiguous() for each in zip(*trials, strict=True)]
    gamma, dirichlet, poisson, binomial = drawn(fn, *rows, *pairs)
    for sample, shape in zip(gamma, shapes, strict=True):
        kolmogorov(sample, lambda x, shape=shape: torch.special.gammainc(torch.tensor(shape, dtype=torch.float64), x))
    torch.testing.assert_close(dirichlet.sum(1), torch.ones(COUNT))
    total = sum(shapes)
    for sample, shape in zip(dirichlet.T, shapes, strict=True):
        share = shape / total
        mean_is(sample, share, share * (1 - share) / (total + 1))
    for sample, rate in zip(poisson, rates, strict=True):
        top = int(rate + 8 * math.sqrt(rate) + 8)
        k = torch.arange(top, dtype=torch.float64)
        _discrete(sample, (k * math.log(rate) - rate - torch.lgamma(k + 1)).exp())
    for sample, (n, p) in zip(binomial, trials, strict=True):
        k = torch.arange(n + 1, dtype=torch.float64)
        ways = torch.lgamma(torch.tensor(n + 1.0).double()) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
        _discrete(sample, (ways + k * math.log(p) + (n - k) * math.log1p(-p)).exp())


def _discrete(sample: torch.Tensor, expected: torch.Tensor) -> None:
    """Chi-squared over values with enough expected counts; the others are taken together."""
    assert torch.equal(sample, sample.round()) and sample.min() >= 0 and sample.max() < len(expected)
    common = expected * sample.numel() >= 10
    merged = torch.where(common, common.cumsum(0), 0)
    weights = torch.zeros(int(common.sum()) + 1, dtype=torch.float64).index_add(0, merged, expected)
    frequencies_are(merged[sample.long()], weights)


def test_seeds(connection) -> None:
    call = compiled(lambda x: torch.rand_like(x) + torch.rand_like(x) * 0)
    x = torch.zeros(1000)
    torch.manual_seed(5)
    first, second = call(x), call(x)
    torch.manual_seed(5)
    again = call(x), call(x)
    assert torch.equal(first, again[0]) and torch.equal(second, again[1])
    assert not torch.equal(first, second)
    uncorrelated(first, second)
    torch.manual_seed(6)
    assert not torch.equal(call(x), first)
    # Compiled anew, the same seed gives the same numbers.
    torch.manual_seed(5)
    assert torch.equal(compiled(lambda x: torch.rand_like(x) + torch.rand_like(x) * 0)(x), first)


def test_a_longer_tensor_begins_with_the_same_numbers(connection) -> None:
    """What an element gets depends on its position only, so that a padded tensor can have the same numbers."""
    for fn in (torch.rand, torch.randn):
        short, long = (drawn(lambda n=n, fn=fn: fn(n), seed=3) for n in (7, 1000))
        assert torch.equal(long[:7], short)
    short, long = (drawn(lambda n=n: torch.randint(0, 10, (n, 3)), seed=3) for n in (5, 300))
    assert torch.equal(long[:5], short)


def test_the_generator_moves_on(connection) -> None:
    call = compiled(lambda x: F.dropout(x, 0.5))
    torch.manual_seed(0)
    before = torch.get_rng_state()
    call(torch.ones(4))
    assert not torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng():
        inside = call(torch.ones(1000))
    assert torch.equal(call(torch.ones(1000)), inside)


def test_a_generator_argument_is_honoured(connection) -> None:
    """Dynamo leaves such calls to eager PyTorch."""
    generator = torch.Generator().manual_seed(3)
    torch._dynamo.reset()
    call = torch.compile(lambda x: x + torch.rand(5, generator=generator), backend="tpud")
    got = call(torch.zeros(5)), call(torch.zeros(5))
    generator.manual_seed(3)
    assert torch.equal(got[0], torch.rand(5, generator=generator))
    assert torch.equal(got[1], torch.rand(5, generator=generator))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_forward_and_backward_drop_the_same(connection, dtype) -> None:
    x = torch.randn(400, 500).to(dtype).requires_grad_()
    y = drawn(lambda x: F.dropout(x, 0.3), x)
    kept = y != 0
    frequencies_are(kept.long(), torch.tensor([0.3, 0.7]))
    scale = torch.tensor(1 / 0.7)
    torch.testing.assert_close(y, torch.where(kept, x.float() * scale, 0.0).to(dtype), rtol=0, atol=0)
    upstream = torch.randn_like(y)
    y.backward(upstream)
    expected = torch.where(kept, upstream.float() * scale, 0.0).to(dtype)
    torch.testing.assert_close(x.grad, expected)


def test_every_layer_and_every_call_has_its_own_mask(connection) -> None:
    x = torch.ones(100, 100)
    call = compiled(lambda x: (F.dropout(x, 0.5), F.dropout(x, 0.5), F.dropout2d(x.view(10, 10, 10, 10), 0.5)))
    torch.manual_seed(0)
    one, two, channels = call(x)
    later, _, _ = call(x)
    uncorrelated(one, two)
    uncorrelated(one, later)
    assert ((channels == 0).flatten(2).float().mean(-1).unique().tolist()) == [0.0, 1.0]


def replaying(gm, inputs):
    """A backend with torch's own partitioner, which replays random numbers in the backward graph; ours saves them."""
    compilers = {
        f"{name}_compiler": functools.partial(compile_graph, options=Options(fallback="error")) for name in ("fw", "bw")
    }
    return aot_autograd(**compilers, decompositions=decompositions())(gm, inputs)


@pytest.mark.parametrize("backend", ["tpud", replaying])
def test_checkpointing_draws_the_same_again(connection, backend) -> None:
    def region(x):
        return F.dropout(x, 0.5).exp() * torch.rand_like(x) + torch.bernoulli(torch.full_like(x, 0.5)) * x

    def fn(x):
        return checkpoint(region, x, use_reentrant=False)

    x = torch.randn(50, 40, requires_grad=True)
    torch.manual_seed(0)
    torch._dynamo.reset()
    y, _ = torch.compile(lambda x: (lambda y: (y, y.sin()))(fn(x)), backend=backend)(x)
    y.sum().backward()
    # Linear in the drawn numbers: y = exp(2mx) u + bx, so that dy/dx = 2m exp(2mx) u + b is one of these.
    with torch.no_grad():
        candidates = [(2 * m * (y - b * x) + b) for m in (0, 1) for b in (0, 1)]
    distance = torch.stack([(x.grad - each).abs() / (1 + each.abs()) for each in candidates])
    assert distance.min(0).values.max() < 1e-5
    chosen = distance.argmin(0)
    frequencies_are(chosen, torch.full((4,), 0.25))


def test_an_unused_random_op_is_dropped(connection) -> None:
    """Nothing is drawn for it, so torch's generator stays where it is."""

    def fn(x):
        torch.rand(3)
        return x + 1

    before = torch.get_rng_state()
    assert torch.equal(compiled(fn)(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.equal(torch.get_rng_state(), before)


PROGRAM = """
import hashlib
import torch, tpud

torch.manual_seed(11)
call = torch.compile(lambda x: (torch.rand_like(x), torch.randn(50), torch.nn.functional.dropout(x, 0.4),
                                torch.randint(0, 9, (30,)), torch.poisson(x * 4)), backend="tpud", options={"fallback": "error"})
for _ in range(2):
    print([hashlib.sha256(each.numpy().tobytes()).hexdigest() for each in call(torch.ones(100))])
"""


def test_two_processes_on_two_daemons_draw_the_same() -> None:
    daemons = [Daemon() for _ in range(2)]
    try:
        texts = []
        for daemon in daemons:
            variables = environment(TPUD_ADDRESS=daemon.address)
            done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=variables)
            assert done.returncode == 0, done.stderr
            texts.append(done.stdout)
        assert texts[0] == texts[1]
        first, second = texts[0].splitlines()
        assert first != second
    finally:
        for daemon in daemons:
            daemon.close()
