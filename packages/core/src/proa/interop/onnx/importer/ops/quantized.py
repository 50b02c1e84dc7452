"""Quantised tensors: QDQ and dynamic quantisation."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.narrow import RESULT
from proa.interop.onnx.importer.ops.linear import requantized
from proa.interop.onnx.importer.rounding import FLOATS, INTEGERS, rounded
from proa.interop.onnx.importer.table import onnx_op


def _along(call: Call, x: Any, v: Any, axis: int) -> Any:
    """One number for each index of an axis, or for each block of them."""
    if v is None or v.ndim == 0:
        return v
    if v.ndim == 1 and v.shape[0] == 1:
        return proa.reshape(v, [])
    if v.ndim == 1:
        shape = [1] * x.ndim
        shape[axis] = -1
        return proa.reshape(v, shape)
    (size,) = call.known([x.shape[axis]])
    repeats = -(-size // v.shape[axis])
    index = np.arange(size) // repeats
    return proa.index_select(v, proa.to_tensor(index.astype(np.int64)), axis)


@onnx_op("QuantizeLinear")
def quantize(call: Call, x: Any, scale: Any, point: Any = None) -> Any:
    axis = call.get("axis", 1)
    wide = _along(call, x, scale, axis).astype("float32")
    if (kind := call.get(RESULT)) is not None:
        if kind not in FLOATS and kind not in INTEGERS:
            raise call.refuse(f"elements of {kind}")
        found = x.astype("float32") / wide
        if kind in INTEGERS and point is not None:
            found = proa.round(found) + _along(call, x, point, axis).astype("float32")
        return rounded(found, kind, bool(call.get("saturate", 1)))
    if point is None:
        kinds = {0: "uint8", 2: "uint8", 3: "int8", 4: "int32", 5: "int16"}
        code = call.get("output_dtype", 0)
        if code not in kinds:
            raise call.refuse(f"elements of type {code}")
        point = proa.zeros([], kinds[code])
    return requantized(x.astype("float32"), wide, _along(call, x, point, axis))


@onnx_op("DequantizeLinear")
def dequantize(call: Call, x: Any, scale: Any, point: Any = None) -> Any:
    axis = call.get("axis", 1)
    wide = x.dtype.name if x.dtype.is_floating else "int32"
    centered = x.astype(wide)
    if point is not None:
        centered = centered - _along(call, x, point, axis).astype(wide)
    return centered.astype(scale.dtype) * _along(call, x, scale, axis)


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize(call: Call, x: Any) -> Any:
    zero = proa.zeros([], "float32")
    low, high = proa.minimum(proa.min(x), zero), proa.maximum(proa.max(x), zero)
    scale = (high - low) / 255.0
    point = proa.clip(proa.round(-low / scale), 0.0, 255.0).astype("uint8")
    return requantized(x, scale, point), scale, point
