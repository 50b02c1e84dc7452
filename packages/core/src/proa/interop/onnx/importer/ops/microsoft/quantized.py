"""Quantised operators: integers with a scale and a zero point in and out.

Elementwise operators and pooling compute with the floats that integers stand for and
round the result, which is what onnxruntime's tables and kernels hold. Products are
those of integers, exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import proa
import proa.nn.functional as F
from proa._core import ops
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.ops.convolution import qlinear_conv
from proa.interop.onnx.importer.ops.linear import (
    exact_product,
    requantized,
    zero_point,
)
from proa.interop.onnx.importer.ops.microsoft.attention import (
    projected_attention,
    refuse_shared_buffer,
    total,
)
from proa.interop.onnx.importer.ops.microsoft.domain import microsoft_op
from proa.interop.onnx.importer.ops.microsoft.fused import embedded
from proa.interop.onnx.importer.ops.pooling import average_pool
from proa.interop.onnx.importer.ops.quantized import (
    dequantize,
    dynamic_quantize,
    quantize,
)
from proa.interop.onnx.importer.ops.recurrent import run_lstm

microsoft_op("QuantizeLinear")(quantize)
microsoft_op("DequantizeLinear")(dequantize)


def real(x: Any, scale: Any, point: Any = None, axis: int = 0) -> Any:
    """The floats that integers stand for; numbers may be one for each index."""
    if scale.ndim == 1 and scale.shape[0] > 1:
        scale = proa.reshape(scale, [-1, *[1] * (x.ndim - 1 - axis % x.ndim)])
    elif scale.ndim:
        scale = proa.reshape(scale, [])
    return zero_point(x, point, axis % x.ndim).astype("float32") * scale


def rounded(y: Any, scale: Any, point: Any, like: Any) -> Any:
    """Integers of the zero point's dtype, or of like's if there is no point."""
    point = proa.zeros([], like.dtype) if point is None else proa.reshape(point, [])
    return requantized(y, proa.reshape(scale, []), point)


# -- elementwise


def _binary(name: str, function: Callable[[Any, Any], Any]) -> None:
    def rule(
        call: Call, a: Any, a_scale: Any, a_point: Any, b: Any, b_scale: Any,
        b_point: Any, scale: Any, point: Any = None,
    ) -> Any:  # fmt: skip
        y = function(real(a, a_scale, a_point), real(b, b_scale, b_point))
        return rounded(y, scale, point, a)

    microsoft_op(name)(rule)


def _unary(name: str, function: Callable[[Call, Any], Any]) -> None:
    def rule(
        call: Call, x: Any, x_scale: Any, x_point: Any, scale: Any, point: Any = None
    ) -> Any:
        return rounded(function(call, real(x, x_scale, x_point)), scale, point, x)

    microsoft_op(name)(rule)


def _softmax(call: Call, x: Any) -> Any:
    axis = call.get("axis", -1) % x.ndim
    if call.get("opset", 13) >= 13:
        return F.softmax(x, axis)
    return proa.reshape(F.softmax(proa.flatten(x, axis, x.ndim - 1), -1), x.shape)


def _mean(call: Call, x: Any) -> Any:
    axes = call.get("axes") or list(range(x.ndim))
    return proa.mean(x, axes, bool(call.get("keepdims", 1)))


def _pooled(call: Call, x: Any, pool: Callable[[Any], Any]) -> Any:
    if not call.get("channels_last", 0):
        return pool(x)
    last = x.ndim - 1
    y = pool(proa.transpose(x, [0, last, *range(1, last)]))
    return proa.transpose(y, [0, *range(2, last + 1), 1])


def _global_average(x: Any) -> Any:
    return proa.mean(x, list(range(2, x.ndim)), True)


_binary("QLinearAdd", proa.add)
_binary("QLinearMul", proa.multiply)
_unary("QLinearSigmoid", lambda call, x: F.sigmoid(x))
_unary("QLinearLeakyRelu", lambda call, x: F.leaky_relu(x, call.get("alpha", 0.01)))
_unary("QLinearSoftmax", _softmax)
_unary("QLinearReduceMean", _mean)
_unary("QLinearGlobalAveragePool", lambda call, x: _pooled(call, x, _global_average))
_unary(
    "QLinearAveragePool",
    lambda call, x: _pooled(call, x, lambda y: average_pool(call, y)),
)


@microsoft_op("QLinearConcat")
def qlinear_concat(call: Call, scale: Any, point: Any, *parts: Any) -> Any:
    threes = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    y = proa.concat([real(*three) for three in threes], call.get("axis"))
    return rounded(y, scale, point, parts[0])


@microsoft_op("QLinearWhere")
def qlinear_where(
    call: Call, condition: Any, x: Any, x_scale: Any, x_point: Any, y: Any,
    y_scale: Any, y_point: Any, scale: Any, point: Any,
) -> Any:  # fmt: skip
    both = real(x, x_scale, x_point), real(y, y_scale, y_point)
    return rounded(proa.where(condition, *both), scale, point, x)


# -- products


@microsoft_op("QLinearConv")
def qlinear_conv_of_any_layout(call: Call, x: Any, *more: Any) -> Any:
    return _pooled(call, x, lambda y: qlinear_conv(call, y, *more))


def _product(
    a: Any, b: Any, a_scale: Any, b_scale: Any, a_point: Any, b_point: Any, bias: Any
) -> Any:
    """The floats of a product of integers."""
    a = zero_point(a, a_point, max(a.ndim - 2, 0))
    b = zero_point(b, b_point, b.ndim - 1)
    y = exact_product(a, b).astype("float32") * (a_scale * b_scale)
    return total(y, bias)


@microsoft_op("MatMulIntegerToFloat", weights=(6,))
def matmul_integer_to_float(
    call: Call, a: Any, b: Any, a_scale: Any, b_scale: Any, a_point: Any = None,
    b_point: Any = None, bias: Any = None,
) -> Any:  # fmt: skip
    return _product(a, b, a_scale, b_scale, a_point, b_point, bias)


@microsoft_op("DynamicQuantizeMatMul", weights=(4,))
def dynamic_quantize_matmul(
    call: Call, a: Any, b: Any, b_scale: Any, b_point: Any = None, bias: Any = None
) -> Any:
    a, a_scale, a_point = dynamic_quantize(call, a)
    return _product(a, b, a_scale, b_scale, a_point, b_point, bias)


@microsoft_op("QGemm")
def qgemm(
    call: Call, a: Any, a_scale: Any, a_point: Any, b: Any, b_scale: Any, b_point: Any,
    c: Any = None, scale: Any = None, point: Any = None,
) -> Any:  # fmt: skip
    # The zero points of columns belong to the transposed matrix.
    a, b = (
        proa.transpose(t, [1, 0]) if call.get(name, 0) else t
        for t, name in ((a, "transA"), (b, "transB"))
    )
    whole = exact_product(zero_point(a, a_point, 0), zero_point(b, b_point, 1))
    whole = whole if c is None else whole + c
    y = whole.astype("float32") * (a_scale * b_scale * call.get("alpha", 1.0))
    return y if scale is None else rounded(y, scale, point, a)


@microsoft_op("QAttention", weights=(2,))
def qattention(
    call: Call, x: Any, weights: Any, bias: Any, x_scale: Any, w_scale: Any,
    mask: Any = None, x_point: Any = None, w_point: Any = None, past: Any = None,
) -> Any:  # fmt: skip
    refuse_shared_buffer(call)
    qkv = _product(x, weights, x_scale, w_scale, x_point, w_point, bias)
    return projected_attention(call, qkv, mask, past, None)


@microsoft_op("MatMulNBits", weights=(5,))
def matmul_n_bits(
    call: Call, x: Any, packed: Any, scales: Any, points: Any = None,
    group: Any = None, bias: Any = None,
) -> Any:  # fmt: skip
    bits, inner, outer = (call.get(name) for name in ("bits", "K", "N"))
    bits = bits or 4
    if 8 % bits or group is not None:
        raise call.refuse(f"{bits} bits or g_idx")
    blocks = -(-inner // call.get("block_size"))
    if (
        bits in (4, 8)
        and x.ndim > 1
        and (points is None or points.dtype.name == "uint8")
    ):
        zero = None if points is None else _zeros(points, bits, outer, blocks)
        weight = proa.reshape(packed, [outer, -1])
        steps = proa.reshape(scales, [outer, blocks])
        size = call.get("block_size")
        return ops.linear_weight_only(
            x, weight, steps, zero, bias, bits=bits, group=size
        )
    values = _unpacked(packed, bits)  # (outer, blocks, block_size)
    scales = proa.reshape(scales, [outer, blocks, 1])
    if points is None:
        values = values - 2.0 ** (bits - 1)
    elif points.dtype.name == "uint8":
        few = _unpacked(proa.reshape(points, [outer, -1]), bits)
        few = proa.slice(few, [1], [0], [blocks])
        values = values - proa.unsqueeze(few, [2])
    else:
        values = values - proa.reshape(points, [outer, blocks, 1]).astype("float32")
    weight = proa.flatten(values.astype(x.dtype) * scales, 1, 2)
    weight = proa.slice(weight, [1], [0], [inner])
    return F.linear(x, proa.transpose(weight, [1, 0]), bias)


def _zeros(points: Any, bits: int, outer: int, blocks: int) -> Any:
    """Zero points (outer, blocks) in bytes of their own."""
    rows = proa.reshape(points, [outer, -1])
    if bits == 8:
        return rows
    return proa.slice(_unpacked(rows, bits), [1], [0], [blocks]).astype("uint8")


def _unpacked(x: Any, bits: int) -> Any:
    """The numbers in bytes along the last axis, the low bits first."""
    wide = x.astype("int32")
    count = 2**bits
    parts = [
        proa.mod(
            proa.floor_divide(wide, proa.full_like(wide, count**i)),
            proa.full_like(wide, count),
        )
        for i in range(8 // bits)
    ]
    last = x.ndim - 1
    return proa.flatten(proa.stack(parts, -1), last, last + 1).astype("float32")


# -- recurrent and embedding


@microsoft_op("DynamicQuantizeLSTM", weights=(3,))
def dynamic_quantize_lstm(
    call: Call, x: Any, w: Any, r: Any, b: Any, length: Any, h: Any, c: Any, p: Any,
    w_scale: Any, w_point: Any, r_scale: Any, r_point: Any,
) -> Any:  # fmt: skip
    # Weights are quantised; what is multiplied with them stays as exact as it is.
    w, r = (
        proa.transpose(_by_direction(v, scale, point), [0, 2, 1])
        for v, scale, point in ((w, w_scale, w_point), (r, r_scale, r_point))
    )
    return run_lstm(call, x, w, r, b, length, h, c, p)


def _by_direction(v: Any, scale: Any, point: Any) -> Any:
    """The floats of (directions, size, gates); numbers of a direction or gate each."""
    shape = [v.shape[0], 1, 1 if scale.ndim == 1 else v.shape[2]]
    centered = v.astype("int32") - proa.reshape(point, shape).astype("int32")
    return centered.astype("float32") * proa.reshape(scale, shape)


@microsoft_op("QEmbedLayerNormalization")
def qembed_layer_norm(call: Call, ids: Any, segments: Any, *more: Any) -> Any:
    arrays, mask, scales, points = more[:5], more[5], more[6:11], more[11:16]
    words, positions, kinds, scale, shift = (
        None if a is None else real(a, s, p)
        for a, s, p in zip(arrays, scales, points, strict=True)
    )
    tables = words, positions, kinds
    return embedded(call, ids, segments, tables, scale, shift, mask, None)[:2]
