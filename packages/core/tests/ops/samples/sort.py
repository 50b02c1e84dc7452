"""Records of sorting and selection."""

from __future__ import annotations

import numpy as np

from ..sample import Array, Sample, case


def _order(x: Array, axis: int, descending: bool) -> Array:
    """Stable order; NaN counts as the greatest."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    # The reverse of a stable sort of the reversed array keeps equal elements in order.
    flipped = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - flipped, axis)


def _sort(x: Array, *, axis: int, descending: bool) -> tuple[Array, Array]:
    if x.ndim == 0:
        return x, np.array(0)
    index = _order(x, axis, descending)
    return np.take_along_axis(x, index, axis), index


def _topk(x: Array, *, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    index = np.take(_order(x, axis, largest), range(k), axis)
    return np.take_along_axis(x, index, axis), index


_NAN = np.array([[1.0, np.nan, -np.inf, 3.0, np.nan, -0.0, 0.0, np.inf]])
Sample(
    "sort",
    ref=_sort,
    cases=[
        case((2, 3), axis=-1, descending=False),
        case((3, 200), axis=1, descending=True),
        case((100, 3), axis=0, descending=False),
        case(_NAN, axis=1, descending=False),
        case(_NAN, axis=1, descending=True),
        case((0, 3), axis=1, descending=False),
        case((), axis=-1, descending=False),
    ],
    grad_cases=[
        case((2, 3), axis=-1, descending=False),
        case((4, 3), axis=0, descending=True),
    ],
    repeats=False,
)
Sample(
    "topk",
    ref=_topk,
    cases=[
        case((2, 5), k=2, axis=-1, largest=True),
        case((3, 300), k=7, axis=1, largest=True),
        case((300, 2), k=100, axis=0, largest=False),
        case(_NAN, k=3, axis=1, largest=True),
        case((2, 4), k=4, axis=1, largest=False),
    ],
    grad_cases=[case((2, 5), k=2, axis=-1, largest=True)],
)
