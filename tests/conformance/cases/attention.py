"""Attention as torch's CPU kernel computes it, and its gradient."""

import math

import torch

from tests.conformance.harness import S, case, rand

aten = torch.ops.aten
INF = -math.inf


def heads(batch=2, queries=5, keys=7, size=8, q=2, kv=2, dtype=torch.float32):
    return rand(batch, q, queries, size, dtype=dtype), rand(batch, kv, keys, size, dtype=dtype), rand(batch, kv, keys, size, dtype=dtype)


def masks():
    row = torch.zeros(5, 7)
    row[1] = INF
    row[3, 2:] = INF
    yield row
    yield rand(1, 1, 5, 7)
    yield rand(2, 1, 1, 7)
    yield rand(2, 2, 5, 7)


def samples():
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        yield S(*heads(dtype=dtype))
    yield S(*heads(), 0.0, True)
    yield S(*heads(queries=9, keys=4), 0.0, True)
    for mask in masks():
        yield S(*heads(), attn_mask=mask)
    yield S(*heads(dtype=torch.bfloat16), attn_mask=rand(5, 7, dtype=torch.bfloat16))
    yield S(*heads(queries=6, keys=6), 0.0, True, scale=0.3)
    yield S(*(tensor.transpose(1, 2) for tensor in heads(q=3, kv=3, queries=3, keys=3)))
    yield S(*heads(q=6))


def forward():
    yield from samples()
    yield S(*(tensor * 4 for tensor in heads()))


def backward():
    for sample in samples():
        query, key, value, *rest = sample.args
        out, log_sum = aten._scaled_dot_product_flash_attention_for_cpu.default(*sample.args, **sample.kwargs)
        grad = torch.ones_like(out) * rand(out.size(-1), dtype=out.dtype)
        yield S(grad, query, key, value, out, log_sum, *(rest or (0.0, False)), **sample.kwargs)


CASES = [
    case("aten._scaled_dot_product_flash_attention_for_cpu.default", forward),
    case("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", backward),
]
