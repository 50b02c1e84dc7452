"""Rows that change how elements are addressed, that move them, and that make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa.interop.exporter.sums import window_matrix
from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.table import export_row
from proa.interop.paddle.exporter.writer import CODES, Longs
from proa.ir.program import NUMPY_TYPES

Ints = Sequence[int]
_LIMIT = 2**31 - 1


@export_row("reshape")
def reshape(c: Call, x: Ref, *, shape: Ints) -> Ref:
    final = c.outputs[0].shape
    return c.reshape(x, final if -1 not in final else list(shape))


@export_row("reshape_like")
def reshape_like(c: Call, x: Ref, like: Ref) -> Ref:
    known = list(c.outputs[0].shape)
    if known.count(-1) <= 1:
        return c.reshape(x, known)
    return c.op(
        "reshape2", {"X": x, "Shape": c.shape(like)}, known, more=["XShape"],
        shape=known,
    )  # fmt: skip


@export_row("sized")
def sized(
    c: Call, *xs: Ref, sizes: Ints, axes: Ints, divisors: Ints, extras: Ints,
    plus: Ints, limits: Ints,
) -> Ref:  # fmt: skip
    def named(code: int) -> Ref:
        return _vector(c, c.size(xs[code // 8], code % 8))

    found: list[int | Ref] = []
    for i, known in enumerate(c.outputs[0].shape):
        limit = limits[i] if limits else -1
        if known >= 0 or (axes[i] < 0 and limit == -1):
            found.append(known if known >= 0 else sizes[i])
            continue
        n = c.ints([sizes[i]]) if axes[i] < 0 else named(axes[i])
        # Versions differ in how they divide what is below 0: it is divided without its
        # sign, rounded up.
        below = sizes[i] < 0 and divisors[i] != 1
        for kind, value, neutral in (
            ("elementwise_mul", abs(sizes[i]) if below else sizes[i], 1),
            ("elementwise_add", divisors[i] - 1 if below else 0, 0),
            ("elementwise_floordiv", divisors[i], 1),
            ("elementwise_mul", -1 if below else 1, 1),
            ("elementwise_add", extras[i], 0),
        ):
            if value != neutral and axes[i] >= 0:
                n = c.binary(kind, n, c.ints([value]))
        if plus[i] != -1:
            kind = "elementwise_add" if plus[i] >= 0 else "elementwise_sub"
            n = c.binary(kind, n, named(plus[i] if plus[i] >= 0 else -2 - plus[i]))
        if limit != -1:
            end = named(limit if limit >= 0 else -2 - limit)
            n = _limited(c, n, end, from_end=limit < 0)
        found.append(n)
    if -1 in [n for n in found if isinstance(n, int)]:
        found[found.index(-1)] = _rest(c, xs[0], found)
    first = c.op(
        "slice", {"Input": c.reshape(xs[0], [-1])}, [1], axes=[0], starts=[0],
        ends=[1], infer_flags=[1], decrease_axis=[],
    )  # fmt: skip
    shape = c.outputs[0].shape
    if min(xs[0].shape or [0]) < 1:  # what may have no elements may have no first one
        zero = c.cast(c.const([0], "int32"), xs[0].dtype)
        first = c.op("concat", {"X": [first, zero]}, [-1], axis=0)
        first = c.op(
            "slice", {"Input": first}, [1], axes=[0], starts=[0], ends=[1],
            infer_flags=[1], decrease_axis=[],
        )  # fmt: skip
    if -1 in shape:
        given = {"X": first, "Shape": c.vector(found)}
        result = c.op("expand_v2", given, shape, shape=[-1] * len(shape))
    else:
        result = broadcast_to(c, first, shape=shape) if shape else c.reshape(first, [])
    c.writer.remember(("shape", result.name), c.vector(found))
    return result


def _limited(c: Call, n: Ref, end: Ref, *, from_end: bool) -> Ref:
    """A size from 0 to another. Below 0 it may count from the other."""
    zero = c.ints([0])
    bounded = c.binary("elementwise_max", n, zero)
    if from_end:  # n + end, or n itself, without an array that is below zero
        below = c.binary("elementwise_max", c.binary("elementwise_sub", zero, n), zero)
        is_below = c.binary("elementwise_min", below, c.ints([1]))
        skipped = c.binary("elementwise_mul", is_below, end)
        n = c.binary("elementwise_add", bounded, skipped)
        n = c.binary("elementwise_sub", n, below)
        bounded = c.binary("elementwise_max", n, zero)
    return c.binary("elementwise_min", bounded, end)


def _vector(c: Call, size: int | Ref) -> Ref:
    return size if isinstance(size, Ref) else c.ints([size])


def _rest(c: Call, x: Ref, sizes: Sequence[int | Ref]) -> Ref:
    """The size that the others leave of an array's elements."""
    whole, others = c.ints([1]), c.ints([1])
    for axis in range(x.rank):
        whole = c.binary("elementwise_mul", whole, _vector(c, c.size(x, axis)))
    for n in sizes:
        if not isinstance(n, int) or n != -1:
            others = c.binary("elementwise_mul", others, _vector(c, n))
    return c.binary("elementwise_floordiv", whole, others)


