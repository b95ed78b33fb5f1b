"""Copies and changes of element type."""

import torch

from tests.conformance.harness import FLOATS, INTS, S, case, rand, special

DTYPES = (*FLOATS, *INTS, torch.bool, torch.complex64)


def casts():
    for source in DTYPES:
        for target in DTYPES:
            if source.is_complex and not target.is_complex and target != torch.bool:
                continue
            high = 100.0 if target != torch.bool else 1.0
            yield source, target, rand(9, dtype=source, low=-high, high=high)
    for target in FLOATS:
        yield torch.float32, target, special()
        yield torch.float64, target, special(torch.float64)
    for target in INTS:
        yield torch.int64, target, special(torch.int64)
        yield torch.int32, target, special(torch.int32)
    yield torch.float32, torch.bool, special()
    yield torch.bfloat16, torch.float8_e4m3fn, rand(9, dtype=torch.bfloat16)
    beyond = torch.tensor([448.0, 456.0, 464.5, 480.0, 1e6, -470.0, float("inf"), float("-inf"), float("nan"), -0.0, 2.0**-10])
    for source in FLOATS:
        yield source, torch.float8_e4m3fn, beyond.to(source)
    yield torch.float32, torch.float64, rand()
    yield torch.float32, torch.int64, rand(0, 3)


def to_copy():
    for _, target, x in casts():
        yield S(x, dtype=target)
    yield S(rand(3))


def to_dtype():
    for source, target in ((torch.float32, torch.int64), (torch.int64, torch.bool), (torch.bool, torch.bfloat16)):
        yield S(rand(5, dtype=source), target)
    yield S(rand(5), torch.float32)


def same():
    for dtype in DTYPES:
        yield S(rand(2, 3, dtype=dtype))
    yield S(special())
    yield S(rand())
    yield S(rand(0))
    yield S(rand(3, 4).t())


def copies():
    yield S(rand(3, 4), rand(3, 4))
    yield S(rand(3, 4), rand(4, dtype=torch.int64))
    yield S(rand(3, 4, dtype=torch.int64), rand(3, 1))
    yield S(rand(2, dtype=torch.bfloat16), rand())
    yield S(rand(0, 2), rand(2))
    yield S(rand(3, dtype=torch.bool), special()[:3])


def views():
    for source, target in (
        (torch.float32, torch.int32),
        (torch.int32, torch.float32),
        (torch.bfloat16, torch.int16),
        (torch.float64, torch.int64),
        (torch.int8, torch.uint8),
        (torch.float32, torch.uint8),
        (torch.float64, torch.int32),
        (torch.uint8, torch.int32),
        (torch.int16, torch.float64),
        (torch.bool, torch.uint8),
        (torch.bool, torch.int32),
    ):
        x = rand(2, 8, dtype=source, high=1.0 if source == torch.bool else 100.0)
        yield S(x, target)
    yield S(special(), torch.int32)
    yield S(rand(0, 4), torch.uint8)
    yield S(torch.tensor([0, 1, 1], dtype=torch.uint8), torch.bool)


IDENTITIES = ("clone", "alias", "detach", "lift_fresh", "lift_fresh_copy", "contiguous")

CASES = [
    case("aten._to_copy.default", to_copy, rtol=0, atol=0),
    case("aten.to.dtype", to_dtype),
    *(case(f"aten.{op}.default", same) for op in IDENTITIES),
    case("aten.copy.default", copies),
    case("aten.view.dtype", views),
]
