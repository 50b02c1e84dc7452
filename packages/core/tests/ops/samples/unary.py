"""Records of the elementwise functions of one array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..sample import Array, Sample, case

SHAPES = [case((2, 3)), case((4, 1, 5)), case((67,)), case((3, 70))]
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5, -3.5, 1e-3])


def _of(function: Any) -> Any:
    return np.vectorize(function, otypes=[float])


for _name, _ref, _domain in [
    ("exp", np.exp, (-3, 3)),
    ("expm1", np.expm1, (-2, 2)),
    ("log", np.log, (0.1, 4)),
    ("log2", np.log2, (0.1, 4)),
    ("log10", np.log10, (0.1, 4)),
    ("log1p", np.log1p, (-0.6, 4)),
    ("sqrt", np.sqrt, (0.1, 4)),
    ("rsqrt", lambda x: 1 / np.sqrt(x), (0.3, 4)),
    ("reciprocal", lambda x: 1 / x, (0.4, 3)),
    ("sin", np.sin, (-4, 4)),
    ("cos", np.cos, (-4, 4)),
    ("tan", np.tan, (-1, 1)),
    ("asin", np.arcsin, (-0.8, 0.8)),
    ("acos", np.arccos, (-0.8, 0.8)),
    ("atan", np.arctan, (-3, 3)),
    ("sinh", np.sinh, (-2, 2)),
    ("cosh", np.cosh, (-2, 2)),
    ("asinh", np.arcsinh, (-2, 2)),
    ("acosh", np.arccosh, (1.3, 4)),
    ("atanh", np.arctanh, (-0.7, 0.7)),
    ("erf", _of(math.erf), (-2, 2)),
    ("square", np.square, (-3, 3)),
]:
    Sample(_name, ref=_ref, cases=SHAPES, domain=_domain)

# Zeros, infinities and NaN as NumPy has them.
_EDGES = [*SHAPES, case(SPECIAL)]
Sample("neg", ref=np.negative, cases=_EDGES, grad_cases=SHAPES)
Sample("abs", ref=np.abs, cases=_EDGES, grad_cases=SHAPES)


def _sign(x: Array) -> Array:
    if x.dtype.kind == "c":
        size = np.abs(x)
        return np.where(size == 0, 0, x / np.where(size == 0, 1, size))
    return np.sign(x)


Sample("sign", ref=_sign, cases=_EDGES, grad_cases=SHAPES)


def _keeps_integers(function: Any) -> Any:
    return lambda x: x if x.dtype.kind in "iu" else function(x)


for _name, _ref in [
    ("floor", np.floor),
    ("ceil", np.ceil),
    ("round", np.round),
    ("trunc", np.trunc),
]:
    Sample(_name, ref=_keeps_integers(_ref), cases=_EDGES, grad_cases=SHAPES)

Sample("conj", ref=np.conj, cases=SHAPES)
Sample("real", ref=np.real, cases=SHAPES)
Sample("imag", ref=np.imag, cases=SHAPES)
Sample("isnan", ref=np.isnan, cases=_EDGES)
Sample("isinf", ref=np.isinf, cases=_EDGES)
Sample("isfinite", ref=np.isfinite, cases=_EDGES)
Sample("logical_not", ref=np.logical_not, cases=_EDGES)
Sample("bitwise_not", ref=np.invert, cases=SHAPES)


def _cast(x: Array, *, dtype: str) -> Array:
    if dtype == "bool":
        return x != 0
    if x.dtype.kind == "c" and not dtype.startswith("complex"):
        x = x.real
    return x.astype(dtype)


_TARGETS = ["bool", "uint8", "int8", "int16", "int32", "int64"]
_TARGETS += ["float16", "float32", "float64", "complex64", "complex128"]
Sample(
    "cast",
    ref=_cast,
    cases=[case((3, 41), dtype=t) for t in _TARGETS],
    domain=(0, 100),
    grad_cases=[case((2, 3), dtype="float64")],
)
Sample(
    "cast_like",
    ref=lambda x, like: (
        x.astype(like.dtype) if x.dtype.kind != "c" else x.real.astype(like.dtype)
    ),
    cases=[case((2, 3), np.zeros((4,), "int32")), case((5, 1), np.zeros((), "int16"))],
    domain=(0, 100),
)
Sample("assign", ref=lambda x: x, cases=[*SHAPES, case((33, 65)), case((2, 40, 3, 5))])
Sample(
    "clip",
    ref=lambda x, *, min, max: np.clip(x, min, max).astype(x.dtype),
    cases=[
        case((2, 3), min=-1, max=1),
        case((3, 45), min=0, max=1),
        case(SPECIAL, min=-1.5, max=2.0),
    ],
    domain=(-3, 3),
    grad_cases=[case((3, 4), min=-1.03, max=0.96)],
)
Sample(
    "clip_grad",
    ref=lambda dy, x, *, min, max: np.where((x >= min) & (x <= max), dy, 0),
    cases=[case((2, 3), (2, 3), min=-1, max=1), case((40,), (40,), min=0, max=1)],
    domain=(-3, 3),
)


def _scale(x: Array, *, scale: float, bias: float) -> Array:
    y = x * scale + bias
    return np.trunc(y).astype(x.dtype) if x.dtype.kind in "iu" else y


Sample(
    "scale",
    ref=_scale,
    cases=[
        case((2, 3), scale=2.0, bias=1.0),
        case((3, 40), scale=0.5, bias=0.25),
        case((5,), scale=-1.0, bias=3.0),
    ],
    domain=(0, 3),
)
