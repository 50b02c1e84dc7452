"""Reading and writing by index arrays (int32 or int64); negative: from the end."""

from __future__ import annotations

from typing import Any

from proa.schema.dtypes import ALL, NUMERIC
from proa.schema.row import op

op(
    "gather(x, index, *, axis: int = 0)",
    shape="gather",
    grad=lambda g, dy, x, index, *, axis: (
        g.gather_grad(dy, index, x, axis=axis),
        None,
    ),
    doc="x[..., index, ...] along axis; the index's own axes take the place of axis.",
)
op(
    "gather_grad(dy, index, like: shape, *, axis: int = 0)",
    shape="gather_grad",
    dtypes=NUMERIC,
    outputs=("dx",),
    grad=lambda g, ddx, index, *, axis: (g.gather(ddx, index, axis=axis), None),
    lite=False,
    doc="Zeros of the shape of like, dy added where it was gathered from.",
)
op(
    "gather_nd(x, index)",
    shape="gather_nd",
    grad=lambda g, dy, x, index: (g.scatter_nd_like(dy, index, x), None),
    doc="The last axis of index holds coordinates into the leading axes of x.",
)
op(
    "scatter_nd_like(dy, index, like: shape)",
    shape="scatter_nd_like",
    dtypes=NUMERIC,
    outputs=("dx",),
    grad=lambda g, ddx, index: (g.gather_nd(ddx, index), None),
    lite=False,
    doc="Zeros of the shape of like, dy added at the coordinates in index.",
)
op(
    "take_along_axis(x, index, *, axis: int)",
    shape="take_along_axis",
    grad=lambda g, dy, x, index, *, axis: (
        g.take_along_axis_grad(dy, index, x, axis=axis),
        None,
    ),
    doc="y[i, j, ..] = x[i, index[i, j, ..], ..] along axis; other axes broadcast.",
)
op(
    "take_along_axis_grad(dy, index, like: shape, *, axis: int)",
    shape="take_along_axis_grad",
    dtypes=NUMERIC,
    outputs=("dx",),
    grad=lambda g, ddx, index, *, axis: (
        g.take_along_axis(ddx, index, axis=axis),
        None,
    ),
    lite=False,
    doc="Zeros of the shape of like, dy added where it was taken from.",
)


def _put_grad(g: Any, dy: Any, index: Any, v: Any, *, axis: Any) -> Any:
    zero = g.mul(v, 0.0)
    return (
        g.put_along_axis(dy, index, zero, axis=axis),
        None,
        g.take_along_axis(dy, index, axis=axis),
    )


op(
    "put_along_axis(x, index, v, *, axis: int)",
    shape="put_along_axis",
    layout="follow",
    grad=_put_grad,
    inplace="x",
    lite=False,
    doc="x with x[i, index[i, j, ..], ..] = v[i, j, ..] along axis. v has the shape of "
    "index. Of equal indices the last wins.",
)
op(
    "scatter_add_axis(x, index, v, *, axis: int)",
    shape="put_along_axis",
    layout="follow",
    dtypes=NUMERIC,
    grad=lambda g, dy, index, *, axis: (
        dy,
        None,
        g.take_along_axis(dy, index, axis=axis),
    ),
    inplace="x",
    lite=False,
    doc="x with v added at x[i, index[i, j, ..], ..] along axis.",
)
op(
    "index_put(x, index, v)",
    shape="index_put",
    layout="follow",
    grad=lambda g, dy, index, v: (
        g.index_put(dy, index, g.mul(v, 0.0)),
        None,
        g.gather_nd(dy, index),
    ),
    inplace="x",
    lite=False,
    doc="x with the elements (or sub-arrays) at the coordinates in the last axis of "
    "index replaced by v, which has the shape of gather_nd(x, index).",
)
op(
    "count_nonzero(x)",
    shape="scalar",
    dtypes=ALL,
    grad=None,
    out="int64",
    lite=False,
    doc="Number of non-zero elements.",
)
op(
    "nonzero(x, *, count: int)",
    shape="nonzero",
    dtypes=ALL,
    grad=None,
    out="int64",
    lite=False,
    doc="Coordinates of the non-zero elements in row-major order, (count, rank); count "
    "is what count_nonzero gave.",
)
op(
    "one_hot(x, *, depth: int)",
    shape="one_hot",
    dtypes=("int32", "int64"),
    grad=None,
    out="float32",
    doc="A last axis of size depth with 1 at the index and 0 elsewhere.",
)
op(
    "embedding(ids, weight, *, padding_idx: int = -1)",
    shape="embedding",
    dtypes=("int32", "int64"),
    out="last",
    grad=lambda g, dy, ids, weight, *, padding_idx: (
        None,
        g.embedding_grad(ids, dy, weight, padding_idx=padding_idx),
    ),
    doc="weight[ids]: rows of the table (n, d); zeros where ids == padding_idx >= 0.",
)
op(
    "put_rows_(table, rows, values)",
    shape="inplace_rows",
    dtypes=ALL,
    outputs=("table_out",),
    inplace=("table",),
    mutates=True,
    grad=None,
    lite=False,
    doc="table[rows[i]] = values[i]. A row that occurs twice must have one value.",
)
op(
    "merge_rows(rows, values)",
    shape="merge_rows",
    dtypes=("int32", "int64"),
    outputs=("once", "sums"),
    out=("same", "last"),
    grad=None,
    scratch=True,
    lite=False,
    doc="Every number of rows once, ascending, with the sum of its values, added in "
    "their order; then the last of these again until there are as "
    "many as there were.",
)
op(
    "embedding_grad(ids, dy, like: shape, *, padding_idx: int = -1)",
    shape="embedding_grad",
    dtypes=("int32", "int64"),
    out="last",
    outputs=("dw",),
    grad=lambda g, ddw, ids, *, padding_idx: (
        None,
        g.embedding(ids, ddw, padding_idx=padding_idx),
    ),
    lite=False,
    doc="Rows of dy added to the rows of the table that ids names.",
)