@export_row("transpose")
def transpose(c: Call, x: Ref, *, perm: Ints) -> Ref:
    return c.transpose(x, list(perm)) if x.rank else x


@export_row("swap_last")
def swap_last(c: Call, x: Ref) -> Ref:
    perm = list(range(x.rank))
    return c.transpose(x, [*perm[:-2], perm[-1], perm[-2]])


@export_row("broadcast_to")
def broadcast_to(c: Call, x: Ref, *, shape: Ints) -> Ref:
    return c.op("expand_v2", {"X": x}, c.outputs[0].shape, shape=list(shape))


@export_row("broadcast_like", "expand_last", "broadcast_channels")
def broadcast_like(c: Call, x: Ref, like: Ref, **_: int) -> Ref:
    assert like.shape is not None
    if c.name == "broadcast_channels":
        x = c.reshape(x, [1, -1, *[1] * (like.rank - 2)])
    if c.name == "expand_last" and x.rank < like.rank:
        x = c.unsqueeze(x, list(range(x.rank, like.rank)))
    if -1 not in like.shape:
        return broadcast_to(c, x, shape=like.shape)
    given = {"X": x, "Shape": c.shape(like)}
    return c.op("expand_v2", given, c.outputs[0].shape, shape=[-1] * like.rank)


@export_row("squeeze")
def squeeze(c: Call, x: Ref, *, axis: Ints) -> Ref:
    assert x.shape is not None
    axes = sorted({a % x.rank for a in axis} if axis else set(range(x.rank)))
    shape = c.outputs[0].shape
    if x.rank - len(shape) != len(axes):  # not those that have other sizes
        axes = [a for a in axes if x.shape[a] == 1]
    if not axes:
        return x
    return c.op("squeeze2", {"X": x}, shape, more=["XShape"], axes=axes)


@export_row("unsqueeze")
def unsqueeze(c: Call, x: Ref, *, axis: Ints) -> Ref:
    rank = x.rank + len(axis)
    return c.unsqueeze(x, [a % rank for a in axis]) if axis else x


@export_row("flatten")
def flatten(c: Call, x: Ref, *, start_axis: int, stop_axis: int) -> Ref:
    if x.rank == 0:
        return c.reshape(x, [1])
    return c.op(
        "flatten_contiguous_range", {"X": x}, c.outputs[0].shape, more=["XShape"],
        start_axis=start_axis % x.rank, stop_axis=stop_axis % x.rank,
    )  # fmt: skip


@export_row("slice")
def slice_(c: Call, x: Ref, *, axes: Ints, starts: Ints, ends: Ints, steps: Ints
           ) -> Ref:  # fmt: skip
    axes = [a % x.rank for a in axes]
    low, high = ([max(-_LIMIT, min(n, _LIMIT)) for n in v] for v in (starts, ends))
    attrs: dict[str, Any] = {
        "axes": axes,
        "infer_flags": [1] * len(axes),
        "decrease_axis": [],
    }
    shape = c.outputs[0].shape
    if all(n == 1 for n in steps):
        return c.op("slice", {"Input": x}, shape, starts=low, ends=high, **attrs)
    back = [a for a, step in zip(axes, steps, strict=True) if step < 0]
    if back:  # from the front of the reversed axis: place k is its place -1 - k
        x = c.op("flip", {"X": x}, x.shape, axis=back)
        low = [_mirrored(n) if s < 0 else n for n, s in zip(low, steps, strict=True)]
        high = [_mirrored(n) if s < 0 else n for n, s in zip(high, steps, strict=True)]
    return c.op(
        "strided_slice", {"Input": x}, shape, starts=low, ends=high,
        strides=[abs(n) for n in steps], **attrs,
    )  # fmt: skip


