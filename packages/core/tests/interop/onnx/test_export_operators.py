"""Every operator's samples as models: what runs them gives what NumPy gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from proa.errors import UnimplementedError
from proa.schema import ROWS
from proa.schema.dtypes import FLOATING

from ...ops.sample import Sample
from ...ops.sample_runner import dtypes_of
from ..operator_models import LEFT_OUT, check, main_dtype, programs, reasons, records

pytest.importorskip("onnx")
from proa.interop.onnx.exporter.export import export_program

from .exported import HAS_RUNTIME, NoKernelError, run_model

pytestmark = pytest.mark.feature("L281", how="mechanism")
OPSETS = (9, 13, 17, 21)
#: The others.
OTHER_OPSETS = (10, 11, 12, 14, 15, 16, 18, 19, 20)
#: Cases that the standard leaves open: a mean of nothing, the place of NaN.
_OPEN = {
    "mean": lambda x, opset: x.size == 0,
    "argmax": lambda x, opset: np.isnan(x).any(),
    "argmin": lambda x, opset: np.isnan(x).any(),
    "sort": lambda x, opset: opset < 11 and np.isnan(x).any(),  # sorts -x
}
#: Written as Scan, of which one over nothing ends onnxruntime's process.
_SCANS = ("cumsum", "cumprod", "linear_recurrence")
#: Computed in float32 by those who run models, whatever the dtype.
_NARROW = ("erf", "gelu", "gelu_grad", "gelu_tanh", "linear_act", "conv2d_act")
#: Sums of many float32 numbers, which others add up in float32 from left to right.
_ROUNDING = {"sum": 1e-3, "sum_leading": 1e-3, "mean": 1e-4}
NOT_EXPORTED = reasons(Path(__file__).with_name("not_exported.txt"))


def run_sample(
    sample: Sample, dtype: str, opset: int, folder: Path, symbolic: bool = False
) -> None:
    """Every case of a sample in one dtype at one opset, as far as it can express it.

    Args:
        symbolic: Whether all sizes of the model's inputs are left open.
    """
    path = folder / "m.onnx"
    for kind, case, arrays, program in programs(sample, dtype, symbolic):
        if symbolic and sample.name in _SCANS and arrays[0].size == 0:
            continue
        if sample.name in _OPEN and _OPEN[sample.name](arrays[0], opset):
            continue
        try:
            export_program(program, path, opset)
        except UnimplementedError as error:
            found = f"{sample.name}: from opset" in str(error)
            assert found or (symbolic and "symbolic" in str(error)), str(error)
            continue
        try:
            got = run_model(path, [a for a in arrays if a is not None])
        except NoKernelError:
            assert not HAS_RUNTIME or kind != dtype or dtype != main_dtype(sample)
            continue
        narrow = kind == "float64" and sample.name in _NARROW
        rtol, atol = (1e-6, 1e-6) if narrow else (0.0, 0.0)
        atol = max(atol, _ROUNDING.get(sample.name, 0.0))
        check(sample, kind, case, got, arrays, rtol, atol)


EXPORTED = records(NOT_EXPORTED)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("sample", EXPORTED, ids=lambda s: s.name)
def test_an_exported_operator_gives_what_numpy_gives(
    sample: Sample, opset: int, tmp_path: Path
) -> None:
    run_sample(sample, main_dtype(sample), opset, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("opset", OTHER_OPSETS)
@pytest.mark.parametrize("sample", EXPORTED, ids=lambda s: s.name)
def test_every_opset(sample: Sample, opset: int, tmp_path: Path) -> None:
    run_sample(sample, main_dtype(sample), opset, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("opset", [9, 13, 17, 21])
@pytest.mark.parametrize("sample", EXPORTED, ids=lambda s: s.name)
def test_every_dtype(sample: Sample, opset: int, tmp_path: Path) -> None:
    for dtype in dtypes_of(sample):
        promoted = ROWS[sample.name].promote == "float" and dtype not in FLOATING
        if dtype not in (*LEFT_OUT, main_dtype(sample)) and not promoted:
            run_sample(sample, dtype, opset, tmp_path)


@pytest.mark.parametrize(
    "opset", [pytest.param(n, marks=pytest.mark.full) for n in (9, 11, 17)] + [13]
)
@pytest.mark.parametrize(
    "sample",
    [s for s in EXPORTED if s.name != "squeeze"],  # has another rank without sizes
    ids=lambda s: s.name,
)
def test_sizes_may_be_symbolic(sample: Sample, opset: int, tmp_path: Path) -> None:
    run_sample(sample, main_dtype(sample), opset, tmp_path, symbolic=True)


def test_the_list_names_rows() -> None:
    assert set(NOT_EXPORTED) <= set(ROWS)
