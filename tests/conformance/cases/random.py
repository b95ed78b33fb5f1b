"""Random ops: shapes, dtypes and what is exact about them. Their distributions are tested in tests/e2e/test_random.py."""

import torch

from tests.conformance.harness import FLOATS, INTS, S, case, rand

DRAWN = "the values are drawn: only their distribution is eager's"
KINDS = (*FLOATS, torch.complex64)
GENERATOR = {"generator": None}

# What activation checkpointing saves and reads instead of torch's own state; never an op in PyTorch.
torch.library.define("tpud::save_rng_state", "(Tensor seed, int stream) -> Tensor")
torch.library.define("tpud::load_rng_state", "(Tensor state) -> Tensor")


def save_rng_state(seed, stream):
    first, second = seed.view(torch.int64).unbind()
    return torch.nn.functional.pad(torch.stack([first, second + stream]).view(torch.uint8), (0, 5056 - 16))


def load_rng_state(state):
    return state[:16].clone().view(torch.uint64)


torch.library.impl("tpud::save_rng_state", "CompositeExplicitAutograd", save_rng_state)
torch.library.impl("tpud::load_rng_state", "CompositeExplicitAutograd", load_rng_state)


def words(*values):
    return torch.tensor(values, dtype=torch.int64).view(torch.uint64)


def sized(dtypes=KINDS, *leading, **more):
    def samples():
        for dtype in dtypes:
            yield S(*leading, [3, 5], dtype=dtype, **more)
        yield S(*leading, [], **more)
        yield S(*leading, [0, 4], **more)

    return samples


def like(dtypes=KINDS, *rest, **more):
    def samples():
        for dtype in dtypes:
            yield S(rand(3, 5, dtype=dtype), *rest, **more)
        yield S(rand(), *rest, **more)
        yield S(rand(0, 4), *rest, **more)

    return samples


def retyped(base, *rest, **more):
    def samples():
        yield from base()
        yield S(rand(4, dtype=torch.int64), *rest, dtype=torch.bfloat16, **more)

    return samples


def uniform():
    yield from like(FLOATS)()
    for dtype in FLOATS:
        yield S(rand(3, 5, dtype=dtype), -2.0, 7.5)


def uniform_point():
    yield S(rand(3, 5), 2.5, 2.5)


def tensor_float():
    for dtype in FLOATS:
        yield S(rand(3, 5, dtype=dtype), 0.5)
    yield S(rand(0, 2))
    yield S(rand())


def certain_normal():
    """No deviation: the mean itself."""
    yield S(rand(3, 5), 0.0)
    yield S(rand(7, dtype=torch.bfloat16), 0.0)


def float_tensor():
    for dtype in FLOATS:
        yield S(-1.0, rand(3, 5, dtype=dtype, low=0.0))


def tensor_tensor():
    for dtype in FLOATS:
        yield S(rand(3, 5, dtype=dtype), rand(3, 5, dtype=dtype, low=0.0))
    yield S(rand(3, 1), rand(1, 4, low=0.0))


def p_numbers():
    for dtype in (*FLOATS, *INTS, torch.bool):
        yield S(rand(3, 5, dtype=dtype), 0.3)
    yield S(rand(0, 4), 0.5)


def p_certain():
    for p in (0.0, 1.0):
        yield S(rand(100), p)
        yield S(rand(3, 5, dtype=torch.int64), p)


def probabilities():
    for dtype in FLOATS:
        yield S(torch.tensor([0.0, 1.0] * 500).to(dtype))
    yield S(rand(0, 4, low=0.0))
    yield S(torch.tensor(1.0))


def probabilities_of():
    for dtype in (torch.float32, torch.int64, torch.bool):
        yield S(rand(2, 1000, dtype=dtype), torch.tensor([0.0, 1.0] * 500).expand(2, 1000))
    yield S(rand(3, 4), torch.tensor(1.0))


def dropout_certain():
    for dtype in FLOATS:
        yield S(rand(3, 50, dtype=dtype), 0.0, True)
        yield S(rand(3, 50, dtype=dtype), 0.7, False)
        yield S(rand(3, 50, dtype=dtype), 1.0, True)
    yield S(rand(3), 0.0, None)
    yield S(torch.tensor([float("nan"), float("inf"), 1.0]), 1.0, True)


def one_integer():
    for dtype in (*INTS, *FLOATS):
        yield S(7, 8, [3, 5], dtype=dtype)
    yield S(-(2**63), -(2**63) + 1, [4])
    yield S(0, 1, [0, 3])


def one_high():
    for dtype in (torch.int64, torch.float32, torch.bool):
        yield S(1, [3, 5], dtype=dtype)


def one_like(*bounds):
    def samples():
        for dtype in (torch.int64, torch.int8, torch.float32, torch.bfloat16):
            yield S(rand(3, 5, dtype=dtype), *bounds)

    return samples


def one_like_tensor():
    yield S(rand(3, 5, dtype=torch.int64), torch.tensor(1))
    yield S(rand(3, 5), torch.tensor(1))


def random():
    for dtype in (*INTS, *FLOATS, torch.bool):
        yield S(rand(3, 5, dtype=dtype))


def random_to():
    for dtype in (*INTS, *FLOATS):
        yield S(rand(3, 5, dtype=dtype), 1)


def permutation():
    for dtype in (torch.int64, torch.int32, torch.float32, torch.bfloat16):
        yield S(1, dtype=dtype)
        yield S(0, dtype=dtype)


