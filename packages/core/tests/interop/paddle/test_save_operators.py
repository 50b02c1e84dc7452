"""Every operator's samples as Paddle models: what reads them gives what NumPy gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import proa
from proa.errors import UnimplementedError
from proa.schema import ROWS

from ...ops.sample import Sample
from ..operator_models import check, main_dtype, programs, reasons, records

pytest.importorskip("google.protobuf")
from proa.interop import paddle
from proa.interop.paddle.exporter.save import save_program

NOT_SAVED = reasons(Path(__file__).with_name("not_saved.txt"))
SAVED = records(NOT_SAVED)


def saved(sample: Sample, path: Path, symbolic: bool = False) -> Any:
    """Every case in the main dtype, after it was written."""
    for kind, case, arrays, program in programs(sample, main_dtype(sample), symbolic):
        try:
            save_program(program, path)
        except UnimplementedError as error:
            assert symbolic and "symbolic" in str(error), str(error)
            continue
        yield kind, case, arrays


def read(path: Path, arrays: list[Any]) -> list[Any]:
    """What we compute by a model."""
    given = [proa.to_tensor(a) for a in arrays if a is not None]
    with proa.no_grad():
        found = paddle.load(path)(*given)
    return [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("sample", SAVED, ids=lambda s: s.name)
def test_a_saved_operator_gives_what_numpy_gives(
    sample: Sample, tmp_path: Path
) -> None:
    for kind, case, arrays in saved(sample, tmp_path / "m"):
        check(sample, kind, case, read(tmp_path / "m", arrays), arrays)


@pytest.mark.parametrize(
    "sample",
    [s for s in SAVED if s.name != "squeeze"],  # has another rank without sizes
    ids=lambda s: s.name,
)
def test_sizes_may_be_symbolic(sample: Sample, tmp_path: Path) -> None:
    for kind, case, arrays in saved(sample, tmp_path / "m", symbolic=True):
        check(sample, kind, case, read(tmp_path / "m", arrays), arrays)


def test_the_list_names_rows() -> None:
    assert set(NOT_SAVED) <= set(ROWS)
