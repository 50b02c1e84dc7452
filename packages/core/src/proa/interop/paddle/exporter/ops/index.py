"""Rows that read elements at indices."""

from __future__ import annotations

from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.table import export_row
from proa.interop.paddle.exporter.writer import CODES, Long, Ref


@export_row("gather")
def gather(c: Call, x: Ref, index: Ref, *, axis: int) -> Ref:
    assert x.shape is not None
    axis %= x.rank
    flat = index if index.rank == 1 else c.reshape(index, [-1])
    shape = [*x.shape[:axis], -1, *x.shape[axis + 1 :]]
    found = c.op("gather", {"X": x, "Index": flat}, shape, axis=axis)
    if index.rank == 1:
        return found
    sizes = [
        *(c.size(x, i) for i in range(axis)),
        *(c.size(index, i) for i in range(index.rank)),
        *(c.size(x, i) for i in range(axis + 1, x.rank)),
    ]
    return c.reshape(found, sizes)


@export_row("gather_nd")
def gather_nd(c: Call, x: Ref, index: Ref) -> Ref:
    return c.op("gather_nd", {"X": x, "Index": index}, c.outputs[0].shape)


@export_row("take_along_axis")
def take_along_axis(c: Call, x: Ref, index: Ref, *, axis: int) -> Ref:
    return c.op(
        "take_along_axis", {"Input": x, "Index": index}, c.outputs[0].shape,
        out="Result", Axis=axis,
    )  # fmt: skip


@export_row("embedding")
def embedding(c: Call, ids: Ref, weight: Ref, *, padding_idx: int) -> Ref:
    return c.op(
        "lookup_table_v2", {"W": weight, "Ids": ids}, c.outputs[0].shape,
        padding_idx=Long(padding_idx), is_sparse=False,
    )  # fmt: skip


@export_row("one_hot")
def one_hot(c: Call, x: Ref, *, depth: int) -> Ref:
    made = c.op(
        "one_hot_v2", {"X": x}, c.outputs[0].shape, dtype="float32", depth=depth,
        dtype_=CODES["float32"], allow_out_of_range=False,
    )  # fmt: skip
    return c.cast(made, c.outputs[0].dtype)