def _mirrored(place: int) -> int:
    if abs(place) == _LIMIT:
        return 0 if place > 0 else _LIMIT
    return -1 - place


@export_row("select")
def select(c: Call, x: Ref, *, axis: int, index: int) -> Ref:
    axis %= x.rank
    end = index + 1 if index != -1 else _LIMIT
    return c.op(
        "slice", {"Input": x}, c.outputs[0].shape, axes=[axis], starts=[index],
        ends=[end], infer_flags=[1], decrease_axis=[axis],
    )  # fmt: skip


@export_row("slice_assign")
def slice_assign(c: Call, x: Ref, v: Ref, *, axes: Ints, starts: Ints, ends: Ints,
                 steps: Ints) -> Ref:  # fmt: skip
    low, high = ([max(-_LIMIT, min(n, _LIMIT)) for n in k] for k in (starts, ends))
    return c.op(
        "set_value", {"Input": x, "ValueTensor": v}, x.shape, dtype=x.dtype,
        axes=Longs(a % x.rank for a in axes), starts=Longs(low), ends=Longs(high),
        steps=Longs(steps), decrease_axes=Longs(), none_axes=Longs(), shape=Longs(),
        dtype_=CODES[x.dtype],
    )  # fmt: skip


@export_row("diagonal")
def diagonal(c: Call, x: Ref, *, offset: int, axis1: int, axis2: int) -> Ref:
    return c.op(
        "diagonal", {"Input": x}, c.outputs[0].shape, offset=offset,
        axis1=axis1 % x.rank, axis2=axis2 % x.rank,
    )  # fmt: skip


@export_row("concat")
def concat(c: Call, *xs: Ref, axis: int) -> Ref:
    return c.op("concat", {"X": xs}, c.outputs[0].shape, axis=axis % xs[0].rank)


@export_row("stack")
def stack(c: Call, *xs: Ref, axis: int) -> Ref:
    return c.op("stack", {"X": xs}, c.outputs[0].shape, out="Y", axis=axis)


@export_row("tile")
def tile(c: Call, x: Ref, *, repeats: Ints) -> Ref:
    return c.op("tile", {"X": x}, c.outputs[0].shape, repeat_times=list(repeats))


@export_row("pad")
def pad(c: Call, x: Ref, *, low: Ints, high: Ints, mode: str, value: float) -> Ref:
    shape = c.outputs[0].shape
    if min(*low, *high, 0) < 0:
        starts = [max(-n, 0) for n in low]
        ends = [n if n < 0 else _LIMIT for n in high]
        every = list(range(x.rank))
        inner = c.row(
            "slice", x, axes=every, starts=starts, ends=ends, steps=[1] * x.rank
        )
        low, high = ([max(n, 0) for n in v] for v in (low, high))
        return c.row(  # type: ignore[no-any-return]
            "pad", inner, low=low, high=high, mode=mode, value=value
        )
    if x.rank not in (3, 4, 5) or any((*low[:2], *high[:2])):
        if mode != "constant":
            return _with_copies(c, x, low, high, mode)
        return _with_borders(c, x, low, high, value)
    wide = c.unsqueeze(x, list(range(2, 7 - x.rank))) if x.rank < 5 else x
    numbers = [n for i in reversed(range(2, x.rank)) for n in (low[i], high[i])]
    numbers += [0] * (6 - len(numbers))
    assert wide.shape is not None
    final = [*shape[:2], *[1] * (5 - x.rank), *shape[2:]]
    found = c.op(
        "pad3d", {"X": wide}, final, paddings=numbers, mode=mode, value=float(value),
        data_format="NCDHW",
    )  # fmt: skip
    if x.rank == 5:
        return found
    axes = list(range(2, 7 - x.rank))
    return c.op("squeeze2", {"X": found}, shape, more=["XShape"], axes=axes)


def _with_borders(c: Call, x: Ref, low: Ints, high: Ints, value: float) -> Ref:
    """x with arrays of one number at the ends of its axes."""
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        if before == after == 0:
            continue
        parts = [x]
        for count, at in ((before, 0), (after, len(parts) + 1)):
            if count:
                sizes = [c.size(x, i) for i in range(x.rank)]
                sizes[axis] = count
                parts.insert(at, c.filled(sizes, value, x.dtype))
        assert x.shape is not None
        size = x.shape[axis]
        whole = -1 if size < 0 else size + before + after
        shape = [*x.shape[:axis], whole, *x.shape[axis + 1 :]]
        x = c.op("concat", {"X": parts}, shape, axis=axis)
    return x


