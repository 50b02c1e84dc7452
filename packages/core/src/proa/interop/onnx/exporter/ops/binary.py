"""Rows of functions of two arrays, element by element."""

from __future__ import annotations

import math

from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.standard import where
from proa.interop.onnx.exporter.table import export_row
from proa.schema.dtypes import FLOATING, INTEGERS

_ARITHMETIC = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div"}
_LOGIC = {"and": "And", "or": "Or", "xor": "Xor"}


@export_row("add", "sub", "mul", "div")
def arithmetic(c: Call, x: Ref, y: Ref) -> Ref:
    if x.dtype == "bool":
        return c.op({"add": "Or", "mul": "And"}[c.name], x, y)
    return c.op(_ARITHMETIC[c.name], x, y)


@export_row("pow")
def power(c: Call, x: Ref, y: Ref) -> Ref:
    if x.dtype in FLOATING or c.opset >= 12:
        return c.op("Pow", x, y)
    wide = c.op("Pow", c.cast(x, "float64"), c.cast(y, "float64"))
    return c.cast(wide, x.dtype)


def _safe_divisor(c: Call, y: Ref) -> tuple[Ref, Ref]:
    """Where y is 0, and y with 1 there."""
    zero = c.op("Equal", y, c.number(0, y))
    return zero, where(c, zero, c.number(1, y), y)


def _floor_quotient(c: Call, x: Ref, y: Ref) -> Ref:
    """floor(x / y) of integers, of which y is not 0; division cuts towards 0."""
    quotient = c.op("Div", x, y)
    if x.dtype == "uint8":
        return quotient
    rest = c.op("Sub", x, c.op("Mul", quotient, y))
    zero = c.number(0, x)
    other = c.op("Xor", c.op("Less", rest, zero), c.op("Less", y, zero))
    left = c.op("Not", c.op("Equal", rest, zero))
    below = c.cast(c.op("And", other, left), x.dtype)
    return c.op("Sub", quotient, below)


@export_row("floor_div")
def floor_div(c: Call, x: Ref, y: Ref) -> Ref:
    if x.dtype in FLOATING:
        return c.op("Floor", c.op("Div", x, y))
    zero, y = _safe_divisor(c, y)
    return where(c, zero, c.number(0, x), _floor_quotient(c, x, y))


@export_row("mod")
def mod(c: Call, x: Ref, y: Ref) -> Ref:
    if x.dtype in FLOATING:
        quotient = c.op("Floor", c.op("Div", x, y))
        return c.op("Sub", x, c.op("Mul", quotient, y))
    zero, y = _safe_divisor(c, y)
    if c.opset >= 10:
        rest = c.op("Mod", x, y)
    else:
        rest = c.op("Sub", x, c.op("Mul", _floor_quotient(c, x, y), y))
    return where(c, zero, c.number(0, x), rest)


@export_row("maximum", "minimum")
def extremum(c: Call, x: Ref, y: Ref) -> Ref:
    upper = c.name == "maximum"
    if x.dtype == "bool":
        return c.op("Or" if upper else "And", x, y)
    if x.dtype in INTEGERS and c.opset < 12:
        return where(c, c.op("Greater" if upper else "Less", x, y), x, y)
    return c.op("Max" if upper else "Min", x, y)


@export_row("atan2")
def atan2(c: Call, y: Ref, x: Ref) -> Ref:
    """The angle of the point (x, y)."""
    zero = c.number(0.0, x)
    down, left = c.op("Less", y, zero), c.op("Less", x, zero)
    upright = c.row("equal", x, zero)
    angle = c.op("Atan", c.op("Div", y, where(c, upright, c.number(1.0, x), x)))
    pi, half = c.number(math.pi, x), c.number(math.pi / 2, x)
    shift = where(c, down, c.op("Neg", pi), pi)
    angle = where(c, left, c.op("Add", angle, shift), angle)
    flat = c.row("equal", y, zero)
    straight = where(c, down, c.op("Neg", half), half)
    return where(c, upright, where(c, flat, zero, straight), angle)


# -- comparisons -----------------------------------------------------------------------
def _equal_floats(c: Call, x: Ref, y: Ref) -> Ref:
    """Before opset 11 floats could not be compared for equality."""
    apart = c.op("Or", c.op("Less", x, y), c.op("Greater", x, y))
    nan = c.op("Or", c.op("IsNaN", x), c.op("IsNaN", y))
    return c.op("Not", c.op("Or", apart, nan))


def _equal(c: Call, x: Ref, y: Ref) -> Ref:
    if x.dtype in FLOATING and c.opset < 11:
        return _equal_floats(c, x, y)
    return c.op("Equal", x, y)


@export_row("equal", "not_equal")
def equal(c: Call, x: Ref, y: Ref) -> Ref:
    found = _equal(c, x, y)
    return found if c.name == "equal" else c.op("Not", found)


@export_row("less_than", "greater_than")
def compared(c: Call, x: Ref, y: Ref) -> Ref:
    return c.op("Less" if c.name == "less_than" else "Greater", x, y)


@export_row("less_equal", "greater_equal")
def compared_or_equal(c: Call, x: Ref, y: Ref) -> Ref:
    less = c.name == "less_equal"
    if c.opset >= 12:
        return c.op("LessOrEqual" if less else "GreaterOrEqual", x, y)
    beyond = c.op("Greater" if less else "Less", x, y)
    if x.dtype in FLOATING:
        beyond = c.op("Or", beyond, c.op("Or", c.op("IsNaN", x), c.op("IsNaN", y)))
    return c.op("Not", beyond)


# -- logic and bits --------------------------------------------------------------------
@export_row("logical_and", "logical_or", "logical_xor")
def logical(c: Call, x: Ref, y: Ref) -> Ref:
    op = _LOGIC[c.name.removeprefix("logical_")]
    return c.op(op, c.cast(x, "bool"), c.cast(y, "bool"))


@export_row("bitwise_and", "bitwise_or", "bitwise_xor")
def bitwise(c: Call, x: Ref, y: Ref) -> Ref:
    op = _LOGIC[c.name.removeprefix("bitwise_")]
    return c.op(op if x.dtype == "bool" else f"Bitwise{op}", x, y)


@export_row("where")
def choice(c: Call, condition: Ref, x: Ref, y: Ref) -> Ref:
    return where(c, c.cast(condition, "bool"), x, y)


@export_row("normalise_by")
def normalise_by(c: Call, x: Ref, center: Ref, factor: Ref, bias: Ref) -> Ref:
    return c.op("Add", c.op("Mul", c.op("Sub", x, center), factor), bias)
