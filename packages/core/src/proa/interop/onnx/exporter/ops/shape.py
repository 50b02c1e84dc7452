"""Rows that change how elements are addressed, and that move them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.standard import (
    concat,
    expand,
    full,
    gather,
    slice_,
    squeeze,
    transpose,
    unsqueeze,
    where,
)
from proa.interop.onnx.exporter.standard import pad as padded
from proa.interop.onnx.exporter.table import export_row
from proa.ir.program import NUMPY_TYPES, Array

Ints = Sequence[int]
_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


def as_output(c: Call, x: Ref, sizes: Ref | None = None) -> Ref:
    """x under the first result's shape; `sizes` say what of it is symbolic."""
    shape = c.outputs[0].shape
    if -1 not in shape and 0 not in shape:
        return c.op("Reshape", x, c.ints(shape))
    if sizes is None:
        return c.op("Reshape", x, c.ints(shape))
    if 0 in shape and c.opset >= 14:
        return c.op("Reshape", x, sizes, allowzero=1)
    return c.op("Reshape", x, sizes)


@export_row("reshape")
def reshape(c: Call, x: Ref, *, shape: Ints) -> Ref:
    return as_output(c, x, c.ints(shape))


@export_row("reshape_like")
def reshape_like(c: Call, x: Ref, like: Ref) -> Ref:
    return as_output(c, x, c.shape(like))


