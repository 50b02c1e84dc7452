"""Rows of reductions and scans along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from proa.interop.exporter.sums import summed_axes
from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.graph import Body
from proa.interop.onnx.exporter.standard import expand, full, reduce, unsqueeze
from proa.interop.onnx.exporter.table import export_row

Ints = Sequence[int]
_FLOATS = {
    "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin",
    "logsumexp": "ReduceLogSumExp",
}  # fmt: skip


def _axes(x: Ref, axis: Ints) -> list[int] | None:
    if x.rank == 0:
        return []
    return sorted(a % x.rank for a in axis) if axis else None


def _whole(c: Call, op: str, x: Ref, axis: Ints, keepdim: bool) -> Ref:
    found = reduce(c, op, x, _axes(x, axis), keepdim)
    return c.op("Identity", found) if found is x else found


def _is_pooling(x: Ref, axis: Ints) -> bool:
    """Whether the axes are those of images, for which runtimes have kernels."""
    is_float = x.dtype in ("float16", "float32", "float64")
    images = x.rank >= 3 and _axes(x, axis) == list(range(2, x.rank))
    return images and is_float and 0 not in (x.shape or ())


@export_row("mean", "max", "min", "logsumexp")
def reduced(c: Call, x: Ref, *, axis: Ints, keepdim: bool) -> Ref:
    if c.name == "mean" and keepdim and _is_pooling(x, axis):
        return c.op("GlobalAveragePool", x)
    # Exponentials of 16-bit floats would overflow.
    instead = {"bool": "int32"}
    if c.name == "logsumexp":
        instead = {"float16": "float32", "bfloat16": "float32"}
    wide = c.cast(x, instead.get(x.dtype, x.dtype))
    return c.cast(_whole(c, _FLOATS[c.name], wide, axis, keepdim), x.dtype)


@export_row("sum", "prod")
def accumulated(c: Call, x: Ref, *, axis: Ints, keepdim: bool) -> Ref:
    wide = c.outputs[0].dtype  # int64 of integers
    op = "ReduceSum" if c.name == "sum" else "ReduceProd"
    return _whole(c, op, c.cast(x, wide), axis, keepdim)


def count_of(c: Call, x: Ref, axis: Ints, keepdim: bool) -> Ref:
    """How many elements are true."""
    return _whole(c, "ReduceSum", c.cast(c.cast(x, "bool"), "int64"), axis, keepdim)


@export_row("any")
def any_(c: Call, x: Ref, *, axis: Ints, keepdim: bool) -> Ref:
    return c.cast(count_of(c, x, axis, keepdim), "bool")


@export_row("all")
def all_(c: Call, x: Ref, *, axis: Ints, keepdim: bool) -> Ref:
    false = c.op("Not", c.cast(x, "bool"))
    false = Ref(false.name, "bool", x.shape)
    return c.op("Not", c.cast(count_of(c, false, axis, keepdim), "bool"))


@export_row("count_nonzero")
def count_nonzero(c: Call, x: Ref) -> Ref:
    return count_of(c, x, (), False)


@export_row("argmax", "argmin")
def arg(c: Call, x: Ref, *, axis: int, keepdim: bool) -> Ref:
    op = "ArgMax" if c.name == "argmax" else "ArgMin"
    if x.rank == 0:
        return c.const(0, "int64")
    return c.op(op, x, axis=axis % x.rank, keepdims=int(keepdim))


@export_row("squared_norm")
def squared_norm(c: Call, *xs: Ref) -> Ref:
    parts = [
        reduce(c, "ReduceSumSquare", c.cast(x, "float32"), None, False) for x in xs
    ]
    return parts[0] if len(parts) == 1 else c.op("Sum", *parts)


@export_row("prod_grad")
def prod_grad(c: Call, *_: Ref, **attrs: Any) -> Ref:
    c.refuse("its composite divides by elements, which may be 0")


# -- undoing a reduction ---------------------------------------------------------------
@export_row("expand_reduced")
def expand_reduced(c: Call, dy: Ref, like: Ref, *, axis: Ints, keepdim: bool) -> Ref:
    axes = _axes(like, axis)
    axes = list(range(like.rank)) if axes is None else axes
    wide = dy if keepdim else unsqueeze(c, dy, axes)
    return expand(c, wide, c.shape(like))


@export_row("mean_grad")
def mean_grad(c: Call, dy: Ref, like: Ref, *, axis: Ints, keepdim: bool) -> Ref:
    axes = _axes(like, axis)
    sizes = [c.size(like, a) for a in (range(like.rank) if axes is None else axes)]
    count = c.cast(c.op("ReduceProd", c.vector(sizes), keepdims=0), dy.dtype)
    wide = expand_reduced(c, dy, like, axis=axis, keepdim=keepdim)
    return c.op("Div", wide, count)


@export_row("sum_to")
def sum_to(c: Call, x: Ref, like: Ref) -> Ref:
    broadcast, removed = summed_axes(c, x, like)
    y = reduce(c, "ReduceSum", x, broadcast)
    y = reduce(c, "ReduceSum", y, removed, keepdim=False)
    return c.op("Identity", y) if y is x else y


# -- along an axis ---------------------------------------------------------------------
Step = Callable[[Ref, Sequence[Ref]], tuple[Ref, Ref]]


def scan(c: Call, first: Ref, xs: Sequence[Ref], axis: int, reverse: bool, step: Step
         ) -> Ref:  # fmt: skip
    """What a step gives for every place along an axis, one after another.

    Args:
        first: The state before the first step.
        step: Called with the state and the arrays at a place; returns the next state
            and the result at that place.
    """
    graph, stem = c.graph, c.graph.stem
    with graph.body() as nodes:
        shape = first.shape or ()
        state = graph.input(f"{stem}/state", first.dtype, shape)
        parts = [graph.input(f"{stem}/part", x.dtype, shape) for x in xs]
        after, result = step(state, parts)
        own = [graph.owned(after)]
        own.append(graph.owned(result, own))
        outputs = [Ref(r.name, r.dtype, shape) for r in own]
        body = Body([state, *parts], list(nodes), outputs)
    count = len(xs)
    attrs = {
        "body": body, "num_scan_inputs": count, "scan_input_axes": [axis] * count,
        "scan_output_axes": [axis], "scan_input_directions": [int(reverse)] * count,
        "scan_output_directions": [int(reverse)],
    }  # fmt: skip
    names = graph.append("Scan", [first.name, *(x.name for x in xs)], attrs, 2)
    return Ref(names[1], first.dtype)


def _first(c: Call, x: Ref, axis: int, value: float) -> Ref:
    """A state of one number, of x's shape without the axis."""
    assert x.shape is not None
    sizes = [c.size(x, i) for i in range(x.rank) if i != axis]
    shape = tuple(n for i, n in enumerate(x.shape) if i != axis)
    result = full(c, c.vector(sizes), value, x.dtype)
    return Ref(result.name, x.dtype, shape)


