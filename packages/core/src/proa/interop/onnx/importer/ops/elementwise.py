"""Elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import proa
import proa.nn.functional as F
from proa.interop.graph.values import constant
from proa.interop.onnx.importer import rounding
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.narrow import RESULT
from proa.interop.onnx.importer.table import onnx_op


def is_float(x: Any) -> bool:
    """Whether the elements are floating numbers."""
    return "float" in x.dtype.name


def _unary(name: str, function: Callable[[Any], Any]) -> None:
    def rule(call: Call, x: Any) -> Any:
        return function(x)

    onnx_op(name)(rule)


_UNARY: dict[str, Callable[[Any], Any]] = {
    "Abs": proa.abs, "Acos": proa.acos, "Acosh": proa.acosh, "Asin": proa.asin,
    "Asinh": proa.asinh, "Atan": proa.atan, "Atanh": proa.atanh, "Ceil": proa.ceil,
    "Cos": proa.cos, "Cosh": proa.cosh, "Erf": proa.erf, "Exp": proa.exp,
    "Floor": proa.floor, "IsNaN": proa.isnan, "Log": proa.log, "Not": proa.logical_not,
    "Neg": proa.neg, "Reciprocal": proa.reciprocal, "Relu": F.relu, "Round": proa.round,
    "Sigmoid": F.sigmoid, "Sign": proa.sign, "Sin": proa.sin, "Sinh": proa.sinh,
    "Softsign": F.softsign, "Sqrt": proa.sqrt, "Tan": proa.tan, "Tanh": proa.tanh,
    "HardSwish": F.hardswish, "BitwiseNot": proa.bitwise_not, "Mish": F.mish,
}  # fmt: skip

for _name, _function in _UNARY.items():
    _unary(_name, _function)


def _aligned(call: Call, x: Any, y: Any) -> Any:
    """y with its axes where opsets before 7 say that they are."""
    axis = call.get("axis")
    if call.opset >= 7 or axis is None or not call.get("broadcast"):
        return y
    after = x.ndim - axis % x.ndim - y.ndim
    return proa.reshape(y, [*y.shape, *[1] * after])


def _binary(name: str, function: Callable[[Any, Any], Any]) -> None:
    def rule(call: Call, x: Any, y: Any) -> Any:
        return function(x, _aligned(call, x, y))

    onnx_op(name)(rule)


def _equal(x: Any, y: Any) -> Any:
    if isinstance(x, np.ndarray):  # text
        return proa.to_tensor(np.equal(x, y))
    return proa.equal(x, y)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": proa.add, "Sub": proa.subtract, "Mul": proa.multiply, "Equal": _equal,
    "Less": proa.less_than, "LessOrEqual": proa.less_equal,
    "Greater": proa.greater_than, "GreaterOrEqual": proa.greater_equal,
    "And": proa.logical_and, "Or": proa.logical_or, "Xor": proa.logical_xor,
    "BitwiseAnd": proa.bitwise_and, "BitwiseOr": proa.bitwise_or,
    "BitwiseXor": proa.bitwise_xor,
}  # fmt: skip

for _name, _operation in _BINARY.items():
    _binary(_name, _operation)


def _truncated_division(x: Any, y: Any) -> Any:
    """x / y of integers, rounded towards zero."""
    down = proa.floor_divide(x, y)
    uneven = proa.not_equal(proa.multiply(down, y), x)
    opposite = proa.logical_xor(proa.less_than(x, x * 0), proa.less_than(y, y * 0))
    return down + proa.logical_and(uneven, opposite).astype(down.dtype)


@onnx_op("Div")
def div(call: Call, x: Any, y: Any) -> Any:
    y = _aligned(call, x, y)
    if is_float(x):
        return proa.divide(x, y)
    if x.dtype.name == "uint8":
        return proa.floor_divide(x, y)
    return _truncated_division(x, y)


@onnx_op("Mod")
def mod(call: Call, x: Any, y: Any) -> Any:
    if not call.get("fmod", 0):
        return proa.mod(x, y)
    if not is_float(x):
        return x - _truncated_division(x, y) * y
    wide = x.astype("float64"), y.astype("float64")
    found = wide[0] - proa.trunc(proa.divide(*wide)) * wide[1]
    return found.astype(x.dtype)


@onnx_op("Pow")
def power(call: Call, x: Any, y: Any) -> Any:
    y = _aligned(call, x, y)
    if is_float(x):
        return proa.pow(x, y.astype(x.dtype))
    if is_float(y):
        return proa.pow(x.astype("float64"), y.astype("float64")).astype(x.dtype)
    return proa.pow(x, y.astype(x.dtype))


def _folded(function: Callable[[Any, Any], Any], xs: tuple[Any, ...]) -> Any:
    found = xs[0]
    for x in xs[1:]:
        found = function(found, x)
    return found


@onnx_op("Sum")
def sum_of(call: Call, *xs: Any) -> Any:
    return _folded(proa.add, xs)


@onnx_op("Mean")
def mean_of(call: Call, *xs: Any) -> Any:
    return _folded(proa.add, xs) / len(xs)


@onnx_op("Max")
def max_of(call: Call, *xs: Any) -> Any:
    return _folded(proa.maximum, xs)


@onnx_op("Min")
def min_of(call: Call, *xs: Any) -> Any:
    return _folded(proa.minimum, xs)


@onnx_op("Clip")
def clip_attributes(call: Call, x: Any) -> Any:
    return proa.clip(x, call.get("min"), call.get("max"))


@onnx_op("Clip", since=11)
def clip(call: Call, x: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None:
        x = proa.maximum(x, low.astype(x.dtype))
    return x if high is None else proa.minimum(x, high.astype(x.dtype))


@onnx_op("Cast")
def cast(call: Call, x: Any) -> Any:
    if (kind := call.get(RESULT)) is not None:
        return _narrowed(call, x, kind)
    return converted(call, x, call.get("to"))


#: Element types of messages that tensors have, or are held by tensors of.
_DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "int32", 5: "int16", 6: "int32", 7: "int64",
    9: "bool", 10: "float16", 11: "float64", 12: "int64", 13: "int64", 14: "complex64",
    15: "complex128", 16: "bfloat16",
}  # fmt: skip


#: Those that wider ones hold.
_UNSIGNED = {4: "uint16", 12: "uint32", 13: "uint64"}


def dtype_of(call: Call, code: int) -> str:
    """The tensors' dtype for an element type."""
    if code not in _DTYPES:
        raise call.refuse(f"elements of type {code}")
    return _DTYPES[code]


