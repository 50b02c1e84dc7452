"""Normalisation."""

from __future__ import annotations

import math
from typing import Any

import proa
import proa.nn.functional as F
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.ops.convolution import layout_of
from proa.interop.paddle.importer.table import paddle_op


def per_channel(x: Any, v: Any, channels_last: bool = False) -> Any:
    """One number for each channel, so that it is broadcast over x."""
    if channels_last or x.ndim <= 2:
        return v
    return proa.reshape(v, [-1, *[1] * (x.ndim - 2)])


@paddle_op(
    "batch_norm", "sync_batch_norm", inputs="X Mean Variance Scale Bias", outputs="Y",
    state="Mean Variance", weights="Scale Bias",
)  # fmt: skip
def batch_norm(
    call: Call, x: Any, mean: Any, var: Any, scale: Any = None, bias: Any = None
) -> Any:
    last = call.get("data_layout", "NCHW") in ("NHWC", "NDHWC", "NLC") and x.ndim > 2
    training = call.training and not call.flag("use_global_stats")
    return F.batch_norm(
        x, mean, var, scale, bias, training, call.get("momentum", 0.9),
        call.get("epsilon", 1e-5), "NHWC" if last else "NCHW",
    )  # fmt: skip


@paddle_op("layer_norm", inputs="X Scale Bias", outputs="Y", weights="Scale Bias")
def layer_norm(call: Call, x: Any, scale: Any = None, bias: Any = None) -> Any:
    sizes = call.known(x.shape[call.get("begin_norm_axis", 1) :])
    scale, bias = (None if v is None else proa.reshape(v, sizes) for v in (scale, bias))
    return F.layer_norm(x, sizes, scale, bias, call.get("epsilon", 1e-5))


@paddle_op("instance_norm", inputs="X Scale Bias", outputs="Y", weights="Scale Bias")
def instance_norm(call: Call, x: Any, scale: Any = None, bias: Any = None) -> Any:
    return F.instance_norm(
        x, weight=scale, bias=bias, eps=call.get("epsilon", 1e-5)
    )  # fmt: skip


@paddle_op("group_norm", inputs="X Scale Bias", outputs="Y", weights="Scale Bias")
def group_norm(call: Call, x: Any, scale: Any = None, bias: Any = None) -> Any:
    return F.group_norm(
        x, call.get("groups"), call.get("epsilon", 1e-5), scale, bias,
        call.get("data_layout", "NCHW"),
    )  # fmt: skip


@paddle_op("affine_channel", inputs="X Scale Bias", weights="Scale Bias")
def affine_channel(call: Call, x: Any, scale: Any, bias: Any) -> Any:
    last = call.get("data_layout", "NCHW") == "NHWC"
    return x * per_channel(x, scale, last) + per_channel(x, bias, last)


@paddle_op("norm")
def l2_normalize(call: Call, x: Any) -> Any:
    total = proa.sum(proa.square(x), [call.axis(x.ndim)], keepdim=True)
    return x / proa.sqrt(total + call.get("epsilon", 1e-10))


@paddle_op("p_norm")
def p_norm(call: Call, x: Any) -> Any:
    p, keep = call.get("porder", 2.0), call.flag("keepdim")
    axis = None if call.flag("asvector") else call.get("axis", -1)
    if math.isinf(p):
        reduced = proa.max if p > 0 else proa.min
        return reduced(proa.abs(x), axis, keep)
    if p == 0:
        nonzero = proa.not_equal(x, proa.zeros_like(x)).astype(x.dtype)
        return proa.sum(nonzero, axis, keepdim=keep)
    if p == 2:
        return proa.sqrt(proa.sum(proa.square(x), axis, keepdim=keep))
    total = proa.sum(proa.pow(proa.abs(x), p), axis, keepdim=keep)
    return proa.pow(total, 1.0 / p)


@paddle_op("frobenius_norm")
def frobenius_norm(call: Call, x: Any) -> Any:
    axes = None if call.flag("reduce_all") else call.get("dim")
    return proa.sqrt(proa.sum(proa.square(x), axes, keepdim=call.flag("keep_dim")))


@paddle_op("squared_l2_norm")
def squared_l2_norm(call: Call, x: Any) -> Any:
    return proa.reshape(proa.sum(proa.square(x)), [1])


@paddle_op("lrn")
def local_response_norm(call: Call, x: Any) -> Any:
    size = call.get("n", 5)
    # F.local_response_norm takes the mean of the squares, the operator their sum
    return F.local_response_norm(
        x, size, call.get("alpha", 1e-4) * size, call.get("beta", 0.75),
        call.get("k", 2.0), layout_of(call, x.ndim - 2),
    )  # fmt: skip


@paddle_op("data_norm", inputs="X BatchSize BatchSum BatchSquareSum", outputs="Y")
def data_norm(call: Call, x: Any, count: Any, total: Any, squares: Any) -> Any:
    return (x - total / count) * proa.sqrt(count / squares)


@paddle_op("spectral_norm", inputs="Weight U V")
def spectral_norm(call: Call, w: Any, u: Any, v: Any) -> Any:
    axis, eps = call.get("dim", 0), call.get("eps", 1e-12)
    order = [axis, *(i for i in range(w.ndim) if i != axis)]
    matrix = proa.reshape(proa.transpose(w, order), [w.shape[axis], -1])
    for _ in range(call.get("power_iters", 1)):
        v = proa.matmul(matrix, u, transpose_x=True)
        v = v / (proa.sqrt(proa.sum(proa.square(v))) + eps)
        u = proa.matmul(matrix, v)
        u = u / (proa.sqrt(proa.sum(proa.square(u))) + eps)
    return w / proa.sum(u * proa.matmul(matrix, v))
