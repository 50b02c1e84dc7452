"""Rows of functions of one or two arrays, element by element."""

from __future__ import annotations

import math
from dataclasses import replace

from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.table import Rule, export_row
from proa.schema.dtypes import INTEGERS

_UNARY = {
    "assign": "assign", "isnan": "isnan_v2", "isinf": "isinf_v2",
    "isfinite": "isfinite_v2",
} | {
    name: name
    for name in (
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil",
        "cos", "cosh", "erf", "exp", "expm1", "floor", "log", "log10", "log1p", "log2",
        "logical_not", "mish", "reciprocal", "relu", "round", "rsqrt", "sigmoid",
        "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
    )
}  # fmt: skip

_BINARY = {
    "add": "elementwise_add", "sub": "elementwise_sub", "mul": "elementwise_mul",
    "div": "elementwise_div", "pow": "elementwise_pow", "maximum": "elementwise_max",
    "minimum": "elementwise_min", "mod": "elementwise_mod",
    "floor_div": "elementwise_floordiv",
} | {
    name: name
    for name in (
        "equal", "not_equal", "less_than", "less_equal", "greater_than",
        "greater_equal", "logical_and", "logical_or", "logical_xor", "bitwise_and",
        "bitwise_or", "bitwise_xor",
    )
}  # fmt: skip


def _unary(target: str) -> Rule:
    return lambda c, x: c.unary(target, x, dtype=c.outputs[0].dtype)


def _binary(target: str) -> Rule:
    return lambda c, x, y: c.binary(target, x, y, dtype=c.outputs[0].dtype)


for _name, _target in _UNARY.items():
    export_row(_name)(_unary(_target))
for _name, _target in _BINARY.items():
    export_row(_name)(_binary(_target))


@export_row("atan2")
def atan2(c: Call, x: Ref, y: Ref) -> Ref:
    shape = c.outputs[0].shape
    if x.shape != shape or y.shape != shape:  # the operator broadcasts nothing
        if -1 in shape:
            zero = c.binary("elementwise_add", *(scaled(c, v, 0.0) for v in (x, y)))
            x, y = (_spread(c, v, zero) for v in (x, y))
        else:
            x, y = (_expanded(c, v, shape) for v in (x, y))
    return c.op("atan2", {"X1": x, "X2": y}, shape)


def scaled(c: Call, x: Ref, scale: float, bias: float = 0.0) -> Ref:
    """scale * x + bias."""
    return c.unary(
        "scale", x, scale=float(scale), bias=float(bias), bias_after_scale=True
    )


@export_row("scale")
def scale_(c: Call, x: Ref, *, scale: float, bias: float) -> Ref:
    return scaled(c, x, scale, bias)


@export_row("neg")
def neg(c: Call, x: Ref) -> Ref:
    return scaled(c, x, -1.0)


@export_row("clip")
def clip(c: Call, x: Ref, *, min: float, max: float) -> Ref:
    if x.dtype in INTEGERS:
        for kind, bound in (("elementwise_max", min), ("elementwise_min", max)):
            if math.isfinite(bound):
                x = c.binary(kind, x, c.number(bound, x))
        return x
    low = -3.4e38 if min == -math.inf else min
    high = 3.4e38 if max == math.inf else max
    return c.unary("clip", x, min=float(low), max=float(high))


@export_row("cast")
def cast(c: Call, x: Ref, *, dtype: str) -> Ref:
    return c.cast(x, dtype)


@export_row("cast_like")
def cast_like(c: Call, x: Ref, like: Ref) -> Ref:
    return c.cast(x, like.dtype)


@export_row("where")
def where(c: Call, condition: Ref, x: Ref, y: Ref) -> Ref:
    shape = c.outputs[0].shape
    given = [condition, x, y]
    if -1 not in shape:
        given = [_expanded(c, ref, shape) for ref in given]
    else:  # the operator broadcasts nothing: zeros of the whole shape are added
        zero = [scaled(c, c.cast(ref, "int32"), 0.0) for ref in given]
        total = c.binary("elementwise_add", zero[0], zero[1])
        total = c.binary("elementwise_add", total, zero[2])
        given = [_spread(c, ref, total) for ref in given]
    slots = dict(zip(("Condition", "X", "Y"), given, strict=True))
    return c.op("where", slots, shape, dtype=x.dtype)


def _expanded(c: Call, x: Ref, shape: tuple[int, ...]) -> Ref:
    if x.shape == shape:
        return x
    return c.op("expand_v2", {"X": x}, shape, shape=list(shape))


def _spread(c: Call, x: Ref, zeros: Ref) -> Ref:
    """x broadcast to the shape of zeros."""
    given = c.cast(x, "int32") if x.dtype == "bool" else x
    wide = c.binary("elementwise_add", given, c.cast(zeros, given.dtype))
    return c.cast(wide, x.dtype)


# -- activations -----------------------------------------------------------------------
@export_row("relu6")
def relu6(c: Call, x: Ref) -> Ref:
    return c.unary("relu6", x, threshold=6.0)


@export_row("leaky_relu")
def leaky_relu(c: Call, x: Ref, *, negative_slope: float) -> Ref:
    return c.unary("leaky_relu", x, alpha=float(negative_slope))


@export_row("elu")
def elu(c: Call, x: Ref, *, alpha: float) -> Ref:
    return c.unary("elu", x, alpha=float(alpha))


@export_row("softplus")
def softplus(c: Call, x: Ref, *, beta: float, threshold: float) -> Ref:
    return c.unary("softplus", x, beta=float(beta), threshold=float(threshold))


@export_row("silu")
def silu(c: Call, x: Ref, *, beta: float) -> Ref:
    if beta == 1.0:
        return c.unary("silu", x)
    inner = c.unary("sigmoid", scaled(c, x, beta))
    return c.binary("elementwise_mul", x, inner)


@export_row("gelu", "gelu_tanh")
def gelu(c: Call, x: Ref) -> Ref:
    return c.unary("gelu", x, approximate=c.name == "gelu_tanh")


@export_row("hard_sigmoid")
def hard_sigmoid(c: Call, x: Ref, *, slope: float, offset: float) -> Ref:
    return c.unary("hard_sigmoid", x, slope=float(slope), offset=float(offset))


@export_row("hard_swish")
def hard_swish(c: Call, x: Ref) -> Ref:
    return c.unary("hard_swish", x, threshold=6.0, scale=6.0, offset=3.0)


@export_row("softmax", "log_softmax")
def softmax(c: Call, x: Ref, *, axis: int) -> Ref:
    return c.unary(c.name, x, axis=axis)


def activated(c: Call, x: Ref, act: str) -> Ref:
    """The activation that a fused operator ends with."""
    if act == "none":
        return x
    x = replace(x, shape=c.outputs[0].shape)
    return c.row(act, x)  # type: ignore[no-any-return]
