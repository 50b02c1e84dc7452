"""Records of the elementwise functions of two arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..sample import Array, Sample, case

SHAPES = [
    case((2, 3), (2, 3)),
    case((2, 3), (3,)),
    case((2, 1), (1, 3)),
    case((4, 5, 70), (5, 1)),
    case((70,), ()),
    case((), (3, 50)),
    case((3, 1, 60), (2, 60)),
    case((0, 3), (3,)),
]
EDGE = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 2.0])
GRID = case(EDGE[:, None], EDGE[None, :])


Sample("add", ref=np.add, cases=[*SHAPES, GRID], grad_cases=SHAPES)
Sample("sub", ref=np.subtract, cases=SHAPES)
Sample("mul", ref=np.multiply, cases=SHAPES)
Sample("div", ref=np.divide, cases=SHAPES, domain=(0.5, 3))


def _pow(x: Array, y: Array) -> Array:
    if x.dtype.kind in "fc":
        return np.power(x, y)
    x, y = np.broadcast_arrays(x, y)
    values = [int(a) ** int(b) for a, b in zip(x.flat, y.flat, strict=True)]
    return (
        np.array(values, dtype=object).reshape(x.shape).astype(np.int64).astype(x.dtype)
    )


Sample("pow", ref=_pow, cases=SHAPES, domain=(0.5, 3))


def _safe(function: Any) -> Any:
    def of(x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            return function(x, y)

    return of


Sample("floor_div", ref=_safe(np.floor_divide), cases=SHAPES, domain=(-6, 6))
Sample(
    "mod",
    ref=_safe(np.mod),
    cases=SHAPES,
    domain=(-6, 6),
    grad_cases=SHAPES[:4],
)
Sample("maximum", ref=np.maximum, cases=[*SHAPES, GRID], grad_cases=SHAPES)
Sample("minimum", ref=np.minimum, cases=[*SHAPES, GRID], grad_cases=SHAPES)
Sample("atan2", ref=np.arctan2, cases=SHAPES, domain=(0.3, 2))
Sample("make_complex", ref=lambda x, y: x + 1j * y, cases=SHAPES)

for _name, _ref in [
    ("equal", np.equal),
    ("not_equal", np.not_equal),
    ("less_than", np.less),
    ("less_equal", np.less_equal),
    ("greater_than", np.greater),
    ("greater_equal", np.greater_equal),
    ("logical_and", np.logical_and),
    ("logical_or", np.logical_or),
    ("logical_xor", np.logical_xor),
]:
    Sample(_name, ref=_ref, cases=[*SHAPES, GRID], domain=(-1, 1))
for _name, _ref in [
    ("bitwise_and", np.bitwise_and),
    ("bitwise_or", np.bitwise_or),
    ("bitwise_xor", np.bitwise_xor),
]:
    Sample(_name, ref=_ref, cases=SHAPES, domain=(-100, 100))

Sample(
    "where",
    ref=np.where,
    cases=[
        case((2, 3), (2, 3), (2, 3)),
        case((4, 1), (70,), ()),
        case((), (2, 3), (3,)),
        case((3, 50), (3, 1), (1, 50)),
    ],
)
