"""Arrays from nothing."""

from __future__ import annotations

from proa.schema.dtypes import ALL, NUMERIC
from proa.schema.row import op

op(
    "full(*, shape: ints, value: scalar, dtype: dtype)",
    shape="attr",
    dtypes=ALL,
    out="attr",
    grad=None,
    doc="Every element is value.",
)
op(
    "full_like(like: shape, *, value: scalar, dtype: dtype)",
    shape="like",
    dtypes=ALL,
    out="attr",
    grad=None,
    doc="Every element is value; the shape is that of like.",
)
op(
    "arange(*, start: scalar, step: scalar, count: int, dtype: dtype)",
    shape="arange",
    dtypes=NUMERIC,
    out="attr",
    grad=None,
    lite=False,
    doc="start + i * step for i = 0 .. count - 1.",
)
op(
    "linspace(*, start: float, stop: float, count: int, dtype: dtype)",
    shape="linspace",
    dtypes=NUMERIC,
    out="attr",
    grad=None,
    lite=False,
    doc="count numbers evenly from start to stop, both included.",
)
op(
    "eye(*, rows: int, columns: int, dtype: dtype)",
    shape="eye",
    dtypes=ALL,
    out="attr",
    grad=None,
    lite=False,
    doc="1 where row == column, else 0.",
)
