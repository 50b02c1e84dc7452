"""Rows of functions of one array, element by element."""

from __future__ import annotations

import math

import numpy as np

from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.standard import full, where
from proa.interop.onnx.exporter.table import Rule, export_row
from proa.schema.dtypes import FLOATING, INTEGERS

#: Operators that the standard has under another name, with the same meaning.
_SAME = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh",
    "assign": "Identity", "atan": "Atan", "atanh": "Atanh", "conj": "Identity",
    "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "log": "Log",
    "neg": "Neg", "reciprocal": "Reciprocal", "sigmoid": "Sigmoid",
    "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip
#: The largest finite number of a dtype.
_LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": float(np.finfo(np.float32).max),
    "float64": float(np.finfo(np.float64).max),
}


def _same(target: str) -> Rule:
    return lambda c, x: c.op(target, x)


for _name, _target in _SAME.items():
    export_row(_name)(_same(_target))


@export_row("sign")
def sign(c: Call, x: Ref) -> Ref:
    y = c.op("Sign", x)
    return where(c, c.op("IsNaN", x), x, y) if x.dtype in FLOATING else y


@export_row("floor", "ceil", "trunc")
def whole(c: Call, x: Ref) -> Ref:
    if x.dtype in INTEGERS:
        return c.op("Identity", x)
    if c.name == "trunc":
        return c.op("Mul", c.op("Sign", x), c.op("Floor", c.op("Abs", x)))
    return c.op("Floor" if c.name == "floor" else "Ceil", x)


@export_row("round")
def round_by_floor(c: Call, x: Ref) -> Ref:
    if x.dtype in INTEGERS:
        return c.op("Identity", x)
    low = c.op("Floor", x)
    rest = c.op("Sub", x, low)
    half = c.number(0.5, x)
    even = c.op("Floor", c.op("Mul", low, half))
    odd = c.op("Greater", c.op("Sub", low, c.op("Add", even, even)), half)
    not_below = c.op("Not", c.op("Less", rest, half))
    up = c.op("Or", c.op("Greater", rest, half), c.op("And", odd, not_below))
    return c.op("Add", low, c.cast(up, x.dtype))


@export_row("round", since=11)
def round_to_even(c: Call, x: Ref) -> Ref:
    return c.op("Identity" if x.dtype in INTEGERS else "Round", x)


@export_row("square")
def square(c: Call, x: Ref) -> Ref:
    return c.op("Mul", x, x)


@export_row("rsqrt")
def rsqrt(c: Call, x: Ref) -> Ref:
    return c.op("Reciprocal", c.op("Sqrt", x))


@export_row("log2", "log10")
def log_to_base(c: Call, x: Ref) -> Ref:
    base = math.log(2.0 if c.name == "log2" else 10.0)
    return c.op("Div", c.op("Log", x), c.number(base, x))


@export_row("expm1")
def expm1(c: Call, x: Ref) -> Ref:
    # tanh(x / 2) (exp(x) + 1) has no difference of nearly equal numbers.
    one = c.number(1.0, x)
    half = c.op("Tanh", c.op("Mul", x, c.number(0.5, x)))
    return c.op("Mul", half, c.op("Add", c.op("Exp", x), one))


@export_row("log1p")
def log1p(c: Call, x: Ref) -> Ref:
    # log(u) x / (u - 1) with the rounded u = 1 + x (Kahan), and x where u is 1.
    one = c.number(1.0, x)
    u = c.op("Add", x, one)
    over = c.op("Sub", u, one)
    flat = c.op("Not", c.op("Or", c.op("Less", over, c.number(0.0, x)),
                            c.op("Greater", over, c.number(0.0, x))))  # fmt: skip
    ratio = c.op("Div", x, where(c, flat, one, over))
    big = c.op("Greater", x, c.number(1e3, x))  # where infinity would give NaN
    scaled = c.op("Mul", c.op("Log", u), where(c, big, one, ratio))
    return where(c, flat, x, scaled)


# -- activations -----------------------------------------------------------------------
@export_row("relu")
def relu(c: Call, x: Ref) -> Ref:
    if x.dtype in INTEGERS and c.opset < 14:
        zero = c.number(0, x)
        return where(c, c.op("Greater", x, zero), x, zero)
    return c.op("Relu", x)


def limited(c: Call, x: Ref, low: float | None, high: float | None) -> Ref:
    """x within bounds, of which None is none."""
    if x.dtype in INTEGERS:
        return _limited_integers(c, x, low, high)
    if c.opset < 11:
        ends = [None if b is None else float(b) for b in (low, high)]
        return c.op("Clip", x, min=ends[0], max=ends[1])
    bounds = [None if b is None else c.number(b, x) for b in (low, high)]
    return c.op("Clip", x, *bounds)


def _limited_integers(c: Call, x: Ref, low: float | None, high: float | None) -> Ref:
    limits = np.iinfo(x.dtype)
    for op, bound in (("Less", low), ("Greater", high)):
        if bound is not None:
            within = int(min(max(bound, limits.min), limits.max))
            number = c.number(within, x)
            x = where(c, c.op(op, x, number), number, x)
    return x


@export_row("relu6")
def relu6(c: Call, x: Ref) -> Ref:
    return limited(c, x, 0.0, 6.0)


@export_row("clip")
def clip(c: Call, x: Ref, *, min: float, max: float) -> Ref:
    if min > max:  # the upper bound wins
        min = max
    low = None if min == -math.inf else min
    high = None if max == math.inf else max
    return limited(c, x, low, high)


