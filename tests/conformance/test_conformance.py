"""Every rule has a case, and every case agrees with eager PyTorch."""

from __future__ import annotations

import importlib
import os
import pkgutil
import zlib

import pytest
import torch

from tests.conformance import cases
from tests.conformance.harness import Case, check, eager, single_op_graph
from tests.conformance.runtimes import DaemonRuntime, JaxRuntime

FAMILIES = sorted(module.name for module in pkgutil.iter_modules(cases.__path__))


def load() -> list[tuple[str, Case]]:
    found = []
    for family in FAMILIES:
        module = importlib.import_module(f"tests.conformance.cases.{family}")
        found += [(family, each) for each in module.CASES]
    return found


@pytest.fixture(scope="session")
def runtime(request):
    if os.environ.get("TPUD_CONFORMANCE") == "jax":
        return JaxRuntime()
    request.getfixturevalue("daemon")
    return DaemonRuntime()


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{family}::{case.op}") for family, case in load()])
def test_agrees_with_eager(case: Case, runtime) -> None:
    torch.manual_seed(zlib.crc32(case.op.encode()))
    samples = list(case.samples())
    assert samples, "a case needs samples"
    for sample in samples:
        expected = eager(case.overload, sample)
        gm, tensors = single_op_graph(case.overload, sample.args, sample.kwargs)
        check(case, sample, runtime.run(gm, tensors), expected)
