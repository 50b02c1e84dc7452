"""Quantised tensors: values rounded to a grid by scales.

Scales are the largest absolute values: x is stored as round(x * limit / scale), with
limit = 2 ** (bits - 1) - 1.
"""

from __future__ import annotations

from typing import Any

import proa
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op


def _limit(call: Call) -> float:
    return float(2 ** (call.get("bit_length", 8) - 1) - 1)


def _along(x: Any, scale: Any, axis: int) -> Any:
    if scale.size == 1:
        return proa.reshape(scale, [])
    shape = [1] * x.ndim
    shape[axis] = -1
    return proa.reshape(scale, shape)


def _rounded(call: Call, x: Any) -> Any:
    if call.get("round_type", 0) == 0:  # halves to the even number
        return proa.round(x)
    return proa.sign(x) * proa.floor(proa.abs(x) + 0.5)


def _quantized(call: Call, x: Any, scale: Any, lowest: float = 0.0) -> Any:
    limit = _limit(call)
    if limit == 127.0 and scale.size == 1 and call.get("round_type", 0) == 0:
        # As ONNX's QuantizeLinear, of which predictors make one operator of int8.
        whole = proa.round(x / (proa.reshape(scale, []) / limit))
        quantized = proa.clip(whole, lowest or -limit, limit).astype("int8")
        return quantized.astype("int32").astype(x.dtype)
    found = _rounded(call, x * (limit / scale))
    return proa.clip(found, lowest or -limit, limit)


def _channel_maxima(call: Call, x: Any) -> Any:
    axis = call.get("quant_axis", 0)
    axes = [i for i in range(x.ndim) if i != axis]
    return proa.max(proa.abs(x), axes)


@paddle_op("fake_quantize_abs_max", outputs="Out OutScale")
def quantize_abs_max(call: Call, x: Any) -> Any:
    scale = proa.reshape(proa.max(proa.abs(x)), [1])
    return _quantized(call, x, scale), scale


@paddle_op("fake_quantize_dequantize_abs_max", outputs="Out OutScale")
def quantize_dequantize_abs_max(call: Call, x: Any) -> Any:
    scale = proa.reshape(proa.max(proa.abs(x)), [1])
    return _quantized(call, x, scale) * (scale / _limit(call)), scale


@paddle_op("fake_channel_wise_quantize_abs_max", outputs="Out OutScale")
def channel_wise_quantize(call: Call, x: Any) -> Any:
    scale = _channel_maxima(call, x)
    return _quantized(call, x, _along(x, scale, call.get("quant_axis", 0))), scale


@paddle_op("fake_channel_wise_quantize_dequantize_abs_max", outputs="Out OutScale")
def channel_wise_quantize_dequantize(call: Call, x: Any) -> Any:
    scale = _channel_maxima(call, x)
    wide = _along(x, scale, call.get("quant_axis", 0))
    return _quantized(call, x, wide) * (wide / _limit(call)), scale


@paddle_op(
    "fake_quantize_moving_average_abs_max", "fake_quantize_range_abs_max",
    inputs="X InScale InAccum InState Iter", outputs="Out OutScale",
    state="InScale InAccum InState",
)  # fmt: skip
def quantize_by_scale(call: Call, x: Any, scale: Any, *_: Any) -> Any:
    return _quantized(call, x, proa.reshape(scale, [])), scale


@paddle_op(
    "fake_quantize_dequantize_moving_average_abs_max",
    inputs="X InScale InAccum InState", outputs="Out OutScale",
    state="InScale InAccum InState",
)  # fmt: skip
def quantize_dequantize_by_scale(call: Call, x: Any, scale: Any, *_: Any) -> Any:
    one = proa.reshape(scale, [])
    return _quantized(call, x, one) * (one / _limit(call)), scale


@paddle_op(
    "moving_average_abs_max_scale", inputs="X InAccum InState", outputs="Out",
    state="InAccum InState",
)  # fmt: skip
def observe(call: Call, x: Any, *_: Any) -> Any:
    return x


@paddle_op("fake_dequantize_max_abs", inputs="X Scale", state="Scale")
def dequantize_max_abs(call: Call, x: Any, scale: Any) -> Any:
    return x.astype(scale.dtype) * (proa.reshape(scale, []) / call.get("max_range"))


@paddle_op("fake_channel_wise_dequantize_max_abs", inputs="X Scales*", state="Scales")
def channel_wise_dequantize(call: Call, x: Any, scales: list[Any]) -> Any:
    bits = call.get("quant_bits", [8])
    axis = call.get("quant_axis", 0)
    if len(scales) > 1:  # of a product: channels of its result, and one of its input
        axis = call.get("x_num_col_dims", 1) if x.ndim == 2 else 1
    found = x.astype(scales[0].dtype)
    for i, scale in enumerate(scales):
        limit = float(2 ** (bits[i] - 1) - 1)
        found = found * (_along(x, scale, axis) / limit)
    return found


@paddle_op(
    "quantize_linear", inputs="X Scale ZeroPoint", outputs="Y",
    state="Scale ZeroPoint",
)  # fmt: skip
def quantize_linear(call: Call, x: Any, scale: Any, point: Any = None) -> Any:
    wide = _along(x, scale, call.get("quant_axis", 0))
    return _quantized(call, x, wide, -_limit(call) - 1.0)


@paddle_op(
    "dequantize_linear", inputs="X Scale ZeroPoint", outputs="Y",
    state="Scale ZeroPoint",
)  # fmt: skip
def dequantize_linear(call: Call, x: Any, scale: Any, point: Any = None) -> Any:
    wide = _along(x, scale, call.get("quant_axis", 0))
    return x.astype(scale.dtype) * (wide / _limit(call))


@paddle_op("dequantize_abs_max", inputs="X Scale", state="Scale")
def dequantize_abs_max(call: Call, x: Any, scale: Any) -> Any:
    return x.astype(scale.dtype) * (proa.reshape(scale, []) / call.get("max_range"))
