"""Rows of int8 numbers, written as PaddleSlim writes quantised programs.

What is quantised is a float32 variable of whole numbers (`Ref.whole`), for which Paddle
has the operators that follow. Weights are int8 in the file. A scale of Paddle is the
greatest absolute value, of which Proa's is the 127th part.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from proa.interop.exporter.quantized import (
    NOT_NEGATIVE,
    input_scale,
    real_weight,
)
from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.ops.elementwise import activated, scaled
from proa.interop.paddle.exporter.ops.image import adaptive_avg_pool2d, conv2d
from proa.interop.paddle.exporter.ops.linear import linear
from proa.interop.paddle.exporter.table import export_row

_LIMIT = 127.0


def _greatest(c: Call, scale: Ref) -> Ref:
    """Paddle's scale, of one axis."""
    if scale.data is not None:
        data = scale.data.reshape(-1) * np.float32(_LIMIT)
        return c.const(data, "float32")
    wide = c.reshape(scale, [-1]) if scale.rank != 1 else scale
    return scaled(c, wide, _LIMIT)


def _is_one(c: Call, scale: Ref) -> bool:
    """Whether there is one scale for all elements."""
    if scale.shape == (-1,):
        c.refuse("a symbolic number of scales")
    return scale.shape in ((), (1,))


def _linear(c: Call, kind: str, x: Ref, scale: Ref, axis: int) -> Ref:
    one, greatest = _is_one(c, scale), _greatest(c, scale)
    zero = c.const(np.zeros(greatest.shape or (1,)), "int32")
    given = {"X": x, "Scale": greatest, "ZeroPoint": zero}
    return c.op(
        kind, given, x.shape, dtype="float32", out="Y", bit_length=8, round_type=0,
        quant_axis=-1 if one else axis % x.rank, is_test=True, only_observer=False,
    )  # fmt: skip


def _quantized(
    c: Call, x: Ref, scale: Ref, axis: int, reaches_no_bound: bool = False
) -> Ref:
    if not reaches_no_bound:  # -127 steps: Paddle has one more
        bound = scaled(c, _greatest(c, scale), -1.0)
        at = -1 if _is_one(c, scale) else axis % x.rank
        bound = c.reshape(bound, [-1 if i == at else 1 for i in range(x.rank)])
        x = c.op("elementwise_max", {"X": x, "Y": bound}, x.shape, axis=-1)
    return replace(_linear(c, "quantize_linear", x, scale, axis), whole=True)


@export_row("quantize")
def quantize(c: Call, x: Ref, scale: Ref, *, axis: int) -> Ref:
    return _quantized(c, x, scale, axis)


@export_row("quantize_affine")
def quantize_affine(c: Call, x: Ref, scale: Ref, *, zero_point: int, low: int) -> Ref:
    """By elementwise operators: Paddle's own has no zero point."""
    if scale.data is not None:
        scale = c.const(scale.data.reshape((1,) * max(x.rank, 1)), "float32")
    quotient = c.row("div", x, scale)
    if x.rank == 0:
        quotient = c.reshape(quotient, [])
    whole = c.row("round", quotient)
    moved = c.row("add", whole, float(zero_point)) if zero_point else whole
    clipped: Ref = c.row("clip", moved, min=float(low), max=127.0)
    return replace(clipped, whole=True)


@export_row("dequantize")
def dequantize(c: Call, x: Ref, scale: Ref, *, axis: int) -> Ref:
    if x.dtype not in ("int8", "float32"):  # sums of products
        x = c.cast(x, "float32")
    return _linear(c, "dequantize_linear", x, scale, axis)


@export_row("fake_quant")
def fake_quant(c: Call, x: Ref, scale: Ref, *, axis: int) -> Ref:
    whole = _quantized(c, x, scale, axis)
    return dequantize(c, whole, scale, axis=axis)


# -- products --------------------------------------------------------------------------
def _products(
    c: Call, x: Ref, w: Ref, multiplier: Ref, channel_axis: int
) -> tuple[Ref, Ref]:
    """x and w in float32."""
    step = input_scale(c)
    scale = c.const(np.float32(step), "float32")
    if multiplier.data is not None:
        steps = c.const(multiplier.data / np.float32(step), "float32")
    else:
        steps = replace(scaled(c, multiplier, 1.0 / step), shape=multiplier.shape)
    return (
        dequantize(c, x, scale, axis=-1), dequantize(c, w, steps, axis=channel_axis)
    )  # fmt: skip


