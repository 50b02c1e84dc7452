"""Reductions over axes, and scans. ``axis=[]`` means every axis."""

from __future__ import annotations

import functools
from typing import Any

from proa.schema.dtypes import ALL, BOOL, FLOATING, INEXACT, NUMERIC, REAL
from proa.schema.row import REFUSED
from proa.schema.row import op as any_op

op = functools.partial(any_op, arithmetic=True)

_AXES = "axis: ints = [], keepdim: bool = False"


def _sum_grad(g: Any, dy: Any, x: Any, *, axis: Any, keepdim: Any) -> Any:
    return g.expand_reduced(dy, x, axis=axis, keepdim=keepdim)


op(
    f"sum(x, *, {_AXES})",
    shape="reduce",
    dtypes=ALL,
    out="sum",
    grad=_sum_grad,
    autocast="black",
    doc="Sum of elements. Bool and integers add up in int64; 16-bit floats in float32.",
)
op(
    f"mean(x, *, {_AXES})",
    shape="reduce",
    dtypes=INEXACT,
    grad=lambda g, dy, x, *, axis, keepdim: g.mean_grad(
        dy, x, axis=axis, keepdim=keepdim
    ),
    autocast="black",
    doc="Arithmetic mean; NaN of no elements.",
)
op(
    f"expand_reduced(dy, like: shape, *, {_AXES})",
    shape="expand_reduced",
    kind="view",
    dtypes=ALL,
    outputs=("dx",),
    grad=lambda g, ddx, *, axis, keepdim: g.sum(ddx, axis=axis, keepdim=keepdim),
    lite=False,
    doc="Undo the shape of a reduction: broadcast dy along the reduced axes to like.",
)
op(
    f"mean_grad(dy, like: shape, *, {_AXES})",
    shape="mean_grad",
    dtypes=INEXACT,
    outputs=("dx",),
    grad=lambda g, ddx, *, axis, keepdim: g.mean(ddx, axis=axis, keepdim=keepdim),
    lite=False,
    doc="expand_reduced(dy) divided by the number of elements reduced.",
)


def _extremum_grad(g: Any, dy: Any, y: Any, x: Any, *, axis: Any, keepdim: Any) -> Any:
    # Elements equal to the extremum share the gradient evenly.
    peak = g.expand_reduced(y, x, axis=axis, keepdim=keepdim)
    hit = g.cast_like(g.equal(x, peak), dy)
    count = g.sum(hit, axis=axis, keepdim=keepdim)
    share = g.expand_reduced(g.div(dy, count), x, axis=axis, keepdim=keepdim)
    return g.mul(hit, share)


for _name, _word in [("max", "Greatest"), ("min", "Least")]:
    op(
        f"{_name}(x, *, {_AXES})",
        shape="reduce",
        dtypes=BOOL + REAL,
        grad=_extremum_grad,
        doc=f"{_word} element; NaN if there is one. An empty reduction is an error.",
    )


def _prod_grad(g: Any, dy: Any, y: Any, x: Any, *, axis: Any, keepdim: Any) -> Any:
    # Right where no element is zero; prod_grad handles one or more zeros.
    return g.prod_grad(dy, g.conj(y), g.conj(x), axis=axis, keepdim=keepdim)


def _prod_grad_composite(
    g: Any, dy: Any, y: Any, x: Any, *, axis: Any, keepdim: Any
) -> Any:
    return g.div(g.expand_reduced(g.mul(dy, y), x, axis=axis, keepdim=keepdim), x)


op(
    f"prod(x, *, {_AXES})",
    shape="reduce",
    dtypes=NUMERIC,
    out="sum",
    grad=_prod_grad,
    autocast="black",
    doc="Product of elements; integers multiply in int64.",
)
op(
    f"prod_grad(dy, y, x, *, {_AXES})",
    shape="prod_grad",
    dtypes=INEXACT,
    outputs=("dx",),
    grad="composite",
    composite=_prod_grad_composite,
    lite=False,
    doc="dy times the product of the other elements of the reduction, zeros included.",
)
for _name, _doc in [("all", "True if all are non-zero."), ("any", "True if any is.")]:
    op(
        f"{_name}(x, *, {_AXES})",
        shape="reduce",
        dtypes=ALL,
        grad=None,
        out="bool",
        doc=_doc,
    )


def _logsumexp_grad(g: Any, dy: Any, y: Any, x: Any, *, axis: Any, keepdim: Any) -> Any:
    peak = g.expand_reduced(y, x, axis=axis, keepdim=keepdim)
    share = g.expand_reduced(dy, x, axis=axis, keepdim=keepdim)
    return g.mul(share, g.exp(g.sub(x, peak)))


op(
    f"logsumexp(x, *, {_AXES})",
    shape="reduce",
    dtypes=FLOATING,
    grad=_logsumexp_grad,
    autocast="black",
    doc="log(sum(exp(x))), the maximum taken out first.",
)
for _name, _word in [("argmax", "greatest"), ("argmin", "least")]:
    op(
        f"{_name}(x, *, axis: int = -1, keepdim: bool = False)",
        shape="reduce_one",
        dtypes=BOOL + REAL,
        grad=None,
        out="int64",
        doc=f"Index of the {_word} element along axis, the first of equals.",
    )
op(
    "cumsum(x, *, axis: int = -1, reverse: bool = False)",
    shape="along_axis",
    layout="follow",
    dtypes=NUMERIC,
    grad=lambda g, dy, *, axis, reverse: g.cumsum(dy, axis=axis, reverse=~reverse),
    doc="Running sum along axis, from the end if reverse. The dtype is kept.",
)


def _cumprod_grad(g: Any, dy: Any, x: Any, *, axis: Any) -> Any:
    # dx[i] = prod(x[k], k < i) * sum(dy[k] * prod(x[m], i < m <= k), k >= i): no
    # division, so x may have zeros.
    x = g.conj(x)
    before = g.linear_recurrence(x, 0.0, axis=axis, initial=1.0)
    after = g.linear_recurrence(x, g.mul(dy, x), axis=axis, reverse=True)
    return g.mul(before, g.add(dy, after))


op(
    "cumprod(x, *, axis: int = -1)",
    shape="along_axis",
    layout="follow",
    dtypes=NUMERIC,
    grad=_cumprod_grad,
    lite=False,
    doc="Running product along axis.",
)


def _linear_recurrence_grad(
    g: Any, dy: Any, y: Any, x: Any, *, axis: Any, reverse: Any
) -> Any:
    # y = L(x) b, and the same recurrence from the other end is L(x) transposed.
    db = g.linear_recurrence(g.conj(x), dy, axis=axis, reverse=~reverse)
    return g.mul(db, g.conj(y)), db


op(
    "linear_recurrence(x, b, *, axis: int = -1, reverse: bool = False, "
    "initial: float = 0.0)",
    shape="linear_recurrence",
    dtypes=INEXACT,
    promote="common",
    grad=_linear_recurrence_grad,
    lite=False,
    doc="y[0] = initial and y[k] = x[k - 1] y[k - 1] + b[k - 1] along axis, from the "
    "other end if reverse. x and b broadcast.",
)
op(
    "sum_to(x, like: shape)",
    shape="sum_to",
    dtypes=ALL,
    grad=lambda g, dy, x: g.broadcast_like(dy, x),
    lite=False,
    doc="Sum over the axes along which like was broadcast to the shape of x.",
)
op(
    "squared_norm(xs...)",
    shape="scalar",
    dtypes=FLOATING,
    grad=REFUSED,
    out="float32",
    lite=False,
    doc="Sum of the squares of all elements of all arrays, added up in float64.",
)
