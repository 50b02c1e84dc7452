"""Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..sample import Array, Sample, case


def transform(
    x: Array, *, axis: int = -1, inverse: bool = False, norm: str = "none"
) -> Array:
    if x.ndim == 0 or x.size == 0:
        return x
    n = x.shape[axis]
    y: Any = np.fft.ifft(x, axis=axis) * n if inverse else np.fft.fft(x, axis=axis)
    return np.asarray(y / {"none": 1, "ortho": np.sqrt(n), "mean": n}[norm])


Sample(
    "fft",
    ref=transform,
    cases=[
        case((1,)),
        case((), axis=0),
        case((), inverse=True, norm="mean"),
        case((2, 0), axis=1),
        case((2, 8), norm="ortho"),
        case((3, 12, 2), axis=1, inverse=True),
        case((2, 17), inverse=True, norm="mean"),
        case((34, 2), axis=0),
        case((2, 0, 3), axis=0),
        case((2, 385)),
    ],
    rtol={"complex64": 1e-4},
    atol={"complex64": 2e-4},
)
