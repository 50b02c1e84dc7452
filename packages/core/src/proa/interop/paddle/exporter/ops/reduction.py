"""Rows of reductions, and the order of elements."""

from __future__ import annotations

from collections.abc import Sequence

from proa.interop.exporter.sums import summed_axes
from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.table import export_row
from proa.interop.paddle.exporter.writer import CODES, Long

Ints = Sequence[int]


@export_row("sum", "mean", "max", "min", "prod", "any", "all")
def reduce(c: Call, x: Ref, *, axis: Ints, keepdim: bool) -> Ref:
    axes = [a % x.rank for a in axis]
    whole = not axes or len(axes) == x.rank
    dtype = c.outputs[0].dtype
    if c.name in ("sum", "mean", "prod"):
        x = c.cast(x, dtype)
    return c.op(
        f"reduce_{c.name}", {"X": x}, c.outputs[0].shape, dtype=dtype,
        dim=axes or [0], keep_dim=bool(keepdim), reduce_all=whole, in_dtype=-1,
        out_dtype=-1,
    )  # fmt: skip


@export_row("mean_last", "sum_last")
def reduce_last(c: Call, x: Ref, *, axes: int) -> Ref:
    last = list(range(x.rank - axes, x.rank))
    keepdim = len(c.outputs[0].shape) == x.rank
    name = c.name.removesuffix("_last")
    return c.op(
        f"reduce_{name}", {"X": x}, c.outputs[0].shape, dim=last, keep_dim=keepdim,
        reduce_all=axes == x.rank, in_dtype=-1, out_dtype=-1,
    )  # fmt: skip


def added(c: Call, x: Ref, axes: Ints, keepdim: bool, kind: str = "sum") -> Ref:
    """The sums, or another reduction, over some axes."""
    assert x.shape is not None
    if not axes:
        return x
    shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
    if not keepdim:
        shape = [n for i, n in enumerate(x.shape) if i not in axes]
    return c.op(
        f"reduce_{kind}", {"X": x}, shape, dim=list(axes), keep_dim=keepdim,
        reduce_all=len(axes) == x.rank, in_dtype=-1, out_dtype=-1,
    )  # fmt: skip


@export_row("sum_axis")
def sum_axis(c: Call, x: Ref, *, axis: int) -> Ref:
    return added(c, x, [axis % x.rank], True)


@export_row("sum_channels", "sum_leading")
def sum_channels(c: Call, x: Ref) -> Ref:
    channel_axis = 1 if c.name == "sum_channels" else x.rank - 1
    return added(c, x, [i for i in range(x.rank) if i != channel_axis], False)


@export_row("sum_to")
def sum_to(c: Call, x: Ref, like: Ref) -> Ref:
    broadcast, removed = summed_axes(c, x, like)
    return added(c, added(c, x, broadcast, True), removed, False)


@export_row("count_nonzero")
def count_nonzero(c: Call, x: Ref) -> Ref:
    return added(c, c.cast(c.cast(x, "bool"), "int64"), list(range(x.rank)), False)


@export_row("squared_norm")
def squared_norm(c: Call, *xs: Ref) -> Ref:
    squares = [c.unary("square", c.cast(x, "float32")) for x in xs]
    parts = [added(c, s, list(range(s.rank)), False) for s in squares]
    return parts[0] if len(parts) == 1 else c.op("sum", {"X": parts}, [])


@export_row("expand_reduced", "mean_grad")
def expand_reduced(c: Call, dy: Ref, like: Ref, *, axis: Ints, keepdim: bool) -> Ref:
    axes = sorted({a % like.rank for a in axis} or range(like.rank))
    wide = dy if keepdim or not axes else c.unsqueeze(dy, axes)
    if c.name == "mean_grad":
        return mean_over(c, wide, like, axes)
    return c.row("broadcast_like", wide, like)  # type: ignore[no-any-return]


def mean_over(c: Call, dy: Ref, like: Ref, axes: Ints) -> Ref:
    """The gradient of a mean over axes, which dy has with one element each."""
    wide = c.row("broadcast_like", dy, like)
    count = c.product([c.size(like, a) for a in axes])
    number = c.cast(count if isinstance(count, Ref) else c.ints([count]), dy.dtype)
    return c.op("elementwise_div", {"X": wide, "Y": number}, like.shape, axis=-1)


@export_row("logsumexp")
def logsumexp(c: Call, x: Ref, *, axis: Ints, keepdim: bool) -> Ref:
    axes = [a % x.rank for a in axis]
    whole = not axes or len(axes) == x.rank
    return c.op(
        "logsumexp", {"X": x}, c.outputs[0].shape, axis=axes or [0],
        keepdim=bool(keepdim), reduce_all=whole,
    )  # fmt: skip


@export_row("argmax", "argmin")
def argmax(c: Call, x: Ref, *, axis: int, keepdim: bool) -> Ref:
    kind = "arg_max" if c.name == "argmax" else "arg_min"
    given = c.cast(x, "int32") if x.dtype == "bool" else x
    return c.op(
        kind, {"X": given}, c.outputs[0].shape, dtype="int64", axis=Long(axis),
        keepdims=bool(keepdim), flatten=False, dtype_=CODES["int64"],
    )  # fmt: skip


@export_row("cumsum")
def cumsum(c: Call, x: Ref, *, axis: int, reverse: bool) -> Ref:
    return c.unary(
        "cumsum", x, axis=axis, reverse=bool(reverse), flatten=False, exclusive=False
    )


@export_row("cumprod")
def cumprod(c: Call, x: Ref, *, axis: int) -> Ref:
    return c.unary("cumprod", x, dim=axis)


def _with_index(c: Call, kind: str, x: Ref, **attrs: bool | int) -> tuple[Ref, Ref]:
    shape = c.outputs[0].shape
    results = [
        c.writer.variable(c.writer.stem, dtype, shape) for dtype in (x.dtype, "int64")
    ]
    outputs = {"Out": [results[0].name], "Indices": [results[1].name]}
    c.writer.op(kind, {"X": [x.name]}, outputs, attrs)
    return results[0], results[1]


@export_row("sort")
def sort(c: Call, x: Ref, *, axis: int, descending: bool) -> tuple[Ref, Ref]:
    if x.rank == 0:
        return c.unary("assign", x), c.const(0, "int64")
    return _with_index(c, "argsort", x, axis=axis, descending=bool(descending))


@export_row("topk")
def topk(c: Call, x: Ref, *, k: int, axis: int, largest: bool) -> tuple[Ref, Ref]:
    more = {"axis": axis, "largest": bool(largest), "sorted": True}
    return _with_index(c, "top_k_v2", x, k=k, **more)
