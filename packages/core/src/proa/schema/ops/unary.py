"""Elementwise functions of one array."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from proa.schema.dtypes import ALL, BOOL, FLOATING, INEXACT, INTEGERS, NUMERIC, REAL
from proa.schema.row import function_and_method
from proa.schema.row import op as any_op

op = functools.partial(any_op, arithmetic=True)


def _unary(
    name: str,
    doc: str,
    grad: Callable[..., Any] | None,
    *,
    dtypes: tuple[str, ...] = INEXACT,
    promote: Any = "float",
    **more: Any,
) -> None:
    inplace = more.pop("inplace", "x")
    op(
        f"{name}(x)",
        shape="same",
        dtypes=dtypes,
        grad=grad,
        doc=doc,
        promote=promote,
        inplace=inplace,
        public=function_and_method(name),
        public_inplace=more.pop("public_inplace", (f"Tensor.{name}_",) * bool(inplace)),
        elementwise=True,
        **more,
    )


def _zero(g: Any, dy: Any) -> Any:
    return g.mul(dy, 0.0)


# -- exponentials and logarithms; f16/bf16 compute in float ----------------------------
_unary("exp", "e ** x.", lambda g, dy, y: g.mul(dy, g.conj(y)), autocast="black")
_unary(
    "expm1",
    "e ** x - 1, accurate near 0.",
    lambda g, dy, y: g.mul(dy, g.conj(g.add(y, 1.0))),
    autocast="black",
)
_unary(
    "log", "Natural logarithm.", lambda g, dy, x: g.div(dy, g.conj(x)), autocast="black"
)
_unary(
    "log2",
    "Logarithm to base 2.",
    lambda g, dy, x: g.div(dy, g.conj(g.mul(x, 0.6931471805599453))),
    autocast="black",
)
_unary(
    "log10",
    "Logarithm to base 10.",
    lambda g, dy, x: g.div(dy, g.conj(g.mul(x, 2.302585092994046))),
    autocast="black",
)
_unary(
    "log1p",
    "log(1 + x), accurate near 0.",
    lambda g, dy, x: g.div(dy, g.conj(g.add(x, 1.0))),
    autocast="black",
)
_unary("sqrt", "Square root.", lambda g, dy, y: g.div(g.mul(dy, 0.5), g.conj(y)))
_unary(
    "rsqrt",
    "1 / sqrt(x).",
    lambda g, dy, y: g.mul(g.mul(dy, -0.5), g.conj(g.mul(y, g.mul(y, y)))),
    autocast="black",
)
_unary(
    "reciprocal",
    "1 / x.",
    lambda g, dy, y: g.neg(g.mul(dy, g.conj(g.mul(y, y)))),
    autocast="black",
)

# -- trigonometric and hyperbolic ------------------------------------------------------
_unary("sin", "Sine.", lambda g, dy, x: g.mul(dy, g.conj(g.cos(x))))
_unary("cos", "Cosine.", lambda g, dy, x: g.neg(g.mul(dy, g.conj(g.sin(x)))))
_unary(
    "tan",
    "Tangent.",
    lambda g, dy, y: g.mul(dy, g.conj(g.add(g.mul(y, y), 1.0))),
)
_unary(
    "asin",
    "Inverse sine.",
    lambda g, dy, x: g.mul(dy, g.conj(g.rsqrt(g.sub(1.0, g.mul(x, x))))),
)
_unary(
    "acos",
    "Inverse cosine.",
    lambda g, dy, x: g.neg(g.mul(dy, g.conj(g.rsqrt(g.sub(1.0, g.mul(x, x)))))),
)
_unary(
    "atan",
    "Inverse tangent.",
    lambda g, dy, x: g.div(dy, g.conj(g.add(g.mul(x, x), 1.0))),
)
_unary("sinh", "Hyperbolic sine.", lambda g, dy, x: g.mul(dy, g.conj(g.cosh(x))))
_unary("cosh", "Hyperbolic cosine.", lambda g, dy, x: g.mul(dy, g.conj(g.sinh(x))))
_unary(
    "asinh",
    "Inverse hyperbolic sine.",
    lambda g, dy, x: g.mul(dy, g.conj(g.rsqrt(g.add(g.mul(x, x), 1.0)))),
)
_unary(
    "acosh",
    "Inverse hyperbolic cosine.",
    # The root of the product would be of the other sign left of the imaginary axis.
    lambda g, dy, x: g.mul(
        dy, g.conj(g.mul(g.rsqrt(g.sub(x, 1.0)), g.rsqrt(g.add(x, 1.0))))
    ),
)
_unary(
    "atanh",
    "Inverse hyperbolic tangent.",
    lambda g, dy, x: g.div(dy, g.conj(g.sub(1.0, g.mul(x, x)))),
)
_unary(
    "erf",
    "Error function, 2/sqrt(pi) * integral of exp(-t**2) from 0 to x.",
    lambda g, dy, x: g.mul(g.mul(dy, 1.1283791670955126), g.exp(g.neg(g.mul(x, x)))),
    dtypes=FLOATING,
)

# -- arithmetic and rounding -----------------------------------------------------------
_unary("neg", "-x.", lambda g, dy: g.neg(dy), dtypes=NUMERIC, promote="none")
_unary(
    "square",
    "x * x.",
    lambda g, dy, x: g.mul(dy, g.mul(g.conj(x), 2.0)),
    dtypes=NUMERIC,
    promote="none",
)


def _abs_grad(g: Any, dy: Any, x: Any) -> Any:
    return g.mul(dy, g.sign(x))


_unary(
    "abs",
    "Absolute value; of a complex array its modulus, which is real.",
    _abs_grad,
    dtypes=NUMERIC,
    promote="none",
    out="real",
    inplace=(),
)


def _sign_grad(g: Any, dy: Any, y: Any, x: Any) -> Any:
    # A complex sign turns with what is across it: (dy - y Re(conj(y) dy)) / |x|. Along
    # the real line nothing is.
    t = g.mul(g.conj(y), dy)
    across = g.sub(dy, g.mul(y, g.mul(g.add(t, g.conj(t)), 0.5)))
    size = g.abs(x)
    nought = g.equal(size, 0.0)
    return g.where(nought, 0.0, g.div(across, g.where(nought, 1.0, size)))


_unary(
    "sign",
    "-1, 0 or 1 by the sign of x; x / abs(x) (0 at 0) for complex x; NaN stays NaN.",
    _sign_grad,
    dtypes=NUMERIC,
    promote="none",
    public_inplace=(),
)
for _name, _doc in [
    ("floor", "The largest integer <= x."),
    ("ceil", "The smallest integer >= x."),
    ("round", "The nearest integer, halves to even."),
    ("trunc", "The integer part."),
]:
    _unary(_name, _doc, lambda g, dy: _zero(g, dy), dtypes=REAL, promote="none")

# -- complex parts ---------------------------------------------------------------------
_unary(
    "conj",
    "Complex conjugate; real arrays are returned unchanged.",
    lambda g, dy: g.conj(dy),
    dtypes=NUMERIC,
    promote="none",
    inplace=(),
    identity_of_real=True,
)
op(
    "real(x)",
    shape="same",
    grad=lambda g, dy, x: g.make_complex(dy, g.mul(dy, 0.0)),
    dtypes=("complex64", "complex128"),
    out="real",
    public=function_and_method("real"),
    elementwise=True,
    lite=False,
    doc="Real part.",
)
op(
    "imag(x)",
    shape="same",
    grad=lambda g, dy, x: g.make_complex(g.mul(dy, 0.0), dy),
    dtypes=("complex64", "complex128"),
    out="real",
    public=function_and_method("imag"),
    elementwise=True,
    lite=False,
    doc="Imaginary part.",
)

# -- tests of a value, logic -----------------------------------------------------------
for _name, _doc in [
    ("isnan", "True where x is NaN."),
    ("isinf", "True where x is infinite."),
    ("isfinite", "True where x is neither NaN nor infinite."),
]:
    op(
        f"{_name}(x)",
        shape="same",
        dtypes=NUMERIC,
        grad=None,
        out="bool",
        public=function_and_method(_name),
        elementwise=True,
        doc=_doc,
    )
op(
    "logical_not(x)",
    shape="same",
    dtypes=ALL,
    grad=None,
    out="bool",
    elementwise=True,
    doc="True where x is zero or False.",
)
op(
    "bitwise_not(x)",
    shape="same",
    dtypes=BOOL + INTEGERS,
    grad=None,
    public=function_and_method("bitwise_not"),
    elementwise=True,
    doc="Every bit flipped; logical not of bool.",
)

# -- with attributes -------------------------------------------------------------------
op(
    "cast(x, *, dtype: dtype)",
    arithmetic=False,
    shape="same",
    grad=lambda g, dy, x: g.cast_like(dy, x),
    out="attr",
    elementwise=True,
    doc="x converted to dtype: floats to integers truncate, complex to real drops the "
    "imaginary part, anything to bool tests for non-zero.",
)
op(
    "cast_like(x, like: shape)",
    arithmetic=False,
    shape="same",
    grad=lambda g, dy, x: g.cast_like(dy, x),
    out="last",
    elementwise=True,
    lite=False,
    doc="x converted to the dtype of like.",
)
op(
    "assign(x)",
    arithmetic=False,
    shape="same",
    grad=lambda g, dy: dy,
    elementwise=True,
    doc="A copy of x in memory of its own, row-major.",
)
op(
    "clip(x, *, min: scalar, max: scalar)",
    shape="same",
    dtypes=REAL,
    grad=lambda g, dy, x, *, min, max: g.clip_grad(dy, x, min=min, max=max),
    inplace="x",
    elementwise=True,
    doc="x limited to [min, max]; NaN stays NaN.",
)
op(
    "clip_grad(dy, x, *, min: scalar, max: scalar)",
    shape="same_all",
    dtypes=REAL,
    grad=lambda g, dy_, x, *, min, max: (
        g.clip_grad(dy_, x, min=min, max=max),
        None,
    ),
    outputs=("y_",),
    elementwise=True,
    lite=False,
    doc="dy where min <= x <= max, else 0.",
)
op(
    "scale(x, *, scale: float = 1.0, bias: float = 0.0)",
    shape="same",
    dtypes=NUMERIC,
    grad=lambda g, dy, *, scale: g.scale(dy, scale=scale),
    inplace="x",
    elementwise=True,
    doc="scale * x + bias.",
)
