"""Each family of kernels has a benchmark (and rows and records: `tools/arch.py`)."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "packages" / "core"
KERNELS = CORE / "csrc" / "portable" / "kernels"
FAMILIES = sorted(path.name for path in KERNELS.iterdir() if path.is_dir())
#: Calls whose results are random.
RANDOM = {"uniform", "normal"}


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("suites.families")


def test_each_family_has_a_benchmark(suite: Any) -> None:
    assert sorted(suite.FAMILIES) == FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_a_familys_benchmark_compares_equal_work(suite: Any, family: str) -> None:
    found = importlib.util.find_spec("torch") is not None
    torch = importlib.import_module("torch") if found else None
    for call, contenders in suite.FAMILIES[family](torch).items():
        ours, *theirs = (work().numpy() for work in contenders.values())
        assert ours.size > 0
        for peer in theirs:
            assert peer.shape == ours.shape
            assert peer.dtype == ours.dtype
            if call not in RANDOM:
                atol = 1e-5 * float(np.abs(ours).max())
                np.testing.assert_allclose(peer, ours, rtol=1e-5, atol=atol)
