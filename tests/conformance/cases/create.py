"""Tensors from nothing."""

import torch

from tests.conformance.harness import FLOATS, INTS, S, case, rand

UNINITIALISED = "torch leaves the memory uninitialised"


def full():
    yield S([2, 3], 1.5)
    yield S([2, 3], 7)
    yield S([], True)
    yield S([0, 2], 1.0)
    yield S([2], 1 + 2j)
    for dtype in (*FLOATS, *INTS, torch.bool):
        yield S([3], 1, dtype=dtype)
    yield S([2], float("-inf"), dtype=torch.bfloat16)
    yield S([2], 2**40 + 1, dtype=torch.int64)


def full_like():
    for dtype in (*FLOATS, *INTS, torch.bool):
        yield S(rand(2, 3, dtype=dtype), 1)
    yield S(rand(2, 3), float("nan"))
    yield S(rand(2, 3), 5, dtype=torch.int64)
    yield S(rand(), -1.5)


def new_full():
    yield S(rand(1), [2, 3], 1.5)
    yield S(rand(1, dtype=torch.int64), [2], 3)
    yield S(rand(1), [2], 3, dtype=torch.int32)


def fill():
    yield S(rand(2, 3), 1.5)
    yield S(rand(2, 3, dtype=torch.int64), 3)
    yield S(rand(2, dtype=torch.bool), True)


def fill_tensor():
    yield S(rand(2, 3), rand())
    yield S(rand(2, dtype=torch.int64), torch.tensor(3))
    yield S(rand(2, dtype=torch.bfloat16), torch.tensor(1.25))


def sizes():
    for dtype in (*FLOATS, torch.int64, torch.bool):
        yield S([2, 3], dtype=dtype)
    yield S([])
    yield S([0, 3])


def like():
    for dtype in (*FLOATS, torch.int64, torch.bool):
        yield S(rand(2, 3, dtype=dtype))
    yield S(rand(), dtype=torch.int32)


def new():
    yield S(rand(1, dtype=torch.float64), [2, 3])
    yield S(rand(1), [], dtype=torch.int64)
    yield S(rand(1), [0, 4])


def strided():
    yield S([2, 3], [3, 1])
    yield S([2, 3], [1, 2], dtype=torch.int64)


def arange_step():
    for dtype in (*FLOATS, *INTS):
        yield S(2, 20, 3, dtype=dtype)
    yield S(0, 10)
    yield S(0, 1, 0.1)
    yield S(-1.5, 4, 0.37)
    yield S(0.5, 300, 0.1)
    yield S(10, -5, -4)
    yield S(5, 0.5, -0.25)
    yield S(2**40, 2**40 + 5)
    yield S(0, 0)
    yield S(0, 5, 1, dtype=torch.float64)
    yield S(0, 3, 0.25, dtype=torch.bfloat16)
    yield S(0, 3, 0.1, dtype=torch.float64)
    yield S(2**25, 2**25 + 9, 1, dtype=torch.float32)


def arange_start():
    yield S(2, 7)
    yield S(0.5, 4.5)
    yield S(3, 9, dtype=torch.float32)
    yield S(-4, 3, dtype=torch.int32)


def arange():
    yield S(7)
    yield S(4.5)
    yield S(5, dtype=torch.bfloat16)
    yield S(0)


def linspace():
    for dtype in FLOATS:
        yield S(-1, 1, 7, dtype=dtype)
    yield S(0, 1, 64)
    yield S(5.0, -3.0, 10)
    yield S(1.0, 2.0, 1)
    yield S(1.0, 2.0, 0)
    yield S(0, 10, 7, dtype=torch.int64)
    yield S(4.3, 50, 50, dtype=torch.int64)
    yield S(-2.7, 1, 50, dtype=torch.int64)
    yield S(-5, 9, 4, dtype=torch.int32)
    yield S(1 + 2j, -3 + 1j, 7, dtype=torch.complex64)
    yield S(1j, 2, 4, dtype=torch.complex128)


def linspace_tensors(first, second):
    def samples():
        for start, end, steps in ((0.0, 1.0, 5), (3.0, -1.0, 8), (2.0, 2.0, 1)):
            yield S(torch.tensor(start) if first else start, torch.tensor(end) if second else end, steps)
        yield S(torch.tensor(1 + 2j) if first else 1 + 2j, torch.tensor(-2j) if second else -2j, 6, dtype=torch.complex64)

    return samples


def logspace():
    yield S(0, 2, 5)
    yield S(-1, 1, 4, 2.0)
    yield S(0, 3, 4, dtype=torch.float64)
    yield S(1.0, 2.0, 1)


def triangle():
    for row, col in ((3, 3), (4, 2), (2, 5), (0, 3), (3, 0)):
        for offset in (-2, 0, 1):
            yield S(row, col, offset)
    yield S(3, 3, dtype=torch.int32)


CASES = [
    case("aten.full.default", full),
    case("aten.full_like.default", full_like),
    case("aten.new_full.default", new_full),
    case("aten.fill.Scalar", fill),
    case("aten.fill.Tensor", fill_tensor),
    case("aten.scalar_tensor.default", lambda: [S(1.5), S(3), S(True), S(2, dtype=torch.bfloat16), S(1, dtype=torch.int64)]),
    case("aten.zeros.default", sizes),
    case("aten.zeros_like.default", like),
    case("aten.new_zeros.default", new),
    case("aten.zero.default", lambda: [S(rand(2, 3)), S(rand(2, dtype=torch.int64))]),
    case("aten.empty.memory_format", sizes, values_undefined=UNINITIALISED),
    case("aten.empty_like.default", like, values_undefined=UNINITIALISED),
    case("aten.empty_strided.default", strided, values_undefined=UNINITIALISED),
    case("aten.empty_permuted.default", lambda: [S([2, 3], [1, 0]), S([2], [0], dtype=torch.int64)], values_undefined=UNINITIALISED),
    case("aten.new_empty.default", new, values_undefined=UNINITIALISED),
    case("aten.new_empty_strided.default", lambda: [S(rand(1), [2, 3], [1, 2])], values_undefined=UNINITIALISED),
    case("aten.ones.default", sizes),
    case("aten.ones_like.default", like),
    case("aten.new_ones.default", new),
    case("aten.arange.default", arange),
    case("aten.arange.start", arange_start),
    case("aten.arange.start_step", arange_step),
    case("aten.linspace.default", linspace),
    case("aten.linspace.Tensor_Tensor", linspace_tensors(True, True)),
    case("aten.linspace.Tensor_Scalar", linspace_tensors(True, False)),
    case("aten.linspace.Scalar_Tensor", linspace_tensors(False, True)),
    case("aten.logspace.default", logspace),
    case("aten.eye.default", lambda: [S(3), S(3, dtype=torch.bool), S(0), S(2, dtype=torch.int64)]),
    case("aten.eye.m", lambda: [S(3, 5), S(4, 2, dtype=torch.bfloat16), S(3, 0)]),
    case("aten.tril_indices.default", triangle),
    case("aten.triu_indices.default", triangle),
]
