"""Normalisation."""

from __future__ import annotations

from typing import Any

import proa
import proa.nn.functional as F
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.table import onnx_op


def _per_channel(x: Any, v: Any) -> Any:
    return proa.reshape(v, [-1, *[1] * (x.ndim - 2)]) if x.ndim > 2 else v


@onnx_op("BatchNormalization", state=(3, 4), weights=(1, 2))
def batch_norm(call: Call, x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    epsilon = call.get("epsilon", 1e-5)
    if call.get("training_mode", 0):
        return _batch_norm_training(call, x, scale, bias, mean, var)
    if x.dtype == mean.dtype:
        return F.batch_norm(x, mean, var, scale, bias, epsilon=epsilon)
    scale, bias, mean, var = (_per_channel(x, v) for v in (scale, bias, mean, var))
    return ((x - mean) / proa.sqrt(var + epsilon) * scale + bias).astype(x.dtype)


def _batch_norm_training(
    call: Call, x: Any, scale: Any, bias: Any, mean: Any, var: Any
) -> Any:
    axes = [i for i in range(x.ndim) if i != 1]
    momentum, epsilon = call.get("momentum", 0.9), call.get("epsilon", 1e-5)
    now = proa.mean(x, axes)
    spread = proa.mean(proa.square(x - _per_channel(x, now)), axes)
    y = (x - _per_channel(x, now)) / proa.sqrt(_per_channel(x, spread) + epsilon)
    y = y * _per_channel(x, scale) + _per_channel(x, bias)
    return (
        y,
        mean * momentum + now * (1 - momentum),
        var * momentum + spread * (1 - momentum),
    )


def _standardised(x: Any, axes: list[int], epsilon: float) -> Any:
    centered = x - proa.mean(x, axes, True)
    return centered / proa.sqrt(proa.mean(proa.square(centered), axes, True) + epsilon)


@onnx_op("InstanceNormalization", weights=(1, 2))
def instance_norm(call: Call, x: Any, scale: Any, bias: Any) -> Any:
    y = _standardised(x, list(range(2, x.ndim)), call.get("epsilon", 1e-5))
    return y * _per_channel(x, scale) + _per_channel(x, bias)


@onnx_op("LayerNormalization", weights=(1, 2))
def layer_norm(call: Call, x: Any, scale: Any, bias: Any = None) -> Any:
    axis, epsilon = call.get("axis", -1) % x.ndim, call.get("epsilon", 1e-5)
    axes = list(range(axis, x.ndim))
    if len(call.node.outputs) == 1 and bias is not None:
        return F.layer_norm(x, list(x.shape[axis:]), scale, bias, epsilon)
    mean = proa.mean(x, axes, True)
    variance = proa.mean(proa.square(x - mean), axes, True)
    inverse = 1.0 / proa.sqrt(variance + epsilon)
    y = (x - mean) * inverse * scale
    return (y if bias is None else y + bias), mean, inverse


def root_mean_square(x: Any, scale: Any, axis: int, epsilon: float) -> tuple[Any, Any]:
    """x over the root of its mean square from an axis on, scaled; and what it was
    multiplied with.
    """
    wide = x.astype("float32")
    mean = proa.mean(proa.square(wide), list(range(axis, x.ndim)), True)
    inverse = 1.0 / proa.sqrt(mean + epsilon)
    return (wide * inverse).astype(x.dtype) * scale, inverse


@onnx_op("RMSNormalization", since=23, weights=(1,))
def rms_norm(call: Call, x: Any, scale: Any) -> Any:
    axis, epsilon = call.get("axis", -1) % x.ndim, call.get("epsilon", 1e-5)
    return root_mean_square(x, scale, axis, epsilon)[0]


@onnx_op("GroupNormalization", since=18, weights=(1, 2))
def group_norm(call: Call, x: Any, scale: Any, bias: Any) -> Any:
    groups, epsilon = call.get("num_groups"), call.get("epsilon", 1e-5)
    return group_normalised(x, scale, bias, groups, epsilon)


def group_normalised(x: Any, scale: Any, bias: Any, groups: int, epsilon: float) -> Any:
    """Each group of channels with mean 0 and variance 1, then scaled and shifted."""
    shape = x.shape
    five = proa.reshape(x, [shape[0], groups, shape[1] // groups, -1])
    y = _standardised(five, [2, 3], epsilon)
    if scale.shape[0] == groups and groups != shape[1]:
        four = [1, groups, 1, 1]
        return proa.reshape(
            y * proa.reshape(scale, four) + proa.reshape(bias, four), shape
        )
    return proa.reshape(y, shape) * _per_channel(x, scale) + _per_channel(x, bias)


@onnx_op("LRN")
def lrn(call: Call, x: Any) -> Any:
    size, alpha = call.get("size"), call.get("alpha", 1e-4)
    low = (size - 1) // 2
    shape = list(x.shape)
    ends = []
    for count in (low, size - 1 - low):
        shape[1] = count
        ends.append(proa.zeros(shape, x.dtype))
    parts = [t for t in (ends[0], proa.square(x), ends[1]) if t.shape[1] != 0]
    squares = proa.concat(parts, 1)
    n = x.shape[1]
    total = sum(proa.slice(squares, [1], [i], [i + n]) for i in range(size))
    base = call.get("bias", 1.0) + total * (alpha / size)
    return x / proa.pow(base, call.get("beta", 0.75))


@onnx_op("LpNormalization")
def lp_norm(call: Call, x: Any) -> Any:
    axis = [call.get("axis", -1)]
    if call.get("p", 2) == 1:
        total = proa.sum(proa.abs(x), axis, keepdim=True)
    else:
        total = proa.sqrt(proa.sum(proa.square(x), axis, keepdim=True))
    zero = proa.equal(total, proa.zeros_like(total))
    return x / proa.where(zero, proa.ones_like(total), total)


@onnx_op("MeanVarianceNormalization")
def mean_variance_norm(call: Call, x: Any) -> Any:
    axes = call.get("axes", [0, 2, 3])
    centered = x - proa.mean(x, axes, True)
    return centered / (proa.sqrt(proa.mean(proa.square(centered), axes, True)) + 1e-9)
