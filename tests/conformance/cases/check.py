"""Ops that only raise; here nothing is wrong. Where something is: tests/e2e/test_checks.py."""

import torch

from tests.conformance.harness import S, case


def infos():
    yield S(torch.tensor(0, dtype=torch.int32), "linalg.inv", is_matrix=True)
    yield S(torch.zeros(3, dtype=torch.int32), "linalg.cholesky", is_matrix=False)


CASES = [
    case("aten._assert_async.default", lambda: [S(torch.tensor(True))]),
    case("aten._assert_async.msg", lambda: [S(torch.tensor(True), "message")]),
    case("aten._linalg_check_errors.default", infos),
]
