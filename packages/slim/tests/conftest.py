"""The trained network of the accuracy goals, and tables of what was measured on it."""

from __future__ import annotations

import datetime
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from fashion_network import ROOT, SEEDS, Trained, trained

from proa.errors import UnavailableError


@pytest.fixture(scope="session", params=SEEDS)
def fashion(request: pytest.FixtureRequest) -> Trained:
    """A network trained with one of the seeds."""
    folder = os.environ.get("PROA_DATA_HOME") or tempfile.mkdtemp()
    return trained(request.param, Path(folder))


@pytest.fixture(scope="session")
def networks(tmp_path_factory: pytest.TempPathFactory) -> list[Trained]:
    """The network trained with each seed."""
    folder = os.environ.get("PROA_DATA_HOME") or tmp_path_factory.mktemp("networks")
    return [trained(seed, Path(folder)) for seed in SEEDS]


@pytest.fixture
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models have no times, as where proa-inference is not installed."""

    def bench(*arguments: object, **options: object) -> float:
        raise UnavailableError("[bench] expected proa-inference to be installed")

    monkeypatch.setattr("proa_slim.compression.trials.bench", bench)


@pytest.fixture
def record_table() -> Callable[[str, Sequence[str], Sequence[Sequence[str]]], None]:
    """Write rows of a table, by its name, where tools/figures.py finds them for the
    documents. Rows that begin with the same cell are replaced.
    """

    def record(name: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        path = ROOT / "build" / "slim-tables" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        day = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        known: list[Sequence[str]] = []
        if path.is_file():
            known = json.loads(path.read_text(encoding="utf-8"))["rows"]
        complete = {row[0]: row for row in (*known, *rows) if len(row) == len(header)}
        table = {"date": day, "header": header, "rows": list(complete.values())}
        path.write_text(json.dumps(table, indent=1), encoding="utf-8")

    return record
