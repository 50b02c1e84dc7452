"""Every operator's samples as models: what runs them gives what NumPy gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proa.errors import InvalidArgumentError, UnimplementedError
from proa.ir import Builder
from proa.schema import ROWS
from proa.schema.dtypes import FLOATING

from ...ops import samples
from ...ops.sample import SAMPLES, Case, Sample
from ...ops.sample_runner import ATOL, RTOL, draw, dtypes_of, reference, runs_of

pytest.importorskip("onnx")
from proa.interop.onnx.exporter.export import export_program

from .exported import HAS_RUNTIME, NoKernelError, run_model

pytestmark = pytest.mark.feature("L281", how="mechanism")
samples.load()
OPSETS = (9, 13, 17, 21)
#: The others.
OTHER_OPSETS = (10, 11, 12, 14, 15, 16, 18, 19, 20)
#: Dtypes that arrays of NumPy cannot hold, and those of which ONNX has no operators.
_LEFT_OUT = ("bfloat16", "complex64", "complex128")
#: Outputs that have a counterpart, of operators where not all have.
_OUTPUTS = {"recurrent": (0, 1)}
#: Operators that draw random numbers, which are not those of Proa.
_RANDOM = {name for name, row in ROWS.items() if row.random}
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
_LISTED = Path(__file__).with_name("not_exported.txt")


def not_exported() -> dict[str, str]:
    """Operators that cannot be exported, each with the reason."""
    lines = [line for line in _LISTED.read_text().splitlines() if line]
    return dict(line.split(": ", 1) for line in lines if not line.startswith("#"))


def main_dtype(sample: Sample) -> str:
    """The dtype that stands for all."""
    admitted = [d for d in dtypes_of(sample) if d not in _LEFT_OUT]
    best = ("float32", "int64", "int8", "bool")
    return next((d for d in best if d in admitted), admitted[0] if admitted else "")


def program_of(
    sample: Sample, arrays: list[Any], attrs: dict[str, Any], symbolic: bool
) -> Any:
    """A program of one node, whose arrays are its inputs."""
    b = Builder()
    inputs = [
        None
        if a is None
        else b.input(f"x{i}", str(a.dtype), (-1,) * a.ndim if symbolic else a.shape)
        for i, a in enumerate(arrays)
    ]
    outputs = b.node(sample.name, inputs, attrs).outputs
    b.output(*(outputs[i] for i in _OUTPUTS.get(sample.name, range(len(outputs)))))
    return b.program


def check(sample: Sample, dtype: str, case: Case, got: list[Any], arrays: Any) -> None:
    """Compare as `test_ops.py` does, a float32 result to 1e-5 at least."""
    if sample.check is not None:
        sample.check(arrays, case.attrs, got)
        return
    want = reference(sample, arrays, case.attrs)
    which = _OUTPUTS.get(sample.name, range(len(want)))
    for at, value in zip(which, got, strict=True):
        if sample.outputs is not None and at not in sample.outputs:
            continue
        assert value.shape == want[at].shape
        if value.dtype.kind == "f":
            rtol = sample.rtol.get(dtype, RTOL.get(dtype, 2e-5))
            atol = sample.atol.get(dtype, ATOL.get(dtype, 1e-5))
            atol = max(atol, _ROUNDING.get(sample.name, 0.0))
            if dtype == "float64" and sample.name in _NARROW:
                rtol, atol = 1e-6, 1e-6
            np.testing.assert_allclose(value, want[at], rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(value, want[at])


def run_sample(
    sample: Sample, dtype: str, opset: int, folder: Path, symbolic: bool = False
) -> None:
    """Every case of a sample in one dtype at one opset, as far as it can express it.

    Args:
        symbolic: Whether all sizes of the model's inputs are left open.
    """
    path = folder / "m.onnx"
    for kind, case in runs_of(sample, sample.cases):
        is_drawn = any(map(_is_drawn, case.inputs))
        if kind != dtype and is_drawn and not case.attrs.get("dtype"):
            continue
        if kind in _LEFT_OUT or _draws(sample, case):
            continue
        arrays = draw(sample, case, kind)
        if symbolic and sample.name in _SCANS and arrays[0].size == 0:
            continue
        if sample.name in _OPEN and _OPEN[sample.name](arrays[0], opset):
            continue
        if any(a is not None and a.dtype.kind == "c" for a in arrays):
            continue
        try:
            program = program_of(sample, arrays, case.attrs, symbolic)
        except InvalidArgumentError:  # a rank that follows from a size
            assert symbolic
            continue
        if any(v.dtype in _LEFT_OUT for v in program.main.values()):
            continue
        try:
            export_program(program, path, opset)
        except UnimplementedError as error:
            found = f"{sample.name}: from opset" in str(error)
            assert found or (symbolic and "symbolic" in str(error)), str(error)
            continue
        given = [a for a in arrays if a is not None]
        try:
            got = run_model(path, given)
        except NoKernelError:
            assert not HAS_RUNTIME or kind != dtype or dtype != main_dtype(sample)
            continue
        check(sample, kind, case, got, arrays)


def _draws(sample: Sample, case: Case) -> bool:
    return sample.name in _RANDOM and case.attrs.get("p", 1.0) != 0.0


def _is_drawn(given: Any) -> bool:
    return isinstance(given, tuple) or callable(given)


EXPORTED = [s for s in SAMPLES.values() if s.name not in not_exported()]


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
        if dtype not in (*_LEFT_OUT, main_dtype(sample)) and not promoted:
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
    assert set(not_exported()) <= set(ROWS)
