"""Matrix products."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand

DTYPES = (*FLOATS, torch.int64, torch.int32, torch.complex64)


def mm():
    for dtype in DTYPES:
        yield S(rand(3, 4, dtype=dtype), rand(4, 5, dtype=dtype))
    yield S(rand(3, 0), rand(0, 5))
    yield S(rand(0, 4), rand(4, 5))
    yield S(rand(4, 3).t(), rand(5, 4).t())


def bmm():
    for dtype in DTYPES:
        yield S(rand(2, 3, 4, dtype=dtype), rand(2, 4, 5, dtype=dtype))
    yield S(rand(2, 3, 0), rand(2, 0, 5))
    yield S(rand(0, 3, 4), rand(0, 4, 5))


def mv():
    for dtype in FLOATS:
        yield S(rand(3, 4, dtype=dtype), rand(4, dtype=dtype))
    yield S(rand(3, 0), rand(0))


def dot():
    for dtype in (*FLOATS, torch.int64):
        yield S(rand(4, dtype=dtype), rand(4, dtype=dtype))
    yield S(rand(0), rand(0))


def addmm():
    for dtype in FLOATS:
        yield S(rand(5, dtype=dtype), rand(3, 4, dtype=dtype), rand(4, 5, dtype=dtype))
    yield S(rand(3, 5), rand(3, 4), rand(4, 5), beta=0.5, alpha=2)
    yield S(torch.full((5,), torch.nan), rand(3, 4), rand(4, 5), beta=0)
    yield S(rand(5, dtype=torch.int64), rand(3, 4, dtype=torch.int64), rand(4, 5, dtype=torch.int64), beta=2, alpha=-3)
    yield S(rand(3, 1), rand(3, 0), rand(0, 5), beta=2)
    c = torch.complex64
    for factors in ((1 + 2j, 1 - 1j), (2j, 1j), (0, 1j)):
        yield S(rand(5, dtype=c), rand(3, 4, dtype=c), rand(4, 5, dtype=c), beta=factors[0], alpha=factors[1])


def baddbmm():
    for dtype in FLOATS:
        yield S(rand(5, dtype=dtype), rand(2, 3, 4, dtype=dtype), rand(2, 4, 5, dtype=dtype))
    yield S(rand(2, 3, 5), rand(2, 3, 4), rand(2, 4, 5), beta=0.5, alpha=2)
    yield S(torch.full((2, 3, 5), torch.nan), rand(2, 3, 4), rand(2, 4, 5), beta=0)


def addbmm():
    yield S(rand(3, 5), rand(2, 3, 4), rand(2, 4, 5))
    yield S(rand(5), rand(2, 3, 4), rand(2, 4, 5), beta=0.5, alpha=2)
    for dtype in (torch.bfloat16, torch.float16, torch.complex64):
        yield S(rand(3, 5, dtype=dtype), rand(7, 3, 4, dtype=dtype), rand(7, 4, 5, dtype=dtype), beta=0.5, alpha=2)


def addmv():
    yield S(rand(3), rand(3, 4), rand(4))
    yield S(rand(1), rand(3, 4), rand(4), beta=0.5, alpha=2)


CASES = [
    case("aten.mm.default", mm),
    case("aten.bmm.default", bmm),
    case("aten.mv.default", mv),
    case("aten.dot.default", dot),
    case("aten.addmm.default", addmm),
    case("aten.baddbmm.default", baddbmm),
    case("aten.addbmm.default", addbmm),
    case("aten.addmv.default", addmv),
]
