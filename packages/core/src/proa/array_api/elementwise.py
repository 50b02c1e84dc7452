"""Functions of each element, of the array API standard.

Arrays broadcast, and are promoted as `result_type` says. One of two operands may be a
Python number. Results are new arrays; gradients flow as through Proa's operators.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from proa._core import Tensor, from_numpy, ops
from proa.array_api.arrays import require_tensor
from proa.array_api.data_types import iinfo
from proa.array_api.operands import Operand, both, promoted
from proa.base.dtype import float32
from proa.errors import InvalidTypeError
from proa.tensor.cumulative import logaddexp as _logaddexp
from proa.tensor.shifts import left_shift, right_shift

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh",
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign", "cos",
    "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater",
    "greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan", "less",
    "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply",
    "negative", "not_equal", "positive", "pow", "real", "remainder", "round", "sign",
    "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
]  # fmt: skip


def abs(x: Tensor, /) -> Tensor:
    """The modulus: of a complex array a real one."""
    return ops.abs(require_tensor("abs", x))


def acos(x: Tensor, /) -> Tensor:
    """The inverse cosine, in [0, pi] of real numbers."""
    return ops.acos(require_tensor("acos", x))


def acosh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic cosine."""
    return ops.acosh(require_tensor("acosh", x))


