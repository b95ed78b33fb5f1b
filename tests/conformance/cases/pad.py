"""Padding at the edges."""

import torch

from tests.conformance.harness import S, case, rand, special


def constant():
    yield S(rand(3, 4), [1, 2])
    yield S(rand(3, 4), [1, 0, 0, 2], 1.5)
    yield S(rand(3, 4), [-1, 2, 1, -1], -1)
    yield S(rand(3, 4), [-1, -2])
    yield S(rand(3, 4), [0, 0, 0, 0])
    yield S(rand(0, 4), [1, 1, 1, 1], 2)
    yield S(rand(), [])
    yield S(special(), [1, 1], float("-inf"))
    yield S(rand(3, 4, dtype=torch.bool), [1, 1], True)
    yield S(rand(3, 4, dtype=torch.int64), [1, 1], 2.7)
    yield S(rand(2, 3, dtype=torch.bfloat16), [0, 1], 1)
    yield S(rand(2, 3, dtype=torch.complex64), [0, 1])


def edge(rank):
    def samples():
        ones, mixed = [1] * (2 * rank), [2, 0, 0, 1, 1, 2][: 2 * rank]
        sizes = [4, 5, 3][:rank]
        yield S(rand(2, *sizes), ones)
        yield S(rand(2, 3, *sizes), mixed)
        yield S(rand(2, 1, *sizes), [-1, 2] + [0] * (2 * rank - 2))
        yield S(rand(2, 1, *sizes), [1, -2] + [0] * (2 * rank - 2))
        yield S(rand(1, *sizes, dtype=torch.bfloat16), mixed)
        yield S(rand(0, 2, *sizes), ones)
        yield S(rand(1, *sizes), [0] * (2 * rank))

    return samples


def backward(rank):
    def samples():
        for padding in ([1] * (2 * rank), [2, 0, 0, 1, 1, 2][: 2 * rank]):
            sizes = [4, 5, 3][:rank]
            grown = list(sizes)
            for i in range(rank):
                grown[rank - 1 - i] += padding[2 * i] + padding[2 * i + 1]
            yield S(rand(2, 3, *grown), rand(2, 3, *sizes), padding)
            yield S(rand(2, *grown), rand(2, *sizes), padding)

    return samples


CASES = [case("aten.constant_pad_nd.default", constant)]
for n in (1, 2, 3):
    for name in ("reflection", "replication"):
        CASES.append(case(f"aten.{name}_pad{n}d.default", edge(n)))
        CASES.append(case(f"aten.{name}_pad{n}d_backward.default", backward(n)))