@export_row("leaky_relu")
def leaky_relu(c: Call, x: Ref, *, negative_slope: float) -> Ref:
    if x.dtype == "float64":  # attributes are of 32 bits
        below = c.op("Mul", x, c.number(negative_slope, x))
        return where(c, c.op("Greater", x, c.number(0.0, x)), x, below)
    return c.op("LeakyRelu", x, alpha=float(negative_slope))


@export_row("elu")
def elu(c: Call, x: Ref, *, alpha: float) -> Ref:
    if x.dtype == "float64":
        below = c.op("Mul", expm1(c, x), c.number(alpha, x))
        return where(c, c.op("Greater", x, c.number(0.0, x)), x, below)
    return c.op("Elu", x, alpha=float(alpha))


@export_row("softplus")
def softplus(c: Call, x: Ref, *, beta: float, threshold: float) -> Ref:
    z = x if beta == 1.0 else c.op("Mul", x, c.number(beta, x))
    y = c.op("Softplus", z)
    y = y if beta == 1.0 else c.op("Div", y, c.number(beta, x))
    if threshold >= 20.0 and x.dtype != "float64":
        return y  # the two are equal up to rounding there
    return where(c, c.op("Greater", z, c.number(threshold, x)), x, y)


@export_row("hard_sigmoid")
def hard_sigmoid(c: Call, x: Ref, *, slope: float, offset: float) -> Ref:
    if x.dtype == "float64":
        line = c.op("Add", c.op("Mul", x, c.number(slope, x)), c.number(offset, x))
        return limited(c, line, 0.0, 1.0)
    return c.op("HardSigmoid", x, alpha=float(slope), beta=float(offset))


@export_row("hard_swish")
def hard_swish(c: Call, x: Ref) -> Ref:
    return c.op("Mul", x, hard_sigmoid(c, x, slope=1.0 / 6.0, offset=0.5))


@export_row("hard_swish", since=14)
def hard_swish_whole(c: Call, x: Ref) -> Ref:
    return hard_swish(c, x) if x.dtype == "float64" else c.op("HardSwish", x)


@export_row("gelu", since=20)
def gelu(c: Call, x: Ref) -> Ref:
    return c.op("Gelu", x)


@export_row("gelu_tanh", since=20)
def gelu_tanh(c: Call, x: Ref) -> Ref:
    return c.op("Gelu", x, approximate="tanh")


@export_row("mish", since=18)
def mish(c: Call, x: Ref) -> Ref:
    return c.op("Mish", x)


# -- tests -----------------------------------------------------------------------------
def _never(c: Call, x: Ref, value: bool) -> Ref:
    return c.cast(full(c, c.shape(x), float(value), "float32"), "bool")


@export_row("isnan")
def isnan(c: Call, x: Ref) -> Ref:
    return c.op("IsNaN", x) if x.dtype in FLOATING else _never(c, x, False)


@export_row("isinf")
def isinf(c: Call, x: Ref) -> Ref:
    if x.dtype not in FLOATING:
        return _never(c, x, False)
    return c.op("Greater", c.op("Abs", x), c.number(_LARGEST[x.dtype], x))


@export_row("isfinite")
def isfinite(c: Call, x: Ref) -> Ref:
    if x.dtype not in FLOATING:
        return _never(c, x, True)
    large = c.op("Greater", c.op("Abs", x), c.number(_LARGEST[x.dtype], x))
    return c.op("Not", c.op("Or", large, c.op("IsNaN", x)))


@export_row("logical_not")
def logical_not(c: Call, x: Ref) -> Ref:
    return c.op("Not", c.cast(x, "bool"))


@export_row("bitwise_not")
def bitwise_not(c: Call, x: Ref) -> Ref:
    if x.dtype == "bool":
        return c.op("Not", x)
    return c.op("Sub", c.number(255 if x.dtype == "uint8" else -1, x), x)


# -- conversions -----------------------------------------------------------------------
@export_row("cast")
def cast(c: Call, x: Ref, *, dtype: str) -> Ref:
    return c.cast(x, dtype) if dtype != x.dtype else c.op("Identity", x)


@export_row("cast_like")
def cast_like(c: Call, x: Ref, like: Ref) -> Ref:
    return cast(c, x, dtype=like.dtype)


@export_row("scale")
def scale(c: Call, x: Ref, *, scale: float, bias: float) -> Ref:
    given, whole = x.dtype, float(scale).is_integer() and float(bias).is_integer()
    if given in INTEGERS:
        x = c.cast(x, "int64" if whole else "float64")
    if scale != 1.0:
        x = c.op("Mul", x, c.number(_held(scale, x), x))
    if bias != 0.0:
        x = c.op("Add", x, c.number(_held(bias, x), x))
    return c.cast(x, given)


def _held(value: float, x: Ref) -> float:
    return int(value) if x.dtype in INTEGERS else value


@export_row("clip_grad")
def clip_grad(c: Call, dy: Ref, x: Ref, *, min: float, max: float) -> Ref:
    low, high = (_held(bound, x) for bound in (min, max))
    if x.dtype in INTEGERS:
        limits = np.iinfo(x.dtype)
        low, high = np.clip([low, high], limits.min, limits.max).tolist()
    above = c.row("greater_equal", x, low)
    inside = c.row("logical_and", above, c.row("less_equal", x, high))
    return where(c, inside, dy, c.number(0, dy))


@export_row("relu_grad")
def relu_grad(c: Call, dy: Ref, y: Ref) -> Ref:
    zero = c.number(0.0, y)
    return where(c, c.op("Greater", y, zero), dy, zero)