def _finished(
    c: Call, y: Ref, residual: Ref | None, *, act: str, out_scale: float,
    residual_scale: float, dtype: str, out_zero: int, low: int,
) -> Ref:  # fmt: skip
    value = None if residual is None else c.given(4)
    if residual is not None and value is not None and value.dtype == "int8":
        scale = c.const(np.float32(residual_scale), "float32")
        residual = dequantize(c, residual, scale, axis=-1)
    if residual is not None:
        y = c.binary("elementwise_add", y, residual)
    y = activated(c, y, act)
    if dtype != "int8":
        return y
    scale = c.const(np.float32(out_scale), "float32")
    if out_zero or low != -127:
        return quantize_affine(c, y, scale, zero_point=out_zero, low=low)
    return _quantized(c, y, scale, -1, reaches_no_bound=act in NOT_NEGATIVE)


@export_row("conv2d_int8")
def conv2d_int8(
    c: Call, x: Ref, w: Ref, multiplier: Ref, bias: Ref | None = None,
    residual: Ref | None = None, *, act: str, out_scale: float, dtype: str,
    residual_scale: float, out_zero: int, low: int, **geometry: Any,
) -> Ref:  # fmt: skip
    wide, weights = _products(c, x, w, multiplier, 0)
    y = conv2d(c, wide, weights, bias, **geometry)
    return _finished(c, y, residual, act=act, out_scale=out_scale, dtype=dtype,
                     residual_scale=residual_scale, out_zero=out_zero,
                     low=low)  # fmt: skip


@export_row("linear_int8")
def linear_int8(
    c: Call, x: Ref, w: Ref, multiplier: Ref, bias: Ref | None = None,
    residual: Ref | None = None, **ending: Any,
) -> Ref:  # fmt: skip
    wide, weights = _products(c, x, w, multiplier, 1)
    return _finished(c, linear(c, wide, weights, bias), residual, **ending)


@export_row("linear_dynamic")
def linear_dynamic(
    c: Call, x: Ref, w: Ref, scale: Ref, bias: Ref | None = None, *, act: str,
    per_row: bool, symmetric: bool,
) -> Ref:  # fmt: skip
    """Floats that are whole: Paddle has no operator that rounds by each row's range."""
    elements, axis = x, x.rank - 1
    if not per_row:  # there is no extremum of nothing
        zero = c.const(np.zeros(1, np.float32), "float32")
        elements, axis = c.row("concat", c.reshape(x, [-1]), zero, axis=0), 0
    high, low = (
        c.row(bound, c.row(name, elements, axis=[axis], keepdim=True), 0.0)
        for name, bound in (("max", "maximum"), ("min", "minimum"))
    )
    if symmetric:
        width = c.row("maximum", high, scaled(c, low, -1.0))
    else:
        width = c.row("sub", high, low)
    step = scaled(c, width, 1.0 / (127 if symmetric else 255))
    step = c.row("where", c.row("greater_than", step, 0.0), step, 1.0)
    whole = c.row("round", c.row("div", x, step))
    if not symmetric:
        zero = c.row("round", scaled(c, c.row("div", low, step), -1.0))
        moved = c.row("clip", c.row("add", whole, zero), min=0.0, max=255.0)
        whole = c.row("sub", moved, zero)
    # Sums are exact up to 2 ** 24, as those of integers.
    sums = linear(c, whole, c.cast(w, "float32"), None)
    y = c.row("mul", sums, c.row("mul", scale, step))
    return activated(c, y if bias is None else c.row("add", y, bias), act)


@export_row("linear_weight_only")
def linear_weight_only(
    c: Call, x: Ref, w: Ref, scale: Ref, zero: Ref | None = None,
    bias: Ref | None = None, *, act: str, **packing: int,
) -> Ref:  # fmt: skip
    wide = real_weight(c, x, w, scale, zero, **packing)
    return activated(c, linear(c, x, wide, bias), act)


# -- images ----------------------------------------------------------------------------
@export_row("gate_int8")
def gate_int8(c: Call, x: Ref, gate: Ref, *, x_scale: float, out_scale: float) -> Ref:
    wide = dequantize(c, x, c.const(np.float32(x_scale), "float32"), axis=-1)
    y = c.binary("elementwise_mul", wide, gate)
    step = c.const(np.float32(out_scale), "float32")
    return _quantized(c, replace(y, shape=x.shape), step, -1)


@export_row("mean_int8")
def mean_int8(c: Call, x: Ref, *, scale: float) -> Ref:
    wide = dequantize(c, x, c.const(np.float32(scale), "float32"), axis=-1)
    return adaptive_avg_pool2d(c, wide, size=[1, 1])