def add(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 + x2."""
    return ops.add(*both("add", x1, x2))


def asin(x: Tensor, /) -> Tensor:
    """The inverse sine, in [-pi/2, pi/2] of real numbers."""
    return ops.asin(require_tensor("asin", x))


def asinh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic sine."""
    return ops.asinh(require_tensor("asinh", x))


def atan(x: Tensor, /) -> Tensor:
    """The inverse tangent, in [-pi/2, pi/2] of real numbers."""
    return ops.atan(require_tensor("atan", x))


def atan2(x1: Operand, x2: Operand, /) -> Tensor:
    """The angle of the point (x2, x1), in [-pi, pi]."""
    return ops.atan2(*both("atan2", x1, x2))


def atanh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic tangent."""
    return ops.atanh(require_tensor("atanh", x))


def bitwise_and(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 & x2."""
    return ops.bitwise_and(*both("bitwise_and", x1, x2))


def bitwise_invert(x: Tensor, /) -> Tensor:
    """Every bit flipped; of booleans, not x."""
    return ops.bitwise_not(require_tensor("bitwise_invert", x))


def bitwise_left_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits of x1 moved up by x2 >= 0; those beyond the width are lost."""
    return left_shift(*both("bitwise_left_shift", x1, x2))


def bitwise_or(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 | x2."""
    return ops.bitwise_or(*both("bitwise_or", x1, x2))


def bitwise_right_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 divided by 2 ** x2, x2 >= 0, and rounded down."""
    return right_shift(*both("bitwise_right_shift", x1, x2))


def bitwise_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 ^ x2."""
    return ops.bitwise_xor(*both("bitwise_xor", x1, x2))


def ceil(x: Tensor, /) -> Tensor:
    """The least integer that is not less than x."""
    return ops.ceil(require_tensor("ceil", x))


def clip(
    x: Tensor,
    /,
    min: Tensor | float | None = None,
    max: Tensor | float | None = None,
) -> Tensor:
    """x limited to [min, max], in its own dtype; None does not limit."""
    y = require_tensor("clip", x)
    if min is not None:
        y = ops.maximum(y, _bound(y, min, math.ceil))
    if max is not None:
        y = ops.minimum(y, _bound(y, max, math.floor))
    return ops.assign(x) if y is x else ops.cast(y, dtype=x.dtype)


def _bound(x: Tensor, bound: Any, rounded: Any) -> Any:
    """A number of the dtype of x that limits as the bound does."""
    if isinstance(bound, Tensor) or not x.dtype.is_integer:
        return bound
    limits = iinfo(x)
    if math.isinf(bound):
        return limits.max if bound > 0 else limits.min
    return builtins.min(builtins.max(rounded(bound), limits.min), limits.max)


def conj(x: Tensor, /) -> Tensor:
    """The conjugate; of real numbers a copy."""
    require_tensor("conj", x)
    return ops.conj(x) if x.dtype.is_complex else ops.assign(x)


def copysign(x1: Operand, x2: Operand, /) -> Tensor:
    """The modulus of x1 with the sign of x2."""
    size, other = promoted("copysign", x1, x2)
    modulus = ops.abs(size)
    return ops.where(signbit(other), ops.neg(modulus), modulus)


def cos(x: Tensor, /) -> Tensor:
    """The cosine of radians."""
    return ops.cos(require_tensor("cos", x))


def cosh(x: Tensor, /) -> Tensor:
    """The hyperbolic cosine."""
    return ops.cosh(require_tensor("cosh", x))


def divide(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 / x2; of integers in the default floating dtype."""
    return ops.div(*both("divide", x1, x2))


def equal(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 == x2."""
    return ops.equal(*both("equal", x1, x2))


def exp(x: Tensor, /) -> Tensor:
    """e ** x."""
    return ops.exp(require_tensor("exp", x))


def expm1(x: Tensor, /) -> Tensor:
    """e ** x - 1, accurate near 0."""
    return ops.expm1(require_tensor("expm1", x))


def floor(x: Tensor, /) -> Tensor:
    """The greatest integer that is not greater than x."""
    return ops.floor(require_tensor("floor", x))


def floor_divide(x1: Operand, x2: Operand, /) -> Tensor:
    """The greatest integer that is not greater than x1 / x2."""
    return ops.floor_div(*both("floor_divide", x1, x2))


def greater(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 > x2."""
    return ops.greater_than(*both("greater", x1, x2))


def greater_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 >= x2."""
    return ops.greater_equal(*both("greater_equal", x1, x2))


def hypot(x1: Operand, x2: Operand, /) -> Tensor:
    """sqrt(x1**2 + x2**2) without overflow or underflow in between."""
    one, two = promoted("hypot", x1, x2)
    return ops.abs(ops.make_complex(one, two))


def imag(x: Tensor, /) -> Tensor:
    """The imaginary parts; of real numbers zeros."""
    require_tensor("imag", x)
    if x.dtype.is_complex:
        return ops.assign(ops.imag(x))
    return ops.full_like(x, value=0, dtype=x.dtype)


def isfinite(x: Tensor, /) -> Tensor:
    """Whether x is neither infinite nor NaN."""
    return ops.isfinite(require_tensor("isfinite", x))


def isinf(x: Tensor, /) -> Tensor:
    """Whether x (or a part of a complex x) is infinite."""
    return ops.isinf(require_tensor("isinf", x))


def isnan(x: Tensor, /) -> Tensor:
    """Whether x (or a part of a complex x) is NaN."""
    return ops.isnan(require_tensor("isnan", x))


def less(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 < x2."""
    return ops.less_than(*both("less", x1, x2))


def less_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 <= x2."""
    return ops.less_equal(*both("less_equal", x1, x2))


def log(x: Tensor, /) -> Tensor:
    """The natural logarithm."""
    return ops.log(require_tensor("log", x))


def log10(x: Tensor, /) -> Tensor:
    """The logarithm to base 10."""
    return ops.log10(require_tensor("log10", x))


def log1p(x: Tensor, /) -> Tensor:
    """log(1 + x), accurate near 0."""
    return ops.log1p(require_tensor("log1p", x))


def log2(x: Tensor, /) -> Tensor:
    """The logarithm to base 2."""
    return ops.log2(require_tensor("log2", x))


def logaddexp(x1: Operand, x2: Operand, /) -> Tensor:
    """log(exp(x1) + exp(x2)) without overflow in between."""
    return _logaddexp(*promoted("logaddexp", x1, x2))


def logical_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether x1 and x2 are true."""
    return ops.logical_and(*both("logical_and", x1, x2))


def logical_not(x: Tensor, /) -> Tensor:
    """Whether x is false."""
    return ops.logical_not(require_tensor("logical_not", x))


def logical_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether x1 or x2 is true."""
    return ops.logical_or(*both("logical_or", x1, x2))


def logical_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether just one of x1 and x2 is true."""
    return ops.logical_xor(*both("logical_xor", x1, x2))


def maximum(x1: Operand, x2: Operand, /) -> Tensor:
    """The greater of x1 and x2; NaN if one of them is."""
    return ops.maximum(*both("maximum", x1, x2))


def minimum(x1: Operand, x2: Operand, /) -> Tensor:
    """The less of x1 and x2; NaN if one of them is."""
    return ops.minimum(*both("minimum", x1, x2))


def multiply(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 * x2."""
    return ops.mul(*both("multiply", x1, x2))


def negative(x: Tensor, /) -> Tensor:
    """-x."""
    return ops.neg(require_tensor("negative", x))


def not_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 != x2."""
    return ops.not_equal(*both("not_equal", x1, x2))


def positive(x: Tensor, /) -> Tensor:
    """A copy of x."""
    return ops.assign(require_tensor("positive", x))


def pow(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 ** x2."""
    return ops.pow(*both("pow", x1, x2))


def real(x: Tensor, /) -> Tensor:
    """The real parts; of real numbers a copy."""
    require_tensor("real", x)
    return ops.assign(ops.real(x)) if x.dtype.is_complex else ops.assign(x)


def remainder(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 - floor_divide(x1, x2) * x2, which has the sign of x2."""
    return ops.mod(*both("remainder", x1, x2))


def round(x: Tensor, /) -> Tensor:
    """The nearest integer, of two the even one; of complex numbers both parts."""
    if not require_tensor("round", x).dtype.is_complex:
        return ops.round(x)
    return ops.make_complex(ops.round(ops.real(x)), ops.round(ops.imag(x)))


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1 as x; x / abs(x) of a complex x other than 0."""
    return ops.sign(require_tensor("sign", x))


def signbit(x: Tensor, /) -> Tensor:
    """Whether the sign bit is set, also that of -0 and of NaN."""
    require_tensor("signbit", x)
    if not x.dtype.is_floating:
        raise InvalidTypeError(
            f"[signbit] expected a floating dtype, got {x.dtype.name}"
        )
    wide = ops.cast(x, dtype=float32) if x.dtype == "bfloat16" else x
    return from_numpy(np.signbit(wide.detach().numpy()), True)


def sin(x: Tensor, /) -> Tensor:
    """The sine of radians."""
    return ops.sin(require_tensor("sin", x))


def sinh(x: Tensor, /) -> Tensor:
    """The hyperbolic sine."""
    return ops.sinh(require_tensor("sinh", x))


def sqrt(x: Tensor, /) -> Tensor:
    """The square root; of complex numbers that with real part of at least 0."""
    return ops.sqrt(require_tensor("sqrt", x))


def square(x: Tensor, /) -> Tensor:
    """x * x."""
    return ops.square(require_tensor("square", x))


def subtract(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 - x2."""
    return ops.sub(*both("subtract", x1, x2))


def tan(x: Tensor, /) -> Tensor:
    """The tangent of radians."""
    return ops.tan(require_tensor("tan", x))


def tanh(x: Tensor, /) -> Tensor:
    """The hyperbolic tangent."""
    return ops.tanh(require_tensor("tanh", x))


def trunc(x: Tensor, /) -> Tensor:
    """The nearest integer not further from 0 than x."""
    return ops.trunc(require_tensor("trunc", x))
