"""What belongs to a family of kernels is found by the name of its folder."""

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
#: Families of one folder of kernels that have a file of rows for each kind.
ROWS = {"elementwise": ("activation", "binary", "unary")}
#: Calls whose results are random.
RANDOM = {"uniform", "normal"}


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("suites.families")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_rows_and_records(family: str) -> None:
    for name in ROWS.get(family, (family,)):
        assert (CORE / "src" / "proa" / "schema" / "ops" / f"{name}.py").is_file()
        assert (CORE / "tests" / "ops" / "samples" / f"{name}.py").is_file()


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
