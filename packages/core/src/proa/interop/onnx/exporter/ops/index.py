"""Rows that read and write by arrays of indices."""

from __future__ import annotations

import numpy as np

from proa.interop.exporter.sums import window_matrix
from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.ops.shape import as_output
from proa.interop.onnx.exporter.standard import (
    expand,
    full,
    gather,
    scatter_added,
    unsqueeze,
    where,
)
from proa.interop.onnx.exporter.table import export_row


def _from_start(c: Call, index: Ref, size: int | Ref) -> Ref:
    """The index without negative numbers, int64."""
    index = Ref(c.cast(index, "int64").name, "int64", index.shape, index.data)
    if index.data is not None and not (index.data < 0).any():
        return index
    count = c.ints([size]) if isinstance(size, int) else size
    if index.rank == 0:
        count = c.op("Reshape", count, c.ints([]))
    negative = c.op("Less", index, c.const(0, "int64"))
    found = where(c, negative, c.op("Add", index, count), index)
    return Ref(found.name, "int64", index.shape)


@export_row("gather")
def gathered(c: Call, x: Ref, index: Ref, *, axis: int) -> Ref:
    axis %= x.rank
    if index.data is None and c.opset < 11:
        index = _from_start(c, index, c.size(x, axis))
    return gather(c, x, index, axis)


@export_row("embedding")
def embedding(c: Call, ids: Ref, weight: Ref, *, padding_idx: int) -> Ref:
    rows = c.op("Gather", weight, ids, axis=0)
    if padding_idx < 0:
        return rows
    padding = c.op("Equal", ids, c.number(padding_idx, ids))
    return where(c, unsqueeze(c, padding, [ids.rank]), c.number(0.0, weight), rows)


@export_row("one_hot")
def one_hot(c: Call, x: Ref, *, depth: int) -> Ref:
    values = c.const([0.0, 1.0], "float32")
    if x.rank == 0:
        x = c.op("Reshape", x, c.ints([1]))
        return as_output(c, c.op("OneHot", x, c.ints([depth]), values, axis=-1))
    return c.op("OneHot", x, c.ints([depth]), values, axis=-1)


@export_row("gather_nd")
def gather_nd(c: Call, x: Ref, index: Ref) -> Ref:
    return c.op("GatherND", x, c.cast(index, "int64"))


@export_row("scatter_nd_like", since=16)
def scatter_nd_like(c: Call, dy: Ref, index: Ref, like: Ref) -> Ref:
    zeros = full(c, c.shape(like), 0, dy.dtype)
    return scatter_added(c, "ScatterND", zeros, c.cast(index, "int64"), dy)


@export_row("index_put")
def index_put(c: Call, x: Ref, index: Ref, v: Ref) -> Ref:
    return c.op("ScatterND", x, c.cast(index, "int64"), v)


# -- along an axis ---------------------------------------------------------------------
def _whole_index(c: Call, x: Ref, index: Ref, axis: int) -> tuple[Ref, Ref]:
    """x and the index, repeated so that all axes but one agree."""
    assert x.shape is not None and index.shape is not None
    others = [i for i in range(x.rank) if i != axis]
    if all(x.shape[i] == index.shape[i] != -1 for i in others):
        return x, index
    if any(x.shape[i] == index.shape[i] == -1 for i in others):
        return _whole_symbolic_index(c, x, index, axis)
    to_x: list[int | Ref] = [1] * x.rank
    to_index: list[int | Ref] = [1] * x.rank
    for i in others:
        n, m = x.shape[i], index.shape[i]
        if m == 1 and n != 1:
            to_index[i] = c.size(x, i)
        elif n == 1 and m != 1:
            to_x[i] = c.size(index, i)
    if any(n != 1 for n in to_x):
        x = expand(c, x, to_x)
    if any(n != 1 for n in to_index):
        index = expand(c, index, to_index)
    return x, index


