"""Bags of embeddings."""

import torch

from tests.conformance.harness import S, case, rand


def bags():
    indices = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9])
    for mode in (0, 1, 2):
        yield S(rand(10, 3), indices, torch.tensor([0, 3, 8]), False, mode, False, None, True, -1)
    yield from plain_bags()


def plain_bags():
    indices, offsets = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4, 4])
    for mode in (0, 1, 2):
        for padding in (-1, 4):
            yield S(rand(10, 3), indices, offsets, False, mode, False, None, False, padding)
        yield S(rand(10, 3), torch.tensor([4, 4, 1]), torch.tensor([0, 2]), False, mode, False, None, False, 4)
    yield S(rand(10, 3), indices, offsets, False, 0, False, rand(8), False, 4)
    yield S(rand(10, 3, dtype=torch.float64), indices.int(), offsets.int(), False, 1)
    yield S(rand(10, 1, low=1, high=1), indices, offsets, False, 2)


CASES = [
    case("aten._embedding_bag.default", bags),
    # With include_last_offset its meta function gives another size than its kernel.
    case("aten._embedding_bag_forward_only.default", plain_bags),
]