def _with_copies(c: Call, x: Ref, low: Ints, high: Ints, mode: str) -> Ref:
    """x with copies of its own elements at the ends of its axes."""
    step = -1 if mode == "reflect" else 1
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        # From and to, counted from the end where the numbers are negative.
        bounds = {
            "reflect": ((before, 0), (-2, -2 - after)),
            "circular": ((-before, _LIMIT), (0, after)),
        }.get(mode, ((0, 1), (-1, _LIMIT)))
        ends = []
        for count, (start, end) in zip((before, after), bounds, strict=True):
            if not count:
                continue
            part = c.row(
                "slice", x, axes=[axis], starts=[start], ends=[end], steps=[step]
            )
            if mode == "replicate":
                repeats = [count if i == axis else 1 for i in range(x.rank)]
                part = c.row("tile", part, repeats=repeats)
            ends.append(part)
        parts = [*ends[: bool(before)], x, *ends[bool(before) :]]
        x = c.row("concat", *parts, axis=axis) if ends else x
    return x


@export_row("tril", "triu")
def tril(c: Call, x: Ref, *, diagonal: int) -> Ref:
    return c.unary("tril_triu", x, diagonal=diagonal, lower=c.name == "tril")


# -- from nothing ----------------------------------------------------------------------
@export_row("full")
def full(c: Call, *, shape: Ints, value: float, dtype: str) -> Ref:
    return c.filled(list(shape), value, dtype)


@export_row("full_like")
def full_like(c: Call, like: Ref, *, value: float, dtype: str) -> Ref:
    return c.op(
        "fill_any_like", {"X": like}, c.outputs[0].shape, dtype=dtype,
        value=float(value), dtype_=CODES[dtype],
    )  # fmt: skip


@export_row("arange")
def arange(c: Call, *, start: float, step: float, count: int, dtype: str) -> Ref:
    return c.const((start + step * np.arange(count)).astype(NUMPY_TYPES[dtype]), dtype)


@export_row("linspace")
def linspace(c: Call, *, start: float, stop: float, count: int, dtype: str) -> Ref:
    return c.cast(c.const(np.linspace(start, stop, count), "float64"), dtype)


@export_row("eye")
def eye(c: Call, *, rows: int, columns: int, dtype: str) -> Ref:
    return c.const(np.eye(rows, columns).astype(NUMPY_TYPES[dtype]), dtype)


@export_row("windows")
def windows(c: Call, x: Ref, *, axis: int, size: int, step: int, dilation: int) -> Ref:
    """Element i of every window is a slice; they are stacked along a new last axis."""
    shape = list(c.outputs[0].shape[:-1])
    axis %= x.rank
    parts = []
    for i in range(size):
        end = -(size - 1 - i) * dilation or _LIMIT
        parts.append(c.op(
            "strided_slice", {"Input": x}, shape, axes=[axis], starts=[i * dilation],
            ends=[end], strides=[step], infer_flags=[1], decrease_axis=[],
        ))  # fmt: skip
    return c.op("stack", {"X": parts}, c.outputs[0].shape, out="Y", axis=x.rank)


@export_row("windows_grad")
def windows_grad(c: Call, dy: Ref, like: Ref, *, axis: int, size: int, step: int,
                 dilation: int) -> Ref:  # fmt: skip
    """A product with a matrix that has a one where an element of a window belongs."""
    axis %= like.rank
    matrix = window_matrix(c, like, axis, size, step, dilation)
    # (.., windows, .., size) -> (.., windows * size) @ (windows * size, n)
    rest = [i for i in range(like.rank) if i != axis]
    last = c.transpose(dy, [*rest, axis, like.rank])
    sizes = [c.size(like, i) for i in rest]
    flat = c.reshape(last, [*sizes, matrix.shape[0]])
    weights = c.cast(c.const(matrix, "float32"), dy.dtype)
    shape = [*(s if isinstance(s, int) else -1 for s in sizes), matrix.shape[1]]
    summed = c.op(
        "matmul_v2", {"X": flat, "Y": weights}, shape, trans_x=False, trans_y=False
    )
    perm = [rest.index(i) if i != axis else like.rank - 1 for i in range(like.rank)]
    return c.transpose(summed, perm)