def _whole_symbolic_index(c: Call, x: Ref, index: Ref, axis: int) -> tuple[Ref, Ref]:
    """`_whole_index` where the sizes do not tell which of the two is repeated."""
    sizes = c.shape(x), c.shape(index)
    larger = where(c, c.op("Greater", *sizes), *sizes)
    other = c.const(np.arange(x.rank) != axis, "bool")
    common = where(c, other, larger, c.const(1, "int64"))
    return expand(c, x, common), expand(c, index, common)


@export_row("take_along_axis", since=11)
def take_along_axis(c: Call, x: Ref, index: Ref, *, axis: int) -> Ref:
    axis %= x.rank
    x, index = _whole_index(c, x, index, axis)
    return c.op("GatherElements", x, index, axis=axis)


@export_row("put_along_axis")
def put_by_scatter(c: Call, x: Ref, index: Ref, v: Ref, *, axis: int) -> Ref:
    axis %= x.rank
    index = _from_start(c, index, c.size(x, axis))
    return c.op("Scatter", x, index, v, axis=axis)


@export_row("put_along_axis", since=11)
def put_along_axis(c: Call, x: Ref, index: Ref, v: Ref, *, axis: int) -> Ref:
    return c.op("ScatterElements", x, index, v, axis=axis % x.rank)


@export_row("scatter_add_axis", since=16)
def scatter_add_axis(c: Call, x: Ref, index: Ref, v: Ref, *, axis: int) -> Ref:
    return scatter_added(c, "ScatterElements", x, index, v, axis=axis % x.rank)


@export_row("take_along_axis_grad", since=16)
def take_along_axis_grad(c: Call, dy: Ref, index: Ref, like: Ref, *, axis: int) -> Ref:
    assert like.shape is not None
    axis %= like.rank
    if index.shape != dy.shape or any(
        n != m
        for i, (n, m) in enumerate(zip(like.shape, dy.shape or (), strict=True))
        if i != axis
    ):
        c.refuse("gradients of an index that is repeated")
    zeros = full(c, c.shape(like), 0, dy.dtype)
    return scatter_added(c, "ScatterElements", zeros, index, dy, axis=axis)


@export_row("gather_grad", since=16)
def gather_grad(c: Call, dy: Ref, index: Ref, like: Ref, *, axis: int) -> Ref:
    axis %= like.rank
    # The index's axes become one at the place of the axis; then each element of dy has
    # the index of its place.
    sizes = [c.size(like, i) for i in range(like.rank)]
    sizes[axis] = -1
    flat = c.op("Reshape", dy, c.vector(sizes))
    shape = [1] * like.rank
    shape[axis] = -1
    places = c.op("Reshape", c.cast(index, "int64"), c.ints(shape))
    places = c.op("Expand", places, c.op("Shape", flat))
    zeros = full(c, c.shape(like), 0, dy.dtype)
    return scatter_added(c, "ScatterElements", zeros, places, flat, axis=axis)


@export_row("embedding_grad", since=16)
def embedding_grad(c: Call, ids: Ref, dy: Ref, like: Ref, *, padding_idx: int) -> Ref:
    if padding_idx >= 0:
        padding = c.op("Equal", ids, c.number(padding_idx, ids))
        dy = where(c, unsqueeze(c, padding, [ids.rank]), c.number(0.0, dy), dy)
    rows = c.op("Reshape", dy, c.vector([-1, c.size(like, 1)]))
    places = c.op("Reshape", c.cast(ids, "int64"), c.ints([-1, 1]))
    zeros = full(c, c.shape(like), 0, dy.dtype)
    return scatter_added(c, "ScatterND", zeros, places, rows)


@export_row("nonzero")
def nonzero(c: Call, x: Ref, *, count: int) -> Ref:
    return c.op("Transpose", c.op("NonZero", x), perm=[1, 0])