def _running(c: Call, op: str, x: Ref, axis: int, reverse: bool, value: float) -> Ref:
    if 0 in (x.shape or ()):
        return c.op("Identity", x)

    def step(state: Ref, parts: Sequence[Ref]) -> tuple[Ref, Ref]:
        after = c.op(op, state, *parts)
        return after, after

    return scan(c, _first(c, x, axis, value), [x], axis, reverse, step)


@export_row("cumsum")
def cumsum_by_scan(c: Call, x: Ref, *, axis: int, reverse: bool) -> Ref:
    wide = "float32" if x.dtype in ("float16", "bfloat16") else x.dtype
    numbers = Ref(c.cast(x, wide).name, wide, x.shape)
    return c.cast(_running(c, "Add", numbers, axis % x.rank, reverse, 0), x.dtype)


@export_row("cumsum", since=11)
def cumsum(c: Call, x: Ref, *, axis: int, reverse: bool) -> Ref:
    place = c.const(axis % x.rank, "int64")
    return c.op("CumSum", x, place, reverse=int(reverse))


@export_row("cumprod")
def cumprod(c: Call, x: Ref, *, axis: int) -> Ref:
    return _running(c, "Mul", x, axis % x.rank, False, 1)


@export_row("linear_recurrence")
def linear_recurrence(c: Call, x: Ref, b: Ref, *, axis: int, reverse: bool,
                      initial: float) -> Ref:  # fmt: skip
    shape = c.outputs[0].shape
    sizes = c.ints(shape) if -1 not in shape else c.op("Shape", c.op("Add", x, b))
    x, b = (Ref(expand(c, v, sizes).name, v.dtype, shape) for v in (x, b))
    if 0 in shape:
        return full(c, sizes, 0.0, x.dtype)
    axis %= len(shape)

    def step(state: Ref, parts: Sequence[Ref]) -> tuple[Ref, Ref]:
        return c.op("Add", c.op("Mul", parts[0], state), parts[1]), state

    return scan(c, _first(c, x, axis, initial), [x, b], axis, reverse, step)