def converted(call: Call, x: Any, code: int) -> Any:
    """The value with elements of another type."""
    if isinstance(x, np.ndarray):  # text
        return proa.to_tensor(x.astype(dtype_of(call, code)))
    if code == 8:
        array = call.host(x)
        return np.array([_text(n) for n in array.flat], np.str_).reshape(array.shape)
    return proa.cast(x, dtype_of(call, code))


def _narrowed(call: Call, x: Any, kind: str) -> Any:
    if kind not in rounding.FLOATS and kind not in rounding.INTEGERS:
        raise call.refuse(f"elements of {kind}")
    if isinstance(x, np.ndarray):  # text
        x = proa.to_tensor(x.astype(np.float32))
    return rounding.converted(x, kind, bool(call.get("saturate", 1)))


def _text(number: Any) -> str:
    if isinstance(number, np.floating):
        return f"{number:.8g}" if np.isfinite(number) else str(number)
    return str(number)


@onnx_op("CastLike")
def cast_like(call: Call, x: Any, like: Any) -> Any:
    if (kind := call.get(RESULT)) is not None:
        return _narrowed(call, x, kind)
    if isinstance(like, np.ndarray):
        return converted(call, x, 8)
    if isinstance(x, np.ndarray):
        return proa.to_tensor(x.astype(like.dtype.name))
    return proa.cast(x, like.dtype)


@onnx_op("BitCast")
def bit_cast(call: Call, x: Any) -> Any:
    """The same bits as elements of another type; outside recorded graphs."""
    code, array = call.get("to"), call.host(x)
    wanted = np.dtype(_UNSIGNED.get(code, dtype_of(call, code)))
    if array.dtype.kind == "i" and array.dtype.itemsize == 2 * wanted.itemsize:
        # Unsigned numbers, which wider signed ones hold.
        array = array.astype(f"u{wanted.itemsize}")
    if array.dtype.itemsize != wanted.itemsize:
        raise call.refuse(f"{array.dtype} and elements of {wanted}")
    return constant(np.ascontiguousarray(array).view(wanted).reshape(array.shape))


@onnx_op("Identity")
def identity(call: Call, x: Any) -> Any:
    return x


@onnx_op("Where")
def where(call: Call, condition: Any, x: Any, y: Any) -> Any:
    return proa.where(condition, x, y)


@onnx_op("IsInf")
def is_inf(call: Call, x: Any) -> Any:
    found = proa.isinf(x)
    if not call.get("detect_negative", 1):
        found = proa.logical_and(found, proa.greater_than(x, x.astype(x.dtype) * 0))
    if not call.get("detect_positive", 1):
        found = proa.logical_and(proa.isinf(x), proa.less_than(x, proa.zeros_like(x)))
    elif not call.get("detect_negative", 1):
        above = proa.greater_than(x, proa.zeros_like(x))
        found = proa.logical_and(proa.isinf(x), above)
    return found