# -- windows and weighted rows ---------------------------------------------------------
def _window_places(c: Call, x: Ref, axis: int, size: int, step: int, dilation: int
                   ) -> Ref:  # fmt: skip
    """(windows, size): where the elements of each window are along the axis."""
    offsets = np.arange(size) * dilation
    n = c.size(x, axis)
    if isinstance(n, int):
        count = (n - (size - 1) * dilation - 1) // step + 1
        return c.const(np.arange(count)[:, None] * step + offsets, "int64")
    extent = (size - 1) * dilation + 1
    end = c.op("Sub", n, c.ints([extent - 1]))
    scalar = c.op("Reshape", end, c.ints([]))
    zero, stride = c.const(0, "int64"), c.const(step, "int64")
    starts = c.op("Range", zero, scalar, stride)
    return c.op("Add", unsqueeze(c, starts, [1]), c.ints(list(offsets)))


@export_row("windows")
def windows(c: Call, x: Ref, *, axis: int, size: int, step: int, dilation: int) -> Ref:
    axis %= x.rank
    places = _window_places(c, x, axis, size, step, dilation)
    found = c.op("Gather", x, places, axis=axis)
    perm = [i for i in range(x.rank + 1) if i != axis + 1]
    return c.op("Transpose", found, perm=[*perm, axis + 1])


@export_row("windows_grad")
def windows_grad(c: Call, dy: Ref, like: Ref, *, axis: int, size: int, step: int,
                 dilation: int) -> Ref:  # fmt: skip
    axis %= like.rank
    matrix = window_matrix(c, like, axis, size, step, dilation)
    # (.., windows, .., size) -> (.., windows * size) @ (windows * size, n)
    rest = [i for i in range(like.rank) if i != axis]
    last = c.op("Transpose", dy, perm=[*rest, axis, like.rank])
    sizes = [c.size(like, i) for i in rest]
    flat = c.op("Reshape", last, c.vector([*sizes, matrix.shape[0]]))
    weights = c.cast(c.const(matrix, "float64"), dy.dtype)
    summed = c.op("MatMul", flat, weights)
    perm = [rest.index(i) if i != axis else like.rank - 1 for i in range(like.rank)]
    return c.op("Transpose", summed, perm=perm)


def _rows(c: Call, x: Ref, index: Ref) -> tuple[Ref, Ref]:
    """Rows of x by index, of which negative ones are any; and which those are."""
    index = c.cast(index, "int64")
    zero = c.const(0, "int64")
    outside = c.op("Less", index, zero)
    return c.op("Gather", x, where(c, outside, zero, index), axis=0), outside


@export_row("blend_rows")
def blend_rows(c: Call, x: Ref, index: Ref, weight: Ref) -> Ref:
    rows, outside = _rows(c, x, index)  # (r, k, c)
    weight = where(c, outside, c.number(0.0, weight), weight)
    found = c.op("MatMul", unsqueeze(c, weight, [1]), rows)
    return c.op("Reshape", found, c.vector([-1, c.size(x, 1)]))


@export_row("blend_rows_dot")
def blend_rows_dot(c: Call, dy: Ref, x: Ref, index: Ref) -> Ref:
    rows, outside = _rows(c, x, index)
    dot = c.op("MatMul", rows, unsqueeze(c, dy, [2]))  # (r, k, 1)
    flat = c.op("Reshape", dot, c.shape(index))
    return where(c, outside, c.number(0.0, dy), flat)


@export_row("blend_rows_scatter", since=16)
def blend_rows_scatter(c: Call, dy: Ref, index: Ref, weight: Ref, like: Ref) -> Ref:
    index = c.cast(index, "int64")
    zero = c.const(0, "int64")
    outside = c.op("Less", index, zero)
    weight = where(c, outside, c.number(0.0, weight), weight)
    products = c.op("Mul", unsqueeze(c, weight, [2]), unsqueeze(c, dy, [1]))
    rows = c.op("Reshape", products, c.vector([-1, c.size(like, 1)]))
    places = c.op("Reshape", where(c, outside, zero, index), c.ints([-1, 1]))
    zeros = full(c, c.shape(like), 0, dy.dtype)
    return scatter_added(c, "ScatterND", zeros, places, rows)
