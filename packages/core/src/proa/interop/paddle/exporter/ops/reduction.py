"""Rows of reductions, and the order of elements."""

from __future__ import annotations

from collections.abc import Sequence

from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.table import export_row
from proa.interop.paddle.exporter.writer import CODES, Long, Ref

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
    kept = len(c.outputs[0].shape) == x.rank
    name = c.name.removesuffix("_last")
    return c.op(
        f"reduce_{name}", {"X": x}, c.outputs[0].shape, dim=last, keep_dim=kept,
        reduce_all=axes == x.rank, in_dtype=-1, out_dtype=-1,
    )  # fmt: skip


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
    made = [
        c.writer.variable(c.writer.stem, dtype, shape) for dtype in (x.dtype, "int64")
    ]
    outputs = {"Out": [made[0].name], "Indices": [made[1].name]}
    c.writer.op(kind, {"X": [x.name]}, outputs, attrs)
    return made[0], made[1]


@export_row("sort")
def sort(c: Call, x: Ref, *, axis: int, descending: bool) -> tuple[Ref, Ref]:
    return _with_index(c, "argsort", x, axis=axis, descending=bool(descending))


@export_row("topk")
def topk(c: Call, x: Ref, *, k: int, axis: int, largest: bool) -> tuple[Ref, Ref]:
    more = {"axis": axis, "largest": bool(largest), "sorted": True}
    return _with_index(c, "top_k_v2", x, k=k, **more)
