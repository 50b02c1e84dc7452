"""Activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import proa
import proa.nn.functional as F
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op


def _hard_swish(call: Call, x: Any) -> Any:
    limit, scale = call.get("threshold", 6.0), call.get("scale", 6.0)
    offset = call.get("offset", 3.0)
    if (limit, scale, offset) == (6.0, 6.0, 3.0):
        return F.hardswish(x)
    return x * proa.clip(x + offset, 0.0, limit) / scale


def _swish(call: Call, x: Any) -> Any:
    beta = call.get("beta", 1.0)
    return F.swish(x) if beta == 1.0 else x * F.sigmoid(x * beta)


def _relu6(call: Call, x: Any) -> Any:
    limit = call.get("threshold", 6.0)
    return F.relu6(x) if limit == 6.0 else proa.clip(x, 0.0, limit)


def _soft_relu(call: Call, x: Any) -> Any:
    limit = call.get("threshold", 40.0)
    return proa.log1p(proa.exp(proa.clip(x, -limit, limit)))


_RULES: dict[str, Callable[[Call, Any], Any]] = {
    "brelu": lambda call, x: proa.clip(
        x, call.get("t_min", 0.0), call.get("t_max", 24.0)
    ),
    "celu": lambda call, x: F.celu(x, call.get("alpha", 1.0)),
    "elu": lambda call, x: F.elu(x, call.get("alpha", 1.0)),
    "gelu": lambda call, x: F.gelu(x, call.flag("approximate")),
    "hard_shrink": lambda call, x: F.hardshrink(x, call.get("threshold", 0.5)),
    "hard_sigmoid": lambda call, x: F.hardsigmoid(
        x, call.get("slope", 0.2), call.get("offset", 0.5)
    ),
    "hard_swish": _hard_swish,
    "leaky_relu": lambda call, x: F.leaky_relu(x, call.get("alpha", 0.02)),
    "log_softmax": lambda call, x: F.log_softmax(x, call.get("axis", -1)),
    "logsigmoid": lambda call, x: F.log_sigmoid(x),
    "maxout": lambda call, x: F.maxout(x, call.get("groups"), call.get("axis", 1)),
    "mish": lambda call, x: F.mish(x),
    "relu": lambda call, x: F.relu(x),
    "relu6": _relu6,
    "selu": lambda call, x: F.selu(
        x, call.get("scale", 1.0507009873554805), call.get("alpha", 1.6732632423543772)
    ),
    "sigmoid": lambda call, x: F.sigmoid(x),
    "silu": lambda call, x: F.silu(x),
    "soft_relu": _soft_relu,
    "softmax": lambda call, x: F.softmax(x, call.get("axis", -1)),
    "softplus": lambda call, x: F.softplus(
        x, call.get("beta", 1.0), call.get("threshold", 20.0)
    ),
    "softshrink": lambda call, x: F.softshrink(x, call.get("lambda", 0.5)),
    "softsign": lambda call, x: F.softsign(x),
    "stanh": lambda call, x: proa.stanh(
        x, call.get("scale_a", 0.67), call.get("scale_b", 1.7159)
    ),
    "swish": _swish,
    "tanh_shrink": lambda call, x: F.tanhshrink(x),
    "thresholded_relu": lambda call, x: F.thresholded_relu(
        x, call.get("threshold", 1.0)
    ),
}

for _name, _rule in _RULES.items():
    paddle_op(_name)(_rule)


@paddle_op("prelu", inputs="X Alpha", weights="Alpha")
def prelu(call: Call, x: Any, slope: Any) -> Any:
    mode, last = call.get("mode", "all"), call.get("data_format", "NCHW") == "NHWC"
    if mode == "channel" and not last and x.ndim > 2:
        slope = proa.reshape(slope, [-1, *[1] * (x.ndim - 2)])
    elif mode == "element":
        slope = proa.reshape(slope, [1, *x.shape[1:]])
    else:
        slope = proa.reshape(slope, [-1])
    return proa.where(proa.less_than(x, proa.zeros_like(x)), x * slope, x)
