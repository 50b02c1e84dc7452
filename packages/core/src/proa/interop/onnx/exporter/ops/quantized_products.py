"""Rows of int8 products of two activations, between QuantizeLinear and its inverse."""

from __future__ import annotations

import numpy as np

from proa.interop.exporter.quantized import input_scale
from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.ops.attention import masked
from proa.interop.onnx.exporter.ops.quant import quantize_affine
from proa.interop.onnx.exporter.standard import softmax, transpose
from proa.interop.onnx.exporter.table import export_row

_HEADS_FIRST = (0, 2, 1, 3)


def _real(c: Call, x: Ref, scale: float, zero: int) -> Ref:
    constants = c.const(np.float32(scale), "float32"), c.const(np.int8(zero), "int8")
    wide = c.op("DequantizeLinear", x, *constants)
    return Ref(wide.name, "float32", x.shape)


def _finished(
    c: Call, y: Ref, *, out_scale: float, dtype: str, out_zero: int, low: int
) -> Ref:
    if dtype != "int8":
        return y
    scale = c.const(np.float32(out_scale), "float32")
    y = Ref(y.name, "float32", (-1,) * len(c.outputs[0].shape))
    return quantize_affine(c, y, scale, zero_point=out_zero, low=low)


def _product(c: Call, x: Ref, y: Ref, scale: float, steps: tuple[float, float]) -> Ref:
    """x @ y times what `scale` is of the product of both steps."""
    z = c.op("MatMul", x, y)
    rest = np.float32(scale) / (np.float32(steps[0]) * np.float32(steps[1]))
    near = abs(float(rest) - 1.0) < 1e-6
    return z if near else c.op("Mul", z, c.const(np.float32(rest), "float32"))


@export_row("matmul_int8", since=10)
def matmul_int8(
    c: Call, x: Ref, y: Ref, *, scale: float, x_zero: int, y_zero: int,
    out_scale: float, dtype: str, out_zero: int, low: int,
) -> Ref:  # fmt: skip
    steps = input_scale(c, 0), input_scale(c, 1)
    a, b = _real(c, x, steps[0], x_zero), _real(c, y, steps[1], y_zero)
    z = _product(c, a, b, scale, steps)
    return _finished(c, z, out_scale=out_scale, dtype=dtype, out_zero=out_zero, low=low)


@export_row("attention_int8", since=10)
def attention_int8(
    c: Call, q: Ref, k: Ref, v: Ref, mask: Ref | None = None, *, scale: float,
    causal: bool, q_zero: int, k_zero: int, v_zero: int, v_scale: float,
    weight_scale: float, out_scale: float, dtype: str, out_zero: int, low: int,
) -> Ref:  # fmt: skip
    assert q.shape is not None and k.shape is not None
    shape = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
    if causal and -1 in shape[2:]:
        c.refuse("causal int8 attention of symbolic lengths")
    steps = input_scale(c, 0), input_scale(c, 1)
    # Integers are transposed, so that products read what DequantizeLinear returns.
    queries = _real(c, transpose(c, q, _HEADS_FIRST), steps[0], q_zero)
    keys = _real(c, transpose(c, k, (0, 2, 3, 1)), steps[1], k_zero)
    values = _real(c, transpose(c, v, _HEADS_FIRST), v_scale, v_zero)
    scores = _product(c, queries, keys, scale, steps)
    scores = masked(c, Ref(scores.name, "float32", shape), mask, causal)
    weights = softmax(c, "Softmax", scores, -1)
    step = c.const(np.float32(weight_scale), "float32")
    weights = Ref(weights.name, "float32", shape)
    whole = quantize_affine(c, weights, step, zero_point=-128, low=-128)
    again = _real(c, Ref(whole.name, "int8", shape), weight_scale, -128)
    y = _finished(
        c, c.op("MatMul", again, values), out_scale=out_scale, dtype=dtype,
        out_zero=out_zero, low=low,
    )  # fmt: skip
    return c.op("Transpose", y, perm=list(_HEADS_FIRST))
