"""Rows of sorting, selection, random numbers and determinants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.graph import element_type
from proa.interop.onnx.exporter.standard import topk, where
from proa.interop.onnx.exporter.table import export_row


@export_row("sort")
def sort(c: Call, x: Ref, *, axis: int, descending: bool) -> list[Ref]:
    if x.rank == 0:
        return [c.op("Identity", x), c.const(0, "int64")]
    axis %= x.rank
    return topk(c, x, c.size(x, axis), axis, descending)


@export_row("topk")
def topk_(c: Call, x: Ref, *, k: int, axis: int, largest: bool) -> list[Ref]:
    return topk(c, x, k, axis % x.rank, largest)


# -- random numbers: not those that Proa draws, but of the same distribution -----------
def _drawn(c: Call, op: str, inputs: Sequence[Ref], dtype: str, **how: Any) -> Ref:
    if -1 in how.get("shape", ()):
        c.refuse("random numbers of a symbolic shape")
    wide = "float32" if dtype not in ("float16", "float64") else dtype
    attrs = {**how, "dtype": element_type(wide)}
    result = c.graph.emit(op, inputs, attrs, dtype=wide)[0]
    return c.cast(result, dtype)


@export_row("uniform")
def uniform(c: Call, *, shape: Sequence[int], low: float, high: float, dtype: str,
            seed: int, offset: int) -> Ref:  # fmt: skip
    shape = list(shape)
    return _drawn(c, "RandomUniform", [], dtype, shape=shape, low=low, high=high)


@export_row("gaussian")
def gaussian(c: Call, *, shape: Sequence[int], mean: float, std: float, dtype: str,
             seed: int, offset: int) -> Ref:  # fmt: skip
    shape = list(shape)
    return _drawn(c, "RandomNormal", [], dtype, shape=shape, mean=mean, scale=std)


@export_row("randint")
def randint(c: Call, *, shape: Sequence[int], low: int, high: int, dtype: str,
            seed: int, offset: int) -> Ref:  # fmt: skip
    numbers = _drawn(
        c, "RandomUniform", [], "float64", shape=list(shape), low=float(low),
        high=float(high),
    )  # fmt: skip
    return c.cast(c.op("Floor", numbers), dtype)


@export_row("randperm")
def randperm(c: Call, *, count: int, dtype: str, seed: int, offset: int) -> Ref:
    keys = _drawn(c, "RandomUniform", [], "float32", shape=[count], low=0.0, high=1.0)
    return c.cast(topk(c, keys, count, 0, True)[1], dtype)


def _chances(c: Call, x: Ref) -> Ref:
    """A number in [0, 1) for each element of x."""
    return _drawn(c, "RandomUniformLike", [x], x.dtype, low=0.0, high=1.0)


@export_row("bernoulli")
def bernoulli(c: Call, x: Ref, *, seed: int, offset: int) -> Ref:
    return c.cast(c.op("Less", _chances(c, x), x), x.dtype)


@export_row("dropout")
def dropout(c: Call, x: Ref, *, p: float, seed: int, offset: int, upscale: bool) -> Ref:
    if p == 0.0:
        return c.op("Identity", x)
    zero = c.number(0.0, x)
    if p == 1.0:
        return c.op("Mul", x, zero)
    dropped = c.op("Less", _chances(c, x), c.number(p, x))
    scaled = c.op("Div", x, c.number(1.0 - p, x)) if upscale else x
    return where(c, dropped, zero, scaled)


@export_row("det", since=11)
def det(c: Call, x: Ref) -> Ref:
    return c.op("Det", x)