@export_row("sized")
def sized(
    c: Call, *xs: Ref, sizes: Ints, axes: Ints, divisors: Ints, extras: Ints,
    plus: Ints, limits: Ints,
) -> Ref:  # fmt: skip
    def named(code: int) -> int | Ref:
        return c.size(xs[code // 8], code % 8)

    def vector(size: int | Ref) -> Ref:
        return c.vector([size])

    found: list[int | Ref] = []
    for i, known in enumerate(c.outputs[0].shape):
        limit = limits[i] if limits else -1
        if known >= 0 or (axes[i] < 0 and limit == -1):
            found.append(known if known >= 0 else sizes[i])
            continue
        n = c.ints([sizes[i]]) if axes[i] < 0 else named(axes[i])
        # Div rounds towards 0: what is below 0 is divided without its sign, rounded up.
        below = sizes[i] < 0 and axes[i] >= 0 and divisors[i] != 1
        if sizes[i] != 1 and axes[i] >= 0:
            n = c.op("Mul", vector(n), c.ints([abs(sizes[i]) if below else sizes[i]]))
        if below:
            n = c.op("Add", vector(n), c.ints([divisors[i] - 1]))
        if divisors[i] != 1:
            n = c.op("Div", vector(n), c.ints([divisors[i]]))
        if below:
            n = c.op("Neg", vector(n))
        if extras[i]:
            n = c.op("Add", vector(n), c.ints([extras[i]]))
        if plus[i] != -1:
            op, code = ("Add", plus[i]) if plus[i] >= 0 else ("Sub", -2 - plus[i])
            n = c.op(op, vector(n), vector(named(code)))
        if limit != -1:
            end = vector(named(limit if limit >= 0 else -2 - limit))
            n = _limited(c, vector(n), end, from_end=limit < 0)
        found.append(n)
    for i, n in enumerate(found):
        if n == -1:  # what the others leave of the first array's elements
            others = c.product([m for k, m in enumerate(found) if k != i])
            whole = c.product([c.size(xs[0], k) for k in range(xs[0].rank)])
            found[i] = c.op("Div", vector(whole), vector(others))
    first = slice_(c, c.op("Reshape", xs[0], c.ints([-1])), [0], [0], [1])
    if xs[0].shape is None or min(xs[0].shape, default=1) < 1:  # it may have no first
        zero = c.graph.constant(np.zeros(1, NUMPY_TYPES[first.dtype]), first.dtype)
        first = slice_(c, concat(c, [first, zero], 0), [0], [0], [1])
    if not found:
        return c.op("Reshape", first, c.ints([]))
    vector_of_all = c.vector(found)
    result = expand(c, first, vector_of_all)
    c.graph.remember(("shape", result.name), vector_of_all)
    return result


def _limited(c: Call, n: Ref, end: Ref, *, from_end: bool) -> Ref:
    """A size from 0 to another. Below 0 it may count from the other."""
    zero = c.ints([0])
    bounded = _extreme(c, "Max", n, zero)
    if from_end:  # n + end, or n itself, without an array that is below zero
        below = _extreme(c, "Max", c.op("Neg", n), zero)
        is_below = _extreme(c, "Min", below, c.ints([1]))
        n = c.op("Add", bounded, c.op("Mul", is_below, end))
        bounded = _extreme(c, "Max", c.op("Sub", n, below), zero)
    return _extreme(c, "Min", bounded, end)


def _extreme(c: Call, op: str, x: Ref, y: Ref) -> Ref:
    if c.opset >= 12:  # before, not of integers
        return c.op(op, x, y)
    return c.op("Where", c.op("Less" if op == "Min" else "Greater", x, y), x, y)


@export_row("transpose")
def transposed(c: Call, x: Ref, *, perm: Ints) -> Ref:
    return c.op("Identity", x) if x.rank < 2 else transpose(c, x, perm)


@export_row("swap_last")
def swap_last(c: Call, x: Ref) -> Ref:
    perm = list(range(x.rank))
    return transpose(c, x, [*perm[:-2], perm[-1], perm[-2]])


@export_row("broadcast_to")
def broadcast_to(c: Call, x: Ref, *, shape: Ints) -> Ref:
    return expand(c, x, [1 if n == -1 else n for n in shape])


@export_row("broadcast_like")
def broadcast_like(c: Call, x: Ref, like: Ref) -> Ref:
    return expand(c, x, c.shape(like))


@export_row("squeeze")
def squeezed(c: Call, x: Ref, *, axis: Ints) -> Ref:
    assert x.shape is not None
    named = [a % x.rank for a in axis] if axis else list(range(x.rank))
    axes = sorted(a for a in named if x.shape[a] == 1)
    return squeeze(c, x, axes) if axes else c.op("Identity", x)


@export_row("unsqueeze")
def unsqueezed(c: Call, x: Ref, *, axis: Ints) -> Ref:
    rank = x.rank + len(axis)
    axes = sorted(a % rank for a in axis)
    return unsqueeze(c, x, axes) if axes else c.op("Identity", x)


@export_row("flatten")
def flatten(c: Call, x: Ref, *, start_axis: int, stop_axis: int) -> Ref:
    if x.rank == 0:
        return c.op("Reshape", x, c.ints([1]))
    start, stop = start_axis % x.rank, stop_axis % x.rank
    if -1 not in c.outputs[0].shape:
        return c.op("Reshape", x, c.ints(c.outputs[0].shape))
    merged = c.product([c.size(x, i) for i in range(start, stop + 1)])
    rest = [c.size(x, i) for i in range(stop + 1, x.rank)]
    if isinstance(merged, Ref) and start == 0 and all(isinstance(n, int) for n in rest):
        merged = -1  # of an empty array it follows only from sizes that are not 0
    return c.op("Reshape", x, c.vector([*[0] * start, merged, *rest]))


@export_row("slice")
def sliced(
    c: Call, x: Ref, *, axes: Ints, starts: Ints, ends: Ints, steps: Ints
) -> Ref:
    axes = [a % x.rank for a in axes]
    return slice_(c, x, axes, starts, ends, steps)


@export_row("select")
def select(c: Call, x: Ref, *, axis: int, index: int) -> Ref:
    axis %= x.rank
    return gather(c, x, c.const(np.int64(index), "int64"), axis)


# -- elements by their number ----------------------------------------------------------
def places(c: Call, x: Ref, why: str) -> Array:
    """The numbers of an array's elements, in its shape."""
    if x.shape is None or -1 in x.shape:
        c.refuse(f"{why} of symbolic sizes")
    return np.arange(int(np.prod(x.shape))).reshape(x.shape)


def put(c: Call, flat: Ref, at: Array, v: Ref) -> Ref:
    """A list with elements of v at places that differ."""
    index = c.const(at.reshape(-1), "int64")
    elements = c.op("Reshape", v, c.ints([-1]))
    op = "Scatter" if c.opset < 11 else "ScatterElements"
    return c.op(op, flat, index, elements, axis=0)


def _put_in_zeros(c: Call, dy: Ref, like: Ref, at: Array) -> Ref:
    assert like.shape is not None
    zeros = full(c, c.ints([int(np.prod(like.shape))]), 0, dy.dtype)
    return as_output(c, put(c, zeros, at, dy), c.shape(like))


def _slices(rank: int, axes: Ints, starts: Ints, ends: Ints, steps: Ints
            ) -> tuple[slice, ...]:  # fmt: skip
    found = [slice(None)] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        stop = None if end in (2**63 - 1, -(2**63)) else end
        found[axis % rank] = slice(start, stop, step)
    return tuple(found)


@export_row("slice_grad")
def slice_grad(c: Call, dy: Ref, like: Ref, **bounds: Ints) -> Ref:
    every = places(c, like, "the gradient of a slice")
    return _put_in_zeros(c, dy, like, every[_slices(every.ndim, **bounds)])


@export_row("select_grad")
def select_grad(c: Call, dy: Ref, like: Ref, *, axis: int, index: int) -> Ref:
    every = places(c, like, "the gradient of a selection")
    return _put_in_zeros(c, dy, like, every.take(index, axis))


@export_row("diagonal")
def diagonal(c: Call, x: Ref, *, offset: int, axis1: int, axis2: int) -> Ref:
    assert x.shape is not None
    first, second = axis1 % x.rank, axis2 % x.rank
    rows, columns = x.shape[first], x.shape[second]
    if min(rows, columns) < 0:
        c.refuse("diagonals of symbolic sizes")
    rest = [i for i in range(x.rank) if i not in (first, second)]
    planes = transpose(c, x, [*rest, first, second])
    flat = c.op("Reshape", planes, c.ints([*[0] * len(rest), -1]))
    index = np.diagonal(np.arange(rows * columns).reshape(rows, columns), offset)
    return c.op("Gather", flat, c.const(index, "int64"), axis=len(rest))


@export_row("diagonal_grad")
def diagonal_grad(c: Call, dy: Ref, like: Ref, **which: int) -> Ref:
    every = places(c, like, "the gradient of a diagonal")
    return _put_in_zeros(c, dy, like, np.diagonal(every, **which))


@export_row("slice_assign")
def slice_assign(c: Call, x: Ref, v: Ref, **bounds: Ints) -> Ref:
    assert x.shape is not None
    if -1 not in x.shape:
        every = places(c, x, "assignment")
        target = every[_slices(every.ndim, **bounds)]
        v = expand(c, v, list(target.shape))
        flat = c.op("Reshape", x, c.ints([-1]))
        return as_output(c, put(c, flat, target, v), c.shape(x))
    # Numbers of all elements, of which the slice picks those to be replaced.
    count = c.op("ReduceProd", c.shape(x), keepdims=0)
    zero, one = (c.const(np.int64(n), "int64") for n in (0, 1))
    every_place = c.op("Reshape", c.op("Range", zero, count, one), c.shape(x))
    numbers = Ref(every_place.name, "int64", x.shape)
    target_ref = sliced(c, numbers, **bounds)
    elements = expand(c, v, c.op("Shape", target_ref))
    flat_list = c.ints([-1])
    result = c.op(
        "ScatterElements", c.op("Reshape", x, flat_list),
        c.op("Reshape", target_ref, flat_list), c.op("Reshape", elements, flat_list),
        axis=0,
    )  # fmt: skip
    return c.op("Reshape", result, c.shape(x))


# -- copies ----------------------------------------------------------------------------
@export_row("concat")
def joined(c: Call, *xs: Ref, axis: int) -> Ref:
    return c.op("Concat", *xs, axis=axis % xs[0].rank)


@export_row("stack")
def stack(c: Call, *xs: Ref, axis: int) -> Ref:
    axis %= xs[0].rank + 1
    parts = [unsqueeze(c, x, [axis]) for x in xs]
    return c.op("Concat", *parts, axis=axis)


@export_row("tile")
def tile(c: Call, x: Ref, *, repeats: Ints) -> Ref:
    rank = max(x.rank, len(repeats))
    if x.rank < rank:
        x = unsqueeze(c, x, list(range(rank - x.rank)))
    return c.op("Tile", x, c.ints([*[1] * (rank - len(repeats)), *repeats]))


@export_row("pad")
def pad(c: Call, x: Ref, *, low: Ints, high: Ints, mode: str, value: float) -> Ref:
    if mode != "circular":
        return padded(c, x, low, high, value, _MODES[mode])
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        parts = [x]
        if before:
            parts.insert(0, slice_(c, x, [axis], [-before], [2**63 - 1]))
        if after:
            parts.append(slice_(c, x, [axis], [0], [after]))
        x = concat(c, parts, axis)
    return x


# -- triangles -------------------------------------------------------------------------
def _triangle(c: Call, x: Ref, diagonal: int, upper: bool) -> Ref:
    if c.opset >= 14:
        k = c.const(np.int64(diagonal), "int64")
        return c.op("Trilu", x, k, upper=int(upper))
    assert x.shape is not None
    zero = c.number(0, x)
    rows, columns = x.shape[-2:]
    if min(rows, columns) < 0:
        c.refuse("triangles of symbolic sizes need opset 14")
    part = (np.triu if upper else np.tril)(np.ones((rows, columns), bool), diagonal)
    return where(c, c.const(part, "bool"), x, zero)


@export_row("tril", "triu")
def tril(c: Call, x: Ref, *, diagonal: int) -> Ref:
    return _triangle(c, x, diagonal, c.name == "triu")


@export_row("triangle")
def triangle(c: Call, x: Ref, *, upper: bool, strict: bool) -> Ref:
    return _triangle(c, x, (1 if upper else -1) * int(strict), upper)


# -- from nothing ----------------------------------------------------------------------
@export_row("full")
def filled(c: Call, *, shape: Ints, value: float, dtype: str) -> Ref:
    return full(c, c.ints(shape), value, dtype)


@export_row("full_like")
def full_like(c: Call, like: Ref, *, value: float, dtype: str) -> Ref:
    return full(c, c.shape(like), value, dtype)


@export_row("arange")
def arange(c: Call, *, start: float, step: float, count: int, dtype: str) -> Ref:
    kind = NUMPY_TYPES[dtype]
    if dtype == "bfloat16":
        return c.cast(c.const(start + step * np.arange(count), "float32"), dtype)
    return c.const((start + step * np.arange(count)).astype(kind), dtype)


@export_row("linspace")
def linspace(c: Call, *, start: float, stop: float, count: int, dtype: str) -> Ref:
    numbers = c.const(np.linspace(start, stop, count), "float64")
    return c.cast(numbers, dtype)


@export_row("eye")
def eye(c: Call, *, rows: int, columns: int, dtype: str) -> Ref:
    return c.cast(c.const(np.eye(rows, columns, dtype=bool), "bool"), dtype)