@onnx_op("BitShift")
def bit_shift(call: Call, x: Any, y: Any) -> Any:
    # A shift by the width or more leaves the sign alone; negative ones are as wide.
    y = y.astype("int64")
    low, high = proa.zeros_like(y), proa.full_like(y, 62)
    y = proa.where(proa.less_than(y, low), high, proa.minimum(y, high))
    power_of_two = proa.pow(proa.full_like(y, 2), y)
    if call.get("direction") == "RIGHT":
        return proa.floor_divide(x.astype("int64"), power_of_two).astype(x.dtype)
    return (x.astype("int64") * power_of_two).astype(x.dtype)


# -- activations


@onnx_op("Elu")
def elu(call: Call, x: Any) -> Any:
    return F.elu(x, call.get("alpha", 1.0))


@onnx_op("Celu")
def celu(call: Call, x: Any) -> Any:
    return F.celu(x, call.get("alpha", 1.0))


@onnx_op("Selu")
def selu(call: Call, x: Any) -> Any:
    gamma = call.get("gamma", 1.05070102214813232421875)
    alpha = call.get("alpha", 1.67326319217681884765625)
    # gamma may be below 1, which F.selu excludes
    return gamma * F.elu(x, alpha)


@onnx_op("Gelu")
def gelu(call: Call, x: Any) -> Any:
    return F.gelu(x, call.get("approximate", "none") == "tanh")


@onnx_op("LeakyRelu")
def leaky_relu(call: Call, x: Any) -> Any:
    return F.leaky_relu(x, call.get("alpha", 0.01))


@onnx_op("PRelu", weights=(1,))
def prelu(call: Call, x: Any, slope: Any) -> Any:
    if call.opset < 7 and slope.ndim == 1 and x.ndim > 2:
        slope = proa.reshape(slope, [-1, *[1] * (x.ndim - 2)])
    return proa.where(proa.less_than(x, proa.zeros_like(x)), x * slope, x)


@onnx_op("HardSigmoid")
def hard_sigmoid(call: Call, x: Any) -> Any:
    return F.hardsigmoid(x, call.get("alpha", 0.2), call.get("beta", 0.5))


@onnx_op("Softplus")
def softplus(call: Call, x: Any) -> Any:
    return F.softplus(x)


@onnx_op("ThresholdedRelu")
def thresholded_relu(call: Call, x: Any) -> Any:
    return F.thresholded_relu(x, call.get("alpha", 1.0))


@onnx_op("Shrink")
def shrink(call: Call, x: Any) -> Any:
    limit, bias = call.get("lambd", 0.5), call.get("bias", 0.0)
    low = proa.less_than(x, proa.full_like(x, -limit))
    high = proa.greater_than(x, proa.full_like(x, limit))
    zero = proa.zeros_like(x)
    return proa.where(low, x + bias, proa.where(high, x - bias, zero)).astype(x.dtype)


@onnx_op("Swish")
def swish(call: Call, x: Any) -> Any:
    return x * F.sigmoid(x * call.get("alpha", 1.0))


def _axis_rule(name: str, function: Callable[..., Any]) -> None:
    def over_trailing(call: Call, x: Any) -> Any:
        axis = call.get("axis", 1)
        flat = proa.flatten(proa.unsqueeze(x, [0]), 1 + axis % x.ndim, -1)
        return proa.reshape(function(flat, axis=-1), x.shape)

    def along(call: Call, x: Any) -> Any:
        return function(x, axis=call.get("axis", -1))

    onnx_op(name)(over_trailing)
    onnx_op(name, since=13)(along)


def _hardmax(x: Any, axis: int) -> Any:
    best = proa.argmax(x, axis)
    moved = F.one_hot(best, x.shape[axis]).astype(x.dtype)
    last = moved.ndim - 1
    perm = list(range(last))
    perm.insert(axis % x.ndim, last)
    return proa.transpose(moved, perm)


_axis_rule("Softmax", F.softmax)
_axis_rule("LogSoftmax", F.log_softmax)
_axis_rule("Hardmax", _hardmax)


@onnx_op("Dropout")
def dropout_inference(call: Call, x: Any) -> Any:
    return x, proa.ones_like(x).astype("bool")


@onnx_op("Dropout", since=12, host=(1, 2))
def dropout(call: Call, x: Any, ratio: Any = None, training: Any = None) -> Any:
    mask = proa.ones_like(x).astype("bool")
    p = call.number(ratio, 0.5)
    if not call.number(training, False) or math.isclose(p, 0.0):
        return x, mask
    mask = proa.bernoulli(proa.full_like(x, 1.0 - p)).astype("bool")
    return proa.where(mask, x / (1.0 - p), proa.zeros_like(x)), mask
