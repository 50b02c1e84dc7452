"""Every row of the operator table against its record: values, memory, in place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from proa import _core
from proa.schema import ROWS

from . import samples
from .sample import SAMPLES, Case, Sample
from .sample_runner import (
    LAYOUTS,
    compare,
    draw,
    dtype_name,
    dtypes_of,
    layout_of,
    numpy_of,
    output_dtypes,
    reference,
    repeat_first,
    run,
    runs_of,
    tensor_of,
)

samples.load()


def edges(sample: Sample) -> list[Case]:
    """Empty and 0-d calls of an elementwise op, which need not be written down."""
    row = ROWS[sample.name]
    if not row.elementwise or sample.ref is None or not sample.cases:
        return []
    like = sample.cases[0]
    if not all(isinstance(given, tuple) for given in like.inputs):
        return []
    return [
        Case(tuple(shape for _ in like.inputs), like.attrs)
        for shape in ((0,), (), (3, 0, 2), (1,))
    ]


def test_every_row_has_a_record_and_every_record_a_row():
    assert sorted(SAMPLES) == sorted(ROWS)


@pytest.mark.parametrize(
    ("sample", "dtype", "case"),
    [
        pytest.param(s, d, c, id=f"{s.name}-{d}-{i}")
        for s in SAMPLES.values()
        for i, (d, c) in enumerate(runs_of(s, [*s.cases, *edges(s)]))
    ],
)
def test_values_equal_the_reference(sample: Sample, dtype: str, case: Case):
    row = ROWS[sample.name]
    arrays = draw(sample, case, dtype)
    got = run(row, [tensor_of(a, dtype) for a in arrays], case.attrs)
    expected = output_dtypes(row, arrays, dtype, case.attrs)
    assert [dtype_name(t) for t in got] == expected
    if sample.check is not None:
        sample.check(arrays, case.attrs, [numpy_of(t) for t in got])
    else:
        compare(sample, dtype, got, reference(sample, arrays, case.attrs))


def one_dtype(sample: Sample) -> str:
    """The dtype for tests that one dtype is enough for."""
    admitted = dtypes_of(sample)
    best = ("float32", "int64", "int8", "bool", "complex64")
    return next((d for d in best if d in admitted), admitted[0])


@pytest.mark.parametrize(
    ("sample", "case", "layout"),
    [
        pytest.param(s, c, layout, id=f"{s.name}-{i}-{layout}")
        for s in SAMPLES.values()
        if s.strided and s.ref is not None and not ROWS[s.name].mutates
        for i, c in enumerate(s.cases)
        if any(given is not None for given in c.inputs)
        for layout in LAYOUTS[1:]
    ],
)
def test_memory_order_changes_nothing(sample: Sample, case: Case, layout: str):
    dtype = one_dtype(sample)
    arrays = draw(sample, case, dtype)
    if layout == "broadcast":
        repeat_first(case, arrays)
    tensors = [
        tensor_of(a, dtype, layout_of(given, layout))
        for a, given in zip(arrays, case.inputs, strict=True)
    ]
    want = reference(sample, arrays, case.attrs)
    compare(sample, dtype, run(ROWS[sample.name], tensors, case.attrs), want)


@pytest.mark.parametrize(
    ("sample", "case"),
    [
        pytest.param(s, c, id=f"{s.name}-{i}")
        for s in SAMPLES.values()
        if ROWS[s.name].inplace and not ROWS[s.name].mutates and s.ref is not None
        for i, c in enumerate(s.cases)
    ],
)
def test_the_in_place_form_writes_to_its_array(sample: Sample, case: Case):
    row = ROWS[sample.name]
    dtype = one_dtype(sample)
    arrays = draw(sample, case, dtype)
    want = reference(sample, arrays, case.attrs)
    at = [a.name for a in row.arrays].index(row.inplace[0])
    target = arrays[at]
    assert target is not None
    if want[0].shape != target.shape:
        pytest.skip("the result does not fit into the array")
    tensors = [tensor_of(a, dtype) for a in arrays]
    version = tensors[at].inplace_version
    out = getattr(_core.ops, f"{row.name}_")(*tensors, **case.attrs)
    assert out is tensors[at]
    assert tensors[at].inplace_version > version
    compare(sample, dtype, [tensors[at]], want[:1])


@pytest.mark.parametrize(
    ("sample", "case"),
    [
        pytest.param(s, c, id=f"{s.name}-{i}")
        for s in SAMPLES.values()
        if ROWS[s.name].mutates and s.ref is not None
        for i, c in enumerate(s.cases)
    ],
)
def test_an_update_writes_to_strided_arrays(sample: Sample, case: Case):
    row = ROWS[sample.name]
    dtype = one_dtype(sample)
    arrays = draw(sample, case, dtype)
    want = reference(sample, arrays, case.attrs)
    tensors = [tensor_of(a, dtype, "transposed") for a in arrays]
    run(row, tensors, case.attrs)
    names = [a.name for a in row.arrays]
    compare(sample, dtype, [tensors[names.index(n)] for n in row.inplace], want)


@pytest.mark.parametrize("isa", ["scalar", "avx2", "neon"])
def test_values_equal_the_reference_on_lower_instruction_sets(isa: str):
    """The same records with the kernels that older CPUs run."""
    env = {**os.environ, "PROA_ISA": isa}

    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True)

    probe = "import proa; proa._core.ops.neg(proa._core.ops.eye(1, 1, 'float32'))"
    tried = python("-c", probe)
    if "[PROA_ISA]" in tried.stderr:
        pytest.skip(f"this build or CPU has no {isa}")
    assert tried.returncode == 0, tried.stderr
    chosen = "values_equal_the_reference and not lower"
    options = ("-q", "-x", "-p", "no:cacheprovider", "-k", chosen)
    done = python("-m", "pytest", *options, str(Path(__file__)))
    assert done.returncode == 0, done.stdout[-4000:]
