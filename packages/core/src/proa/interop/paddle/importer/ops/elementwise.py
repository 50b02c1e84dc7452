"""Elementwise operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import proa
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op

_UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": proa.abs, "acos": proa.acos, "acosh": proa.acosh, "asin": proa.asin,
    "asinh": proa.asinh, "atan": proa.atan, "atanh": proa.atanh,
    "bitwise_not": proa.bitwise_not, "ceil": proa.ceil, "cos": proa.cos,
    "cosh": proa.cosh, "erf": proa.erf, "exp": proa.exp, "expm1": proa.expm1,
    "floor": proa.floor, "isfinite_v2": proa.isfinite, "isinf_v2": proa.isinf,
    "isnan_v2": proa.isnan, "log": proa.log, "log10": proa.log10, "log1p": proa.log1p,
    "log2": proa.log2, "logical_not": proa.logical_not, "reciprocal": proa.reciprocal,
    "round": proa.round, "rsqrt": proa.rsqrt, "sign": proa.sign, "sin": proa.sin,
    "sinh": proa.sinh, "sqrt": proa.sqrt, "square": proa.square, "tan": proa.tan,
    "tanh": proa.tanh, "trunc": proa.trunc, "conj": proa.conj, "real": proa.real,
    "imag": proa.imag,
}  # fmt: skip


def _add_unary(name: str, function: Callable[[Any], Any]) -> None:
    def rule(call: Call, x: Any) -> Any:
        return function(x)

    paddle_op(name)(rule)


for _name, _function in _UNARY.items():
    _add_unary(_name, _function)


def aligned(call: Call, x: Any, y: Any) -> tuple[Any, Any]:
    """x and y with the axes of the smaller one where ``axis`` says that they begin.

    -1 means that they end with those of the larger one, as everywhere.
    """
    axis = call.get("axis", -1)
    if axis < 0 or x.ndim == y.ndim:
        return x, y
    if x.ndim < y.ndim:
        y, x = aligned(call, y, x)
        return x, y
    after = x.ndim - axis - y.ndim
    if after <= 0:
        return x, y
    return x, proa.unsqueeze(y, list(range(y.ndim, y.ndim + after)))


def _fused(call: Call, x: Any) -> Any:
    """The activation that PaddlePaddle's passes leave in an operator's attributes."""
    name = call.get("fuse_activation", "")
    if name:
        raise call.refuse(f"the fused activation {name}")
    return x


def _floor_divide(x: Any, y: Any) -> Any:
    return proa.floor_divide(x, y)


def _divide(x: Any, y: Any) -> Any:
    if "float" in x.dtype.name or "complex" in x.dtype.name:
        return proa.divide(x, y)
    return proa.trunc(proa.divide(x.astype("float64"), y.astype("float64"))).astype(
        x.dtype
    )


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "elementwise_add": proa.add, "elementwise_sub": proa.subtract,
    "elementwise_mul": proa.multiply, "elementwise_div": _divide,
    "elementwise_max": proa.maximum, "elementwise_min": proa.minimum,
    "elementwise_pow": proa.pow, "elementwise_mod": proa.remainder,
    "elementwise_floordiv": _floor_divide, "elementwise_fmax": proa.maximum,
    "elementwise_fmin": proa.minimum, "minus": proa.subtract,
    "equal": proa.equal, "not_equal": proa.not_equal, "less_than": proa.less_than,
    "less_equal": proa.less_equal, "greater_than": proa.greater_than,
    "greater_equal": proa.greater_equal, "bitwise_and": proa.bitwise_and,
    "bitwise_or": proa.bitwise_or, "bitwise_xor": proa.bitwise_xor,
    "logical_and": proa.logical_and, "logical_or": proa.logical_or,
    "logical_xor": proa.logical_xor,
}  # fmt: skip


def _add_binary(name: str, function: Callable[[Any, Any], Any]) -> None:
    def rule(call: Call, x: Any, y: Any) -> Any:
        return _fused(call, function(*aligned(call, x, y)))

    paddle_op(name, inputs="X Y")(rule)


for _name, _operation in _BINARY.items():
    _add_binary(_name, _operation)


@paddle_op("atan2", inputs="X1 X2")
def atan2(call: Call, x: Any, y: Any) -> Any:
    return proa.atan2(x, y)


@paddle_op("scale", inputs="X ScaleTensor", host="ScaleTensor")
def scale(call: Call, x: Any, factor: Any = None) -> Any:
    factor = call.number(factor, call.get("scale", 1.0))
    bias = call.get("bias", 0.0)
    if factor == 1 and bias == 0:
        return x
    return proa.scale(x, factor, bias, call.flag("bias_after_scale", True))


@paddle_op("cast")
def cast(call: Call, x: Any) -> Any:
    return proa.cast(x, call.dtype(call.get("out_dtype", 5)))


@paddle_op("assign", "share_data", "memcpy", "share_buffer", "print")
def assign(call: Call, x: Any) -> Any:
    return x


@paddle_op("increment")
def increment(call: Call, x: Any) -> Any:
    step = call.get("step", 1.0)
    return x + proa.full_like(x, step)


@paddle_op("sum", inputs="X*")
def add_all(call: Call, xs: list[Any]) -> Any:
    return proa.add_n(xs)


@paddle_op("clip", inputs="X Min Max", host="Min Max")
def clip(call: Call, x: Any, low: Any = None, high: Any = None) -> Any:
    return proa.clip(
        x, call.number(low, call.get("min")), call.number(high, call.get("max"))
    )


@paddle_op("clip_by_norm")
def clip_by_norm(call: Call, x: Any) -> Any:
    limit = call.get("max_norm")
    norm = proa.sqrt(proa.sum(proa.square(x)))
    return x * (limit / proa.maximum(norm, proa.full_like(norm, limit)))


@paddle_op("pow", inputs="X FactorTensor")
def power(call: Call, x: Any, factor: Any = None) -> Any:
    return proa.pow(x, call.get("factor", 1.0) if factor is None else factor)


@paddle_op("where", inputs="Condition X Y")
def where(call: Call, condition: Any, x: Any, y: Any) -> Any:
    return proa.where(condition, x, y)


@paddle_op("lerp", inputs="X Y Weight")
def lerp(call: Call, x: Any, y: Any, weight: Any) -> Any:
    return proa.lerp(x, y, weight)


@paddle_op("dropout", inputs="X Seed")
def dropout(call: Call, x: Any, seed: Any = None) -> Any:
    p = call.get("dropout_prob", 0.5)
    mode = call.get("dropout_implementation", "downgrade_in_infer")
    if call.training:
        return proa.nn.functional.dropout(x, p, mode=mode)
    return x if mode == "upscale_in_train" or p == 0 else x * (1.0 - p)


@paddle_op("label_smooth", inputs="X PriorDist")
def label_smooth(call: Call, x: Any, prior: Any = None) -> Any:
    return proa.nn.functional.label_smooth(x, prior, call.get("epsilon", 0.1))
