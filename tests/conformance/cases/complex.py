"""Complex numbers."""

import torch

from tests.conformance.harness import S, case, rand, special


def parts():
    for dtype in (torch.float32, torch.float64):
        yield S(rand(3, 4, dtype=dtype), rand(3, 4, dtype=dtype))
    yield S(rand(3, 1), rand(4))
    yield S(rand(), rand())
    yield S(rand(0), rand(0))


def numbers():
    for dtype in (torch.complex64, torch.complex128):
        yield S(rand(3, 4, dtype=dtype))
    yield S(rand(dtype=torch.complex64))
    yield S(rand(0, 2, dtype=torch.complex64))
    yield S(torch.complex(special().unsqueeze(1), special()))


def with_reals():
    yield from numbers()
    yield S(rand(3))
    yield S(special())


def angles():
    yield from with_reals()
    yield S(rand(4, dtype=torch.int64))
    yield S(rand(4, dtype=torch.bfloat16))
    yield S(rand(4, dtype=torch.bool))


def pairs():
    for dtype in (torch.float32, torch.float64):
        yield S(rand(3, 4, 2, dtype=dtype))
    yield S(rand(2))
    yield S(rand(0, 2))


CASES = [
    case("aten.complex.default", parts),
    case("aten.polar.default", parts),
    case("aten.real.default", with_reals),
    case("aten.imag.default", numbers),
    case("aten.view_as_real.default", numbers),
    case("aten.view_as_complex.default", pairs),
    case("aten.angle.default", angles),
    *(case(f"aten.{op}.default", numbers) for op in ("_conj", "_conj_physical", "conj_physical", "resolve_conj", "resolve_neg")),
    case("aten._neg_view.default", with_reals),
]
