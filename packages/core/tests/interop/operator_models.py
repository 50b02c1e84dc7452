"""Programs of one operator each, for what writes models: the records of tests/ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from proa.errors import InvalidArgumentError
from proa.ir import Builder
from proa.schema import ROWS

from ..ops import samples
from ..ops.sample import SAMPLES, Case, Sample
from ..ops.sample_runner import ATOL, RTOL, draw, dtypes_of, reference, runs_of

samples.load()

#: Dtypes that arrays of NumPy cannot hold, and those that few operators take.
LEFT_OUT = ("bfloat16", "complex64", "complex128")
#: Outputs that have a counterpart, of operators where not all have.
_OUTPUTS = {"recurrent": (0, 1)}
#: Operators that draw random numbers, which are not those of Proa.
RANDOM = {name for name, row in ROWS.items() if row.random}


def reasons(file: Path) -> dict[str, str]:
    """Operators of a list, each with the reason why it cannot be written."""
    lines = [line for line in file.read_text().splitlines() if line]
    return dict(line.split(": ", 1) for line in lines if not line.startswith("#"))


def records(but: Mapping[str, str]) -> list[Sample]:
    """The records, but those of operators that are listed."""
    return [s for s in SAMPLES.values() if s.name not in but]


def main_dtype(sample: Sample) -> str:
    """The dtype that stands for all."""
    admitted = [d for d in dtypes_of(sample) if d not in LEFT_OUT]
    best = ("float32", "int64", "int8", "bool")
    return next((d for d in best if d in admitted), admitted[0] if admitted else "")


def programs(
    sample: Sample, dtype: str, symbolic: bool = False, parameter: bool = False
) -> Iterator[tuple[str, Case, list[Any], Any]]:
    """Every case in a dtype that a model can hold: its dtype, arrays and program.

    Args:
        symbolic: Whether all sizes of the program's inputs are left open.
        parameter: Whether the program has a parameter, which is its last result.
    """
    for kind, case in runs_of(sample, sample.cases):
        is_drawn = any(map(_is_drawn, case.inputs))
        if kind != dtype and is_drawn and not case.attrs.get("dtype"):
            continue
        if kind in LEFT_OUT or _draws(sample, case):
            continue
        arrays = draw(sample, case, kind)
        if any(a is not None and a.dtype.kind == "c" for a in arrays):
            continue
        try:
            program = program_of(sample, arrays, case.attrs, symbolic, parameter)
        except InvalidArgumentError:  # a rank that follows from a size
            assert symbolic
            continue
        if not any(v.dtype in LEFT_OUT for v in program.main.values()):
            yield kind, case, arrays, program


def program_of(
    sample: Sample,
    arrays: list[Any],
    attrs: dict[str, Any],
    symbolic: bool,
    parameter: bool = False,
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
    if parameter:
        b.output(b.parameter("one", np.ones(1, np.float32)))
    return b.program


def check(
    sample: Sample, dtype: str, case: Case, got: list[Any], arrays: Any,
    rtol: float = 0.0, atol: float = 0.0,
) -> None:  # fmt: skip
    """Compare as `test_ops.py` does, a float32 result to 1e-5 at least.

    Args:
        rtol, atol: What to compare by if it is more.
    """
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
            own = (
                sample.rtol.get(dtype, RTOL.get(dtype, 2e-5)),
                sample.atol.get(dtype, ATOL.get(dtype, 1e-5)),
            )
            np.testing.assert_allclose(
                value, want[at], rtol=max(own[0], rtol), atol=max(own[1], atol)
            )
        else:
            tie = _is_tie(sample, arrays, case.attrs)
            np.testing.assert_array_equal(value[~tie], want[at][~tie])
            np.testing.assert_allclose(value[tie], want[at][tie], rtol=0, atol=1)


def _is_tie(sample: Sample, arrays: Any, attrs: dict[str, Any]) -> Any:
    """Where an int8 product is rounded so close to a tie that the sum decides which a
    model computes in float32, in an order of its own.
    """
    if attrs.get("dtype") != "int8" or not attrs.get("out_scale"):
        return np.zeros((), bool)
    (real,) = reference(sample, arrays, {**attrs, "dtype": "float32"})
    steps = real / attrs["out_scale"]
    return np.abs(np.abs(steps - np.floor(steps)) - 0.5) < 2e-3


def _draws(sample: Sample, case: Case) -> bool:
    return sample.name in RANDOM and case.attrs.get("p", 1.0) != 0.0


def _is_drawn(given: Any) -> bool:
    return isinstance(given, tuple) or callable(given)
