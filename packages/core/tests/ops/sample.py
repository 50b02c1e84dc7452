"""The record that tests one op: a NumPy reference and the calls to compare on.

    Sample(
        "silu",
        ref=lambda x, *, beta: x / (1 + np.exp(-beta * x)),
        cases=[case((2, 3), beta=1.0), case((0, 4), beta=2.0), case((), beta=0.5)],
    )

Making a Sample registers it (a family's file has `from ..sample import Sample, case`).
`test_ops.py` and `test_gradients.py` run every record: each dtype of the row, strided,
broadcast and empty inputs, in-place forms, gradients of first and second order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: A shape (values are drawn), an array as it is (an index, a mask), a function of the
#: random generator that returns one, or None for an optional array that is left out.
Input = tuple[int, ...] | Array | Callable[[np.random.Generator], Array] | None


@dataclass(frozen=True)
class Case:
    """One call: inputs in row order and attributes."""

    inputs: tuple[Input, ...]
    attrs: dict[str, Any]

    def __str__(self) -> str:
        parts = [
            str(i) if isinstance(i, tuple) else type(i).__name__ for i in self.inputs
        ]
        return "-".join(parts + [f"{k}={v}" for k, v in self.attrs.items()])


def case(*inputs: Input, **attrs: Any) -> Case:
    """One call of the op. Give arrays for inputs that must not be drawn at random."""
    return Case(inputs, attrs)


@dataclass
class Sample:
    """How to test one op.

    Args:
        name: The row.
        ref: The op in plain NumPy on the same arrays and attributes; returns an array
            or a tuple of arrays, one for each output. Missing optional arrays come as
            None, floats as float64, complex numbers as complex128.
        cases: The calls.
        dtypes: Dtypes to run (by default all of the row; where those are of an index or
            a condition, all of the arrays after it).
        domain: Range that random values are drawn from (of integers: its integer part).
        rtol, atol: Tolerances by dtype that replace the general ones, as
            ``{"float32": 1e-4}``.
        grad: False if the gradient cannot be checked by finite differences.
        grad_cases: Cases for the gradient, where those of `cases` do not fit.
        second: False if the second derivative cannot be checked.
        repeats: False if there is no gradient where an array repeats along its first
            axis, as where maxima tie and matrices are singular.
        outputs: Indices of the outputs to compare (all by default).
        strided: False if inputs must be row-major.
        check: Instead of `ref`: a function of (inputs, attributes, outputs) that
            asserts.
    """

    name: str
    ref: Callable[..., Any] | None = None
    cases: Sequence[Case] = ()
    dtypes: Sequence[str] | None = None
    domain: tuple[float, float] = (-2.0, 2.0)
    rtol: dict[str, float] = field(default_factory=dict)
    atol: dict[str, float] = field(default_factory=dict)
    grad: bool = True
    grad_cases: Sequence[Case] | None = None
    second: bool = True
    repeats: bool = True
    outputs: Sequence[int] | None = None
    strided: bool = True
    check: Callable[..., None] | None = None

    def __post_init__(self) -> None:
        if self.name in SAMPLES:
            raise ValueError(f"two records of the op {self.name}")
        SAMPLES[self.name] = self


#: Every record, by op.
SAMPLES: dict[str, Sample] = {}
