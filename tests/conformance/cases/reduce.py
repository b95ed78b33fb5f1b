"""Reductions."""

import torch

from tests.conformance.harness import FLOATS, S, case, rand, special

NUMBERS = (*FLOATS, torch.int64, torch.int32, torch.uint8)


def whole(dtypes=(*NUMBERS, torch.bool), empty=True):
    def samples():
        for dtype in dtypes:
            yield S(rand(3, 4, dtype=dtype))
        yield S(rand(dtype=dtypes[0]))
        if empty:
            yield S(rand(0, 3, dtype=dtypes[0]))

    return samples


def over_dims(dtypes=NUMBERS, single=False, empty=True, **more):
    def samples():
        for dtype in dtypes:
            yield S(rand(3, 4, 2, dtype=dtype), 1 if single else [1], **more)
        yield S(rand(3, 4, 2, dtype=dtypes[0]), -1 if single else [0, -1], True, **more)
        yield S(rand(dtype=dtypes[0]), 0 if single else [0], **more)
        if empty:
            yield S(rand(3, 0, dtype=dtypes[0]), 1 if single else [1], **more)
        if not single:
            yield S(rand(3, 4, dtype=dtypes[0]), [], **more)

    return samples


def sums():
    yield from over_dims((*NUMBERS, torch.bool))()
    yield S(rand(3, 4), None)
    yield S(rand(3, 4, dtype=torch.bfloat16), [1], dtype=torch.float32)
    yield S(special(), [0])
    yield S(torch.full((4,), 2**62, dtype=torch.int64), [0])


def means():
    yield from over_dims(FLOATS)()
    yield S(rand(3, 4, dtype=torch.int64), [1], dtype=torch.float32)
    yield S(rand(64, 64, dtype=torch.bfloat16), None)


def logical():
    for dtype in (torch.bool, torch.float32, torch.int64, torch.uint8):
        yield S(rand(3, 4, dtype=dtype, low=0, high=1), 1)
    yield S(rand(3, 0, dtype=torch.bool), 1, True)
    yield S(torch.tensor([[float("nan"), 0.0], [0.0, 0.0]]), -1)
    yield S(rand(dtype=torch.bool), 0)


def extremes():
    yield from over_dims((*NUMBERS, torch.bool), empty=False)()
    yield S(torch.tensor([[1.0, float("nan")], [float("-inf"), 2.0]]), [1])
    yield S(torch.tensor([1.0, float("nan"), 3.0, -3.0]), [0])


def arg():
    for dtype in (*FLOATS, torch.int64, torch.uint8):
        yield S(rand(3, 4, dtype=dtype), 1)
    yield S(rand(3, 4), None)
    yield S(torch.tensor([[1.0, 3.0, 3.0], [float("nan"), 1.0, float("nan")], [float("-inf")] * 3, [float("inf")] * 3]), 1, True)
    yield S(rand(), None)
    yield S(rand(), 0)
    yield S(torch.zeros(2, 5, dtype=torch.int32), -1)


def arg_with_bool():
    yield from (s for s in arg() if s.args[1] is not None)
    yield S(rand(3, 4, dtype=torch.bool), 1)


def correction():
    for dtype in FLOATS:
        yield S(rand(3, 8, dtype=dtype), [1])
    yield S(rand(3, 8), None, correction=0)
    yield S(rand(3, 8), [0, 1], correction=2, keepdim=True)
    yield S(rand(3, 1), [1])
    yield S(rand(3, 0), [1])
    yield S(rand(3, 4) + 1e4, [-1])
    yield S(rand(3, 8, dtype=torch.complex64), [1])
    yield S(rand(3, 8, dtype=torch.complex128), None, correction=0)
    yield S(rand(3, 0, dtype=torch.complex64), [1])


def vector_norm():
    for dtype in (*FLOATS, torch.complex64):
        yield S(rand(3, 4, dtype=dtype))
    for ord in (0, 1, 2, 3, 0.5, -1, float("inf"), float("-inf")):
        yield S(rand(3, 4), ord, [1])
    yield S(rand(3, 4, dtype=torch.bfloat16), 2, [1], True, dtype=torch.float32)
    yield S(rand(0, 4), 2)


def logsumexp():
    for dtype in FLOATS:
        yield S(rand(3, 4, dtype=dtype), [1])
    inf = float("inf")
    yield S(torch.tensor([[-inf, -inf], [inf, 1.0], [inf, -inf], [float("nan"), 1.0], [200.0, 200.0]]), [1], True)
    yield S(rand(), [0])


def count_nonzero_dims():
    yield S(rand(3, 4, dtype=torch.int64, low=0, high=1), [1])
    yield S(special(), [0])
    yield S(rand(3, 4, dtype=torch.bool), [0, 1])


def nansum():
    yield S(torch.tensor([[float("nan"), 1.0], [2.0, float("nan")]]), [1])
    yield S(rand(3, 4, dtype=torch.bfloat16), None)


CASES = [
    case("aten.sum.default", whole()),
    case("aten.sum.dim_IntList", sums),
    case("aten.mean.default", whole(FLOATS)),
    case("aten.mean.dim", means),
    case("aten.nansum.default", nansum),
    case("aten.prod.default", whole()),
    case("aten.prod.dim_int", over_dims((*NUMBERS, torch.bool), single=True)),
    case("aten.amax.default", extremes),
    case("aten.amin.default", extremes),
    case("aten.aminmax.default", whole(NUMBERS, empty=False)),
    case("aten.max.default", whole(empty=False)),
    case("aten.min.default", whole(empty=False)),
    case("aten.max.dim", arg_with_bool),
    case("aten.min.dim", arg_with_bool),
    case("aten.argmax.default", arg),
    case("aten.argmin.default", arg),
    case("aten.all.default", whole()),
    case("aten.all.dim", logical),
    case("aten.all.dims", over_dims((torch.bool, torch.int64))),
    case("aten.any.default", whole()),
    case("aten.any.dim", logical),
    case("aten.any.dims", over_dims((torch.bool, torch.int64))),
    case("aten._is_all_true.default", whole((torch.bool,))),
    case("aten._is_any_true.default", whole((torch.bool,))),
    case("aten.count_nonzero.default", whole()),
    case("aten.count_nonzero.dim_IntList", count_nonzero_dims),
    case("aten.linalg_vector_norm.default", vector_norm),
    case("aten.logsumexp.default", logsumexp),
    case("aten.var.correction", correction),
    case("aten.std.correction", correction),
    case("aten.var_mean.correction", correction),
    case("aten.std_mean.correction", correction),
]
