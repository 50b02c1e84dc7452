"""Elementwise functions of two arrays, which broadcast."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from proa.schema.dtypes import ALL, BOOL, FLOATING, INTEGERS, NUMERIC, REAL
from proa.schema.row import function_and_method
from proa.schema.row import op as any_op

op = functools.partial(any_op, arithmetic=True)


def _binary(
    name: str,
    doc: str,
    grad: Callable[..., Any] | None,
    *,
    dtypes: tuple[str, ...] = NUMERIC,
    promote: Any = "common",
    out: str = "same",
    public: tuple[str, ...] = (),
    inplace_methods: tuple[str, ...] = (),
    **more: Any,
) -> None:
    op(
        f"{name}(x, y)",
        shape="broadcast",
        dtypes=dtypes,
        outputs=("z",),
        out=out,
        grad=grad,
        doc=doc,
        promote=promote,
        inplace="x" if out == "same" else (),
        public=function_and_method(*public),
        public_inplace=tuple(f"Tensor.{name}" for name in inplace_methods),
        elementwise=True,
        **more,
    )


# A gradient below may have the broadcast shape: the engine sums it to its array's.
_binary(
    "add",
    "x + y.",
    lambda g, dz: (dz, dz),
    dtypes=ALL,
    public=("add",),
    inplace_methods=("add_",),
)
_binary(
    "sub",
    "x - y.",
    lambda g, dz: (dz, g.neg(dz)),
    public=("subtract",),
    inplace_methods=("subtract_",),
)
_binary(
    "mul",
    "x * y.",
    lambda g, dz, x, y: (g.mul(dz, g.conj(y)), g.mul(dz, g.conj(x))),
    dtypes=ALL,
    public=("multiply",),
    inplace_methods=("multiply_",),
)


def _div_grad(g: Any, dz: Any, z: Any, y: Any) -> Any:
    dx = g.div(dz, g.conj(y))
    return dx, g.neg(g.mul(dx, g.conj(z)))


_binary(
    "div",
    "x / y; integers divide as floats.",
    _div_grad,
    promote="float",
    public=("divide",),
    inplace_methods=("divide_",),
)


def _pow_grad(g: Any, dz: Any, z: Any, x: Any, y: Any) -> Any:
    dx = g.mul(dz, g.conj(g.mul(y, g.pow(x, g.sub(y, 1.0)))))
    # log(x) only where x > 0 (a complex x: is not 0; a negative one has no real root),
    # so that 0 ** y has the gradient 0 and not NaN.
    safe = g.where(g.greater_than(g.abs(g.sqrt(x)), 0.0), x, 1.0)
    return dx, g.mul(dz, g.conj(g.mul(z, g.log(safe))))


_binary(
    "pow",
    "x ** y. Integers stay integers, exactly (a negative exponent gives 0 but for "
    "the bases 1 and -1).",
    _pow_grad,
    dtypes=NUMERIC,
    autocast="black",
    public=("pow",),
    inplace_methods=("pow_",),
)
_binary(
    "floor_div",
    "floor(x / y); an integer division by 0 gives 0.",
    None,
    dtypes=REAL,
    public=("floor_divide",),
    inplace_methods=("floor_divide_",),
)
_binary(
    "mod",
    "x - floor(x / y) * y: the remainder with the sign of y; integer modulo 0 gives 0.",
    lambda g, dz, x, y: (dz, g.neg(g.mul(dz, g.floor_div(x, y)))),
    dtypes=REAL,
    public=("mod", "remainder", "floor_mod"),
    inplace_methods=("mod_", "remainder_"),
)


def _extremum_grad(wins: str) -> Callable[..., Any]:
    def rule(g: Any, dz: Any, x: Any, y: Any) -> Any:
        # Equal elements share the gradient in halves, as subgradients allow.
        better = g.cast_like(getattr(g, wins)(x, y), dz)
        half = g.mul(g.cast_like(g.equal(x, y), dz), 0.5)
        to_x = g.add(better, half)
        return g.mul(dz, to_x), g.mul(dz, g.sub(1.0, to_x))

    return rule


_binary(
    "maximum",
    "The greater of x and y; NaN if either is.",
    _extremum_grad("greater_than"),
    dtypes=BOOL + REAL,
    public=("maximum",),
    inplace_methods=("maximum_",),
)
_binary(
    "minimum",
    "The lesser of x and y; NaN if either is.",
    _extremum_grad("less_than"),
    dtypes=BOOL + REAL,
    public=("minimum",),
    inplace_methods=("minimum_",),
)


def _atan2_grad(g: Any, dz: Any, x: Any, y: Any) -> Any:
    over = g.div(dz, g.add(g.mul(x, x), g.mul(y, y)))
    return g.mul(over, y), g.neg(g.mul(over, x))


_binary(
    "atan2",
    "The angle of the point (y, x): atan(x / y) in the right quadrant.",
    _atan2_grad,
    dtypes=FLOATING,
    promote="float",
    public=("atan2",),
)
op(
    "make_complex(x, y)",
    shape="broadcast",
    dtypes=("float32", "float64"),
    outputs=("z",),
    out="complex",
    grad=lambda g, dz, x, y: (g.real(dz), g.imag(dz)),
    promote="common",
    elementwise=True,
    lite=False,
    doc="The complex array x + iy.",
)

for _name, _sign, _types in [
    ("equal", "==", ALL),
    ("not_equal", "!=", ALL),
    ("less_than", "<", BOOL + REAL),
    ("less_equal", "<=", BOOL + REAL),
    ("greater_than", ">", BOOL + REAL),
    ("greater_equal", ">=", BOOL + REAL),
]:
    _binary(_name, f"x {_sign} y.", None, dtypes=_types, out="bool", public=(_name,))
for _name, _doc in [
    ("logical_and", "True where both are non-zero."),
    ("logical_or", "True where either is non-zero."),
    ("logical_xor", "True where exactly one is non-zero."),
]:
    _binary(_name, _doc, None, dtypes=ALL, out="bool")
for _name, _doc in [
    ("bitwise_and", "Bits set in both."),
    ("bitwise_or", "Bits set in either."),
    ("bitwise_xor", "Bits set in exactly one."),
]:
    _binary(_name, _doc, None, dtypes=BOOL + INTEGERS, public=(_name,))

op(
    "where(condition: mask, x, y)",
    arithmetic=False,
    shape="broadcast",
    outputs=("z",),
    out="last",
    dtypes=BOOL,
    grad=lambda g, dz, condition: (
        None,
        g.where(condition, dz, 0.0),
        g.where(condition, 0.0, dz),
    ),
    promote="none",
    elementwise=True,
    doc="x where condition holds, else y. x and y have one dtype.",
)
