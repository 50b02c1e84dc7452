"""Records of arrays made from attributes."""

from __future__ import annotations

import numpy as np

from ..sample import Array, Sample, case

TYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
]
TYPES += ["complex64", "complex128"]
NUMBERS = TYPES[1:]


def _full(*, shape: list[int], value: float, dtype: str) -> Array:
    return np.full(shape, value, dtype)


Sample(
    "full",
    ref=_full,
    cases=[
        *[case(shape=[2, 3], value=1, dtype=t) for t in TYPES],
        case(shape=[], value=2.5, dtype="float32"),
        case(shape=[0, 3], value=1, dtype="float32"),
        case(shape=[40000], value=-1.5, dtype="float64"),
        case(shape=[2], value=2**62 + 1, dtype="int64"),
    ],
)
Sample(
    "full_like",
    ref=lambda like, *, value, dtype: np.full(like.shape, value, dtype),
    cases=[case((2, 3), value=1, dtype=t) for t in TYPES],
)
Sample(
    "arange",
    ref=lambda *, start, step, count, dtype: (start + step * np.arange(count)).astype(
        dtype
    ),
    cases=[
        *[case(start=1, step=2, count=9, dtype=t) for t in NUMBERS],
        case(start=0.5, step=0.25, count=700, dtype="float32"),
        case(start=5, step=-1, count=6, dtype="int64"),
        case(start=2**60 + 1, step=1, count=3, dtype="int64"),
        case(start=0, step=1, count=0, dtype="float32"),
    ],
)
Sample(
    "linspace",
    ref=lambda *, start, stop, count, dtype: np.linspace(start, stop, count).astype(
        dtype
    ),
    cases=[
        case(start=0.0, stop=1.0, count=11, dtype="float32"),
        case(start=-2.0, stop=5.0, count=1, dtype="float64"),
        case(start=3.0, stop=-1.0, count=301, dtype="float64"),
        case(start=0.0, stop=10.0, count=11, dtype="int32"),
    ],
)
Sample(
    "eye",
    ref=lambda *, rows, columns, dtype: np.eye(rows, columns).astype(dtype),
    cases=[
        *[case(rows=3, columns=4, dtype=t) for t in TYPES],
        case(rows=4, columns=2, dtype="float32"),
        case(rows=0, columns=2, dtype="float32"),
    ],
)
