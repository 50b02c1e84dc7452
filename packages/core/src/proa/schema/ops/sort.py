"""Sorting and selection along an axis. NaN counts as the greatest."""

from __future__ import annotations

from proa.schema.dtypes import REAL
from proa.schema.row import op

op(
    "sort(x, *, axis: int = -1, descending: bool = False)",
    shape="sort",
    dtypes=REAL,
    outputs=("y", "index"),
    out=("same", "int64"),
    grad=lambda g, dy, index, x, *, axis: g.take_along_axis_grad(
        dy, index, x, axis=axis
    ),
    scratch=True,
    lite=False,
    doc="Sorted elements and where each was; stable.",
)
op(
    "topk(x, *, k: int, axis: int = -1, largest: bool = True)",
    shape="topk",
    dtypes=REAL,
    outputs=("y", "index"),
    out=("same", "int64"),
    grad=lambda g, dy, index, x, *, axis: g.take_along_axis_grad(
        dy, index, x, axis=axis
    ),
    scratch=True,
    doc="The k greatest (or least) elements in order, and where each was.",
)
