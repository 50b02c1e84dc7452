"""Rows of int8 numbers, written as QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from typing import Any

import numpy as np

from proa.interop.exporter.quantized import (
    NOT_NEGATIVE,
    input_scale,
    real_weight,
)
from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.ops.image import activated, conv2d
from proa.interop.onnx.exporter.ops.linear import linear
from proa.interop.onnx.exporter.standard import reduce
from proa.interop.onnx.exporter.table import export_row


def _lower_bound(c: Call, scale: Ref, axis: int, rank: int) -> Ref:
    """-127 steps: the standard has one more."""
    if scale.data is not None and scale.data.size == 1:
        return c.const(scale.data.reshape(()) * np.float32(-127.0), "float32")
    wide = _per_axis(c, scale, axis, rank)
    return c.op("Mul", wide, c.number(-127.0, scale))


def _per_axis(c: Call, scale: Ref, axis: int, rank: int) -> Ref:
    """A scale for each element of an axis, to be broadcast."""
    if scale.shape == ():
        return scale
    if scale.shape == (1,):
        if scale.data is not None:
            return c.const(scale.data.reshape(()), scale.dtype)
        return c.op("Reshape", scale, c.ints([]))
    sizes = [-1 if i == axis % rank else 1 for i in range(rank)]
    return c.op("Reshape", scale, c.ints(sizes))


def _axis(c: Call, scale: Ref, axis: int, rank: int) -> int | None:
    """The attribute of nodes that have a scale for each element of an axis."""
    if scale.shape == (-1,):
        c.refuse("a symbolic number of scales")
    return None if scale.shape in ((), (1,)) else axis % rank


def _one(c: Call, scale: Ref) -> Ref:
    """A scale of one element without axes."""
    return _per_axis(c, scale, 0, 1) if scale.shape == (1,) else scale


@export_row("quantize", since=10)
def quantize(c: Call, x: Ref, scale: Ref, *, axis: int) -> Ref:
    return _quantized(c, x, scale, axis)


def _quantized(
    c: Call, x: Ref, scale: Ref, axis: int, reaches_no_bound: bool = False
) -> Ref:
    at = _axis(c, scale, axis, x.rank)
    if at is not None and c.opset < 13:
        c.refuse("scales for each channel need opset 13")
    if not reaches_no_bound:
        x = c.op("Max", x, _lower_bound(c, scale, axis, x.rank))
    return c.op("QuantizeLinear", x, _one(c, scale), _zeros(c, scale, at), axis=at)


def _zeros(c: Call, scale: Ref, at: int | None) -> Ref:
    """Zero points, one for each scale."""
    return c.const(np.zeros(scale.shape if at is not None else (), np.int8), "int8")


@export_row("quantize_affine", since=10)
def quantize_affine(c: Call, x: Ref, scale: Ref, *, zero_point: int, low: int) -> Ref:
    _axis(c, scale, -1, x.rank)
    scale = _one(c, scale)
    if low > -128:
        x = c.op("Max", x, c.op("Mul", scale, c.number(low - zero_point, scale)))
    return c.op("QuantizeLinear", x, scale, c.const(np.int8(zero_point), "int8"))


@export_row("dequantize")
def dequantize_by_product(c: Call, x: Ref, scale: Ref, *, axis: int) -> Ref:
    wide = _per_axis(c, scale, axis, x.rank)
    return c.op("Mul", c.cast(x, "float32"), wide)


@export_row("dequantize", since=10)
def dequantize(c: Call, x: Ref, scale: Ref, *, axis: int) -> Ref:
    at = _axis(c, scale, axis, x.rank)
    if at is not None and c.opset < 13:
        return dequantize_by_product(c, x, scale, axis=axis)
    # Without them onnxruntime 1.32 makes uint8 of the input of a product of more
    # than two axes: it inserts a QuantizeLinear without any, whose result is unsigned.
    zeros = [_zeros(c, scale, at)] if x.dtype == "int8" else []
    return c.op("DequantizeLinear", x, _one(c, scale), *zeros, axis=at)


@export_row("fake_quant", since=10)
def fake_quant(c: Call, x: Ref, scale: Ref, *, axis: int) -> Ref:
    whole = _quantized(c, x, scale, axis)
    return dequantize(c, Ref(whole.name, "int8", x.shape), scale, axis=axis)


# -- products --------------------------------------------------------------------------
def _products(
    c: Call, x: Ref, w: Ref, multiplier: Ref, channel_axis: int
) -> tuple[Ref, Ref]:
    """x and w in float32."""
    step = input_scale(c)
    scale = c.const(np.float32(step), "float32")
    wide = dequantize(c, x, scale, axis=-1)
    if multiplier.data is not None:
        steps = c.const(multiplier.data / np.float32(step), "float32")
    else:
        divided = c.op("Div", multiplier, scale)
        steps = Ref(divided.name, "float32", multiplier.shape)
    weights = dequantize(c, w, steps, axis=channel_axis)
    return Ref(wide.name, "float32", x.shape), Ref(weights.name, "float32", w.shape)


def _finished(
    c: Call, y: Ref, residual: Ref | None, *, act: str, out_scale: float,
    residual_scale: float, dtype: str, out_zero: int, low: int,
) -> Ref:  # fmt: skip
    if residual is not None and residual.dtype == "int8":
        scale = c.const(np.float32(residual_scale), "float32")
        residual = dequantize(c, residual, scale, axis=-1)
    if residual is not None:
        y = c.op("Add", y, residual)
    y = activated(c, y, act)
    if dtype != "int8":
        return y
    scale = c.const(np.float32(out_scale), "float32")
    y = Ref(y.name, y.dtype, c.outputs[0].shape)
    if out_zero or low != -127:
        return quantize_affine(c, y, scale, zero_point=out_zero, low=low)
    return _quantized(c, y, scale, -1, reaches_no_bound=act in NOT_NEGATIVE)


@export_row("conv2d_int8", since=10)
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


@export_row("linear_int8", since=10)
def linear_int8(
    c: Call, x: Ref, w: Ref, multiplier: Ref, bias: Ref | None = None,
    residual: Ref | None = None, **ending: Any,
) -> Ref:  # fmt: skip
    wide, weights = _products(c, x, w, multiplier, 1)
    return _finished(c, linear(c, wide, weights, bias), residual, **ending)


@export_row("linear_dynamic", since=11)
def linear_dynamic(
    c: Call, x: Ref, w: Ref, scale: Ref, bias: Ref | None = None, *, act: str,
    per_row: bool, symmetric: bool,
) -> Ref:  # fmt: skip
    low, high = (_range(c, op, x, per_row) for op in ("Min", "Max"))
    if symmetric:
        step = _step(c, c.op("Max", high, c.op("Neg", low)), 127)
        whole = c.op("Round", c.op("Div", x, step))
        products = c.op("MatMulInteger", c.cast(whole, "int8"), w)
    else:
        step = _step(c, c.op("Sub", high, low), 255)
        zero = c.op("Round", c.op("Neg", c.op("Div", low, step)))
        whole = c.op("Add", c.op("Round", c.op("Div", x, step)), zero)
        bounds = (c.const(np.float32(end), "float32") for end in (0, 255))
        bytes_ = c.cast(c.op("Clip", whole, *bounds), "uint8")
        # sum((q - zero) * w) = sum(q * w) - zero * sum(w)
        columns = reduce(c, "ReduceSum", c.cast(w, "int32"), [0], keepdim=False)
        surplus = c.op("Mul", c.cast(zero, "int32"), columns)
        products = c.op("Sub", c.op("MatMulInteger", bytes_, w), surplus)
    y = c.op("Mul", c.cast(products, "float32"), c.op("Mul", scale, step))
    y = Ref(y.name, "float32", c.outputs[0].shape)
    return activated(c, y if bias is None else c.op("Add", y, bias), act)


def _range(c: Call, op: str, x: Ref, per_row: bool) -> Ref:
    """The smallest or largest element of each row, or of all, and 0."""
    zero = c.const(np.zeros(1, np.float32), "float32")
    if per_row:
        return c.op(op, reduce(c, f"Reduce{op}", x, [x.rank - 1]), zero)
    # The standard has no extremum of nothing.
    elements = c.op("Concat", c.op("Reshape", x, c.ints([-1])), zero, axis=0)
    return reduce(c, f"Reduce{op}", Ref(elements.name, "float32", (-1,)), [0])


def _step(c: Call, width: Ref, steps: int) -> Ref:
    """width / steps, or 1 where that is 0."""
    step = c.op("Div", width, c.const(np.float32(steps), "float32"))
    one = c.const(np.float32(1), "float32")
    positive = c.op("Greater", step, c.const(np.float32(0), "float32"))
    return c.op("Where", positive, step, one)


@export_row("linear_weight_only")
def linear_weight_only(
    c: Call, x: Ref, w: Ref, scale: Ref, zero: Ref | None = None,
    bias: Ref | None = None, *, act: str, **packing: int,
) -> Ref:  # fmt: skip
    wide = real_weight(c, x, w, scale, zero, **packing)
    return activated(c, linear(c, x, wide, bias), act)


# -- images ----------------------------------------------------------------------------
@export_row("gate_int8", since=10)
def gate_int8(c: Call, x: Ref, gate: Ref, *, x_scale: float, out_scale: float) -> Ref:
    wide = dequantize(c, x, c.const(np.float32(x_scale), "float32"), axis=-1)
    y = c.op("Mul", wide, gate)
    step = c.const(np.float32(out_scale), "float32")
    return _quantized(c, Ref(y.name, "float32", x.shape), step, -1)


@export_row("mean_int8", since=10)
def mean_int8(c: Call, x: Ref, *, scale: float) -> Ref:
    wide = dequantize(c, x, c.const(np.float32(scale), "float32"), axis=-1)
    return c.op("GlobalAveragePool", wide)


@export_row("fake_quant_grad")
def fake_quant_grad(c: Call, dy: Ref, x: Ref, scale: Ref, *, axis: int) -> Ref:
    wide = c.op("Mul", _per_axis(c, scale, axis, x.rank), c.number(127.0, scale))
    outside = c.op("Greater", c.op("Abs", x), wide)
    return c.op("Where", outside, c.number(0.0, dy), dy)