def only_category():
    for dtype in FLOATS:
        weights = torch.zeros(3, 9, dtype=dtype)
        weights[0, 2], weights[1, 0], weights[2, 8] = 0.1, 5.0, 1.0
        yield S(weights, 1)
        yield S(weights, 1, True)
        yield S(weights, 20, True)
    yield S(torch.tensor([0.0, 3.0, 0.0]), 7, True)
    yield S(torch.tensor([1e-30, 0.0, 0.0]), 1)


def positive(dtypes=(torch.float32, torch.float64)):
    def samples():
        for dtype in dtypes:
            yield S(rand(3, 5, dtype=dtype, low=0.2))
        yield S(rand(0, 4, low=0.2))

    return samples


def rates():
    for dtype in (*FLOATS,):
        yield S(torch.zeros(3, 5, dtype=dtype))
    yield S(torch.zeros(()))


def trials():
    for dtype in (torch.float32, torch.float64):
        count = torch.tensor([0.0, 3.0, 100.0, 5.0], dtype=dtype)
        yield S(count, torch.tensor([0.5, 1.0, 1.0, 0.0], dtype=dtype))
    yield S(torch.tensor(50.0), torch.tensor(1.0))


def rrelu_certain():
    """One slope only, or no training. Eager has no kernel for f16."""
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        yield S(rand(3, 5, dtype=dtype), torch.zeros(3, 5, dtype=dtype), 0.25, 0.25, True)
        yield S(rand(3, 5, dtype=dtype), rand(3, 5, dtype=dtype), 0.125, 0.25, False)
    yield S(torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf")]), torch.zeros(5), 0.5, 0.5, True)


CASES = [
    case("aten.rand.default", sized(), values_undefined=DRAWN),
    case("aten.rand.generator", sized(**GENERATOR), values_undefined=DRAWN),
    case("aten.rand_like.default", retyped(like()), values_undefined=DRAWN),
    case("aten.rand_like.generator", like(**GENERATOR), values_undefined=DRAWN),
    case("aten.uniform.default", uniform, values_undefined=DRAWN),
    case("aten.uniform.default", uniform_point),
    case("aten.randn.default", sized(), values_undefined=DRAWN),
    case("aten.randn.generator", sized(**GENERATOR), values_undefined=DRAWN),
    case("aten.randn_like.default", retyped(like()), values_undefined=DRAWN),
    case("aten.randn_like.generator", like(**GENERATOR), values_undefined=DRAWN),
    case("aten.normal.Tensor_float", tensor_float, values_undefined=DRAWN),
    case("aten.normal.Tensor_float", certain_normal),
    case("aten.normal.float_Tensor", float_tensor, values_undefined=DRAWN),
    case("aten.normal.Tensor_Tensor", tensor_tensor, values_undefined=DRAWN),
    case("aten.normal.float_float", sized(FLOATS, 1.0, 2.0), values_undefined=DRAWN),
    case("aten.normal_functional.default", like(FLOATS, 1.0, 2.0), values_undefined=DRAWN),
    case("aten.log_normal.default", like(FLOATS, 1.0, 0.5), values_undefined=DRAWN),
    case("aten.exponential.default", like(FLOATS, 2.0), values_undefined=DRAWN),
    case("aten.geometric.default", like((*FLOATS, *INTS), 0.5), values_undefined=DRAWN),
    case("aten.cauchy.default", like(FLOATS, 1.0, 2.0), values_undefined=DRAWN),
    case("aten.rrelu_with_noise_functional.default", rrelu_certain),
    case("aten.bernoulli.default", probabilities),
    case("aten.bernoulli.Tensor", probabilities_of),
    case("aten.bernoulli.p", p_numbers, values_undefined=DRAWN),
    case("aten.bernoulli.p", p_certain),
    case("aten.native_dropout.default", dropout_certain),
    case("aten.randint.default", one_high),
    case("aten.randint.generator", sized((torch.int64, torch.float32), 1, **GENERATOR)),
    case("aten.randint.low", one_integer),
    case("aten.randint.low_generator", sized((torch.int64, torch.float32), 4, 5, **GENERATOR)),
    case("aten.randint_like.default", one_like(1)),
    case("aten.randint_like.generator", like((torch.int64, torch.float32), 1, **GENERATOR)),
    case("aten.randint_like.low_dtype", one_like(-4, -3)),
    case("aten.randint_like.low_generator_dtype", like((torch.int64, torch.float32), 4, 5, **GENERATOR)),
    case("aten.randint_like.Tensor", one_like_tensor),
    case("aten.random.default", random, values_undefined=DRAWN),
    case("aten.random.to", random_to),
    case("aten.randperm.default", permutation),
    case("aten.randperm.generator", lambda: [S(1, **GENERATOR), S(0, **GENERATOR)]),
    case("aten.multinomial.default", only_category),
    case("aten._standard_gamma.default", positive(), values_undefined=DRAWN),
    case("aten._sample_dirichlet.default", positive(), values_undefined=DRAWN),
    case("aten.poisson.default", rates),
    case("aten.binomial.default", trials),
    case("tpud.save_rng_state.default", lambda: [S(words(5, 7), 3), S(words(-1, -1), 2)]),
    case("tpud.load_rng_state.default", lambda: [S(save_rng_state(words(5, -7), 3))]),
]
