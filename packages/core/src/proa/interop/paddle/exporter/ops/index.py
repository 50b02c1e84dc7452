"""Rows that read elements at indices."""

from __future__ import annotations

from dataclasses import replace

from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.table import export_row
from proa.interop.paddle.exporter.writer import CODES, Long


def from_start(c: Call, index: Ref, x: Ref, axis: int) -> Ref:
    """The index without negative numbers: not all versions of Paddle take them, and
    not all operators say so.
    """
    if index.data is not None and not (index.data < 0).any():
        return index
    size = c.size(x, axis)
    number = size if isinstance(size, Ref) else c.ints([size])
    found = c.binary("elementwise_mod", index, c.cast(number, index.dtype))
    return replace(found, shape=index.shape)


@export_row("gather")
def gather(c: Call, x: Ref, index: Ref, *, axis: int) -> Ref:
    assert x.shape is not None
    axis %= x.rank
    index = from_start(c, index, x, axis)
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


def _coordinates(c: Call, index: Ref, x: Ref) -> Ref:
    """Coordinates in the first axes of x, of which none is negative."""
    depth = (index.shape or (0,))[-1]
    if depth < 1 or (index.data is not None and not (index.data < 0).any()):
        return index
    sizes = c.vector([c.size(x, i) for i in range(depth)])
    return c.binary("elementwise_mod", index, c.cast(sizes, index.dtype))


@export_row("gather_nd")
def gather_nd(c: Call, x: Ref, index: Ref) -> Ref:
    given = {"X": x, "Index": _coordinates(c, index, x)}
    return c.op("gather_nd", given, c.outputs[0].shape)


def _spread(c: Call, x: Ref, like: Ref, but: int) -> Ref:
    """x with its axes of one element as long as another's, all but one."""
    assert x.shape is not None and like.shape is not None
    own = list(x.shape)
    sizes = [c.size(x, i) for i in range(x.rank)]
    for i, n in enumerate(like.shape):
        if i != but % x.rank and own[i] == 1 and n != 1:
            own[i], sizes[i] = n, c.size(like, i)
    if own == list(x.shape):
        return x
    if -1 not in own:
        return c.op("expand_v2", {"X": x}, own, shape=own)
    given = {"X": x, "Shape": c.vector(sizes)}
    return c.op("expand_v2", given, own, shape=[-1] * x.rank)


@export_row("take_along_axis")
def take_along_axis(c: Call, x: Ref, index: Ref, *, axis: int) -> Ref:
    index = from_start(c, index, x, axis)
    x, index = _spread(c, x, index, axis), _spread(c, index, x, axis)
    return c.op(
        "take_along_axis", {"Input": x, "Index": index}, c.outputs[0].shape,
        out="Result", Axis=axis,
    )  # fmt: skip


@export_row("put_along_axis", "scatter_add_axis")
def put_along_axis(c: Call, x: Ref, index: Ref, v: Ref, *, axis: int) -> Ref:
    reduce = "assign" if c.name == "put_along_axis" else "add"
    index = from_start(c, index, x, axis)
    return c.op(
        "put_along_axis", {"Input": x, "Index": index, "Value": v}, x.shape,
        out="Result", Axis=axis, Reduce=reduce, Include_self=True,
    )  # fmt: skip


@export_row("scatter_nd_like")
def scatter_nd_like(c: Call, dy: Ref, index: Ref, like: Ref) -> Ref:
    zeros = c.row("full_like", like, value=0.0, dtype=dy.dtype)
    index = _coordinates(c, index, like)
    given = {"X": zeros, "Index": index, "Updates": dy}
    return c.op("scatter_nd_add", given, c.outputs[0].shape)


@export_row("index_put")
def index_put(c: Call, x: Ref, index: Ref, v: Ref) -> Ref:
    """By numbers of rows: what `scatter` replaces, the first axes being one."""
    assert x.shape is not None and index.shape is not None
    depth = index.shape[-1]
    if depth < 0:
        c.refuse("a symbolic number of coordinates")
    if depth == 0:
        return c.row("broadcast_like", v, x)  # type: ignore[no-any-return]
    sizes = [c.size(x, i) for i in range(x.rank)]
    lengths = c.cast(c.vector(sizes[:depth]), "int64")
    # A size at a time, the last first: each is a step of the one before it.
    places = c.binary("elementwise_mod", c.cast(index, "int64"), lengths)
    number: Ref | None = None
    for i in range(depth):
        one = c.op(
            "slice", {"Input": places}, index.shape[:-1], axes=[index.rank - 1],
            starts=[i], ends=[i + 1], infer_flags=[1], decrease_axis=[index.rank - 1],
        )  # fmt: skip
        if number is not None:
            size = sizes[i]
            step = c.cast(size if isinstance(size, Ref) else c.ints([size]), "int64")
            number = c.binary("elementwise_mul", number, step)
            one = c.binary("elementwise_add", number, one)
        number = one
    assert number is not None
    rows = c.reshape(x, [-1, *sizes[depth:]])
    values = c.reshape(v, [-1, *sizes[depth:]])
    given = {"X": rows, "Ids": c.reshape(number, [-1]), "Updates": values}
    return c.reshape(c.op("scatter", given, rows.shape, overwrite=True), sizes)


@export_row("nonzero")
def nonzero(c: Call, x: Ref, *, count: int) -> Ref:
    shape = c.outputs[0].shape
    return c.op("where_index", {"Condition": x}, shape, dtype="int64")


@export_row("blend_rows")
def blend_rows(c: Call, x: Ref, index: Ref, weight: Ref) -> Ref:
    assert x.shape is not None and index.shape is not None
    outside = c.binary("less_than", index, c.number(0, index), dtype="bool")
    inside = c.cast(c.unary("logical_not", outside), weight.dtype)
    weight = c.binary("elementwise_mul", weight, inside)
    first = c.reshape(c.binary("elementwise_max", index, c.number(0, index)), [-1])
    rows = c.op("gather", {"X": x, "Index": first}, [-1, *x.shape[1:]], axis=0)
    rows = c.reshape(rows, [c.size(index, 0), c.size(index, 1), c.size(x, 1)])
    wide = c.unsqueeze(weight, [1])
    found = c.op(
        "matmul_v2", {"X": wide, "Y": rows}, [index.shape[0], 1, x.shape[1]],
        trans_x=False, trans_y=False,
    )  # fmt: skip
    shape = c.outputs[0].shape
    return c.op("squeeze2", {"X": found}, shape, more=["XShape"], axes=[1])


@export_row("embedding")
def embedding(c: Call, ids: Ref, weight: Ref, *, padding_idx: int) -> Ref:
    return c.op(
        "lookup_table_v2", {"W": weight, "Ids": ids}, c.outputs[0].shape,
        padding_idx=Long(padding_idx), is_sparse=False,
    )  # fmt: skip


@export_row("one_hot")
def one_hot(c: Call, x: Ref, *, depth: int) -> Ref:
    index = c.binary("elementwise_mod", x, c.number(depth, x))  # -1 is the last
    result = c.op(
        "one_hot_v2", {"X": index}, c.outputs[0].shape, dtype="float32", depth=depth,
        dtype_=CODES["float32"], allow_out_of_range=False,
    )  # fmt: skip
    return c.cast(result, c.outputs[0].dtype)
