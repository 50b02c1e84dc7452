"""Rows of int8 products of two activations, as products of float32 whole numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.ops.elementwise import scaled
from proa.interop.paddle.exporter.ops.linear import product
from proa.interop.paddle.exporter.ops.loss import masked
from proa.interop.paddle.exporter.ops.quant import quantize_affine
from proa.interop.paddle.exporter.table import export_row

_HEADS_FIRST = (0, 2, 1, 3)


def _whole(c: Call, x: Ref, zero: int) -> Ref:
    """x less its zero point, in float32."""
    x = replace(x, whole=False) if x.whole else c.cast(x, "float32")
    return c.row("sub", x, float(zero)) if zero else x


def _finished(
    c: Call, y: Ref, *, out_scale: float, dtype: str, out_zero: int, low: int
) -> Ref:
    if dtype != "int8":
        return y
    scale = c.const(np.float32(out_scale), "float32")
    return quantize_affine(c, y, scale, zero_point=out_zero, low=low)


@export_row("matmul_int8")
def matmul_int8(
    c: Call, x: Ref, y: Ref, *, scale: float, x_zero: int, y_zero: int,
    out_scale: float, dtype: str, out_zero: int, low: int,
) -> Ref:  # fmt: skip
    # Sums are exact up to 2 ** 24, as those of integers.
    sums = product(c, _whole(c, x, x_zero), _whole(c, y, y_zero), c.outputs[0].shape)
    z = scaled(c, sums, scale)
    return _finished(c, z, out_scale=out_scale, dtype=dtype, out_zero=out_zero, low=low)


@export_row("attention_int8")
def attention_int8(
    c: Call, q: Ref, k: Ref, v: Ref, mask: Ref | None = None, *, scale: float,
    causal: bool, q_zero: int, k_zero: int, v_zero: int, v_scale: float,
    weight_scale: float, out_scale: float, dtype: str, out_zero: int, low: int,
) -> Ref:  # fmt: skip
    assert q.shape is not None and k.shape is not None and v.shape is not None
    shape = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
    queries = c.transpose(_whole(c, q, q_zero), _HEADS_FIRST)
    keys = c.transpose(_whole(c, k, k_zero), (0, 2, 3, 1))
    values = c.transpose(_whole(c, v, v_zero), _HEADS_FIRST)
    scores = scaled(c, product(c, queries, keys, shape), scale)
    weights = c.unary("softmax", masked(c, scores, mask, causal), axis=-1)
    step = c.const(np.float32(weight_scale), "float32")
    whole = c.row("clip", c.row("round", c.row("div", weights, step)),
                  min=0.0, max=255.0)  # fmt: skip
    heads = (*shape[:3], v.shape[3])
    factor = float(np.float32(weight_scale) * np.float32(v_scale))
    y = c.transpose(scaled(c, product(c, whole, values, heads), factor), _HEADS_FIRST)
    return _finished(c, y, out_scale=out_scale, dtype=dtype, out_zero=out_zero, low=low)
