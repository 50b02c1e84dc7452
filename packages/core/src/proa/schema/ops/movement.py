"""Ops that move elements or only change how they are addressed (views)."""

from __future__ import annotations

from proa.schema.dtypes import NUMERIC
from proa.schema.row import op

# -- views: shape and strides change, memory is shared ---------------------------------
op(
    "reshape(x, *, shape: ints)",
    shape="reshape",
    kind="view",
    grad=lambda g, dy, x: g.reshape_like(dy, x),
    doc="The same elements in row-major order under another shape. One -1 is inferred; "
    "a 0 keeps the input's dimension at that place.",
)
op(
    "reshape_like(x, like: shape)",
    shape="reshape_like",
    kind="view",
    grad=lambda g, dy, x: g.reshape_like(dy, x),
    doc="x under the shape of like.",
)
op(
    "sized(xs...: shape, *, "
    "sizes: ints, axes: ints, divisors: ints, extras: ints, plus: ints, "
    "limits: ints = [])",
    shape="sized",
    kind="view",
    grad=None,
    doc="The first element of xs[0] repeated, without memory of its own, to a shape "
    "that follows from theirs: along axis i the number sizes[i] if axes[i] is -1, else "
    "n * sizes[i] // divisors[i] + extras[i], where n is axis axes[i] % 8 of "
    "xs[axes[i] // 8]; plus the axis that plus[i] names likewise, or minus the one "
    "that -2 - plus[i] names, or neither for -1. If limits are given, what is below 0 "
    "then becomes 0, and what is above the axis that limits[i] names likewise becomes "
    "that; -1 sets no limit. With one that -2 - limits[i] names, a size below 0 first "
    "counts from it, as bounds of slices do. One number may be -1, without a limit: "
    "then xs[0] has as many elements. With symbolic dimensions a graph uses it in "
    "`reshape_like`, `broadcast_like` and `full_like`.",
)
op(
    "transpose(x, *, perm: ints)",
    shape="transpose",
    kind="view",
    grad=lambda g, dy, *, perm: g.transpose(dy, perm=g.inverse_permutation(perm)),
    doc="Axis i of the result is axis perm[i] of x.",
)
op(
    "swap_last(x)",
    shape="swap_last",
    kind="view",
    grad=lambda g, dy: g.swap_last(dy),
    doc="The last two axes exchanged.",
)
op(
    "broadcast_to(x, *, shape: ints)",
    shape="broadcast_to",
    kind="view",
    grad=lambda g, dy, x: g.sum_to(dy, x),
    doc="x repeated, without copying, along new axes and axes of size 1; -1 keeps one.",
)
op(
    "broadcast_like(x, like: shape)",
    shape="broadcast_like",
    kind="view",
    grad=lambda g, dy, x: g.sum_to(dy, x),
    doc="x broadcast to the shape of like.",
)
op(
    "squeeze(x, *, axis: ints = [])",
    shape="squeeze",
    kind="view",
    grad=lambda g, dy, x: g.reshape_like(dy, x),
    doc="Axes of size 1 removed: all, or those named that have size 1.",
)
op(
    "unsqueeze(x, *, axis: ints)",
    shape="unsqueeze",
    kind="view",
    grad=lambda g, dy, x: g.reshape_like(dy, x),
    doc="Axes of size 1 put in; positions are those in the result.",
)
op(
    "flatten(x, *, start_axis: int = 0, stop_axis: int = -1)",
    shape="flatten",
    kind="view",
    grad=lambda g, dy, x: g.reshape_like(dy, x),
    doc="The axes start to stop (included) merged into one.",
)
_SLICE = "axes: ints, starts: ints, ends: ints, steps: ints"
op(
    f"slice(x, *, {_SLICE})",
    shape="slice",
    kind="view",
    grad=lambda g, dy, x, *, axes, starts, ends, steps: g.slice_grad(
        dy, x, axes=axes, starts=starts, ends=ends, steps=steps
    ),
    doc="x[start:end:step] along each of axes, with Python's rules for negative and "
    "out-of-range bounds. For 'to the very end' give end = 2**63 - 1, or with a "
    "negative step end = -2**63.",
)
op(
    f"slice_grad(dy, like: shape, *, {_SLICE})",
    shape="slice_grad",
    outputs=("dx",),
    grad=lambda g, ddx, *, axes, starts, ends, steps: g.slice(
        ddx, axes=axes, starts=starts, ends=ends, steps=steps
    ),
    lite=False,
    doc="Zeros of the shape of like, with dy at the slice.",
)
op(
    "select(x, *, axis: int, index: int)",
    shape="select",
    kind="view",
    grad=lambda g, dy, x, *, axis, index: g.select_grad(dy, x, axis=axis, index=index),
    doc="x at one index of axis, which is removed.",
)
op(
    "select_grad(dy, like: shape, *, axis: int, index: int)",
    shape="select_grad",
    outputs=("dx",),
    grad=lambda g, ddx, *, axis, index: g.select(ddx, axis=axis, index=index),
    lite=False,
    doc="Zeros of the shape of like, with dy at index of axis.",
)
op(
    "diagonal(x, *, offset: int = 0, axis1: int = 0, axis2: int = 1)",
    shape="diagonal",
    kind="view",
    grad=lambda g, dy, x, *, offset, axis1, axis2: g.diagonal_grad(
        dy, x, offset=offset, axis1=axis1, axis2=axis2
    ),
    lite=False,
    doc="The diagonal of the planes of axis1 and axis2, as a last axis.",
)
op(
    "diagonal_grad(dy, like: shape, *, offset: int, axis1: int, axis2: int)",
    shape="diagonal_grad",
    outputs=("dx",),
    grad=lambda g, ddx, *, offset, axis1, axis2: g.diagonal(
        ddx, offset=offset, axis1=axis1, axis2=axis2
    ),
    lite=False,
    doc="Zeros of the shape of like, with dy on the diagonal.",
)

# -- copies ----------------------------------------------------------------------------
op(
    f"slice_assign(x, v, *, {_SLICE})",
    shape="slice_assign",
    layout="follow",
    grad=lambda g, dy, v, *, axes, starts, ends, steps: (
        g.slice_assign(
            dy, g.mul(v, 0.0), axes=axes, starts=starts, ends=ends, steps=steps
        ),
        g.slice(dy, axes=axes, starts=starts, ends=ends, steps=steps),
    ),
    inplace="x",
    lite=False,
    doc="x with x[slice] replaced by v, which broadcasts to the slice.",
)
op(
    "concat(xs..., *, axis: int = 0)",
    shape="concat",
    layout="follow_order",
    grad=lambda g, dy, xs, *, axis: g.split_like(dy, xs, axis=axis),
    promote="common",
    doc="Arrays joined along an axis; other dimensions agree.",
)
op(
    "stack(xs..., *, axis: int = 0)",
    shape="stack",
    grad=lambda g, dy, xs, *, axis: g.unstack_like(dy, xs, axis=axis),
    promote="common",
    doc="Arrays of one shape joined along a new axis.",
)
op(
    "tile(x, *, repeats: ints)",
    shape="tile",
    grad=lambda g, dy, x, *, repeats: g.tile_grad(dy, x, repeats=repeats),
    doc="x repeated repeats[i] times along axis i, aligned at the last axis.",
)
op(
    "tile_grad(dy, like: shape, *, repeats: ints)",
    shape="tile_grad",
    dtypes=NUMERIC,
    outputs=("dx",),
    grad=lambda g, ddx, *, repeats: g.tile(ddx, repeats=repeats),
    lite=False,
    doc="Sum of dy over the repetitions.",
)
op(
    "pad(x, *, low: ints, high: ints, "
    'mode: "constant"|"reflect"|"replicate"|"circular" = "constant", '
    "value: scalar = 0)",
    shape="pad",
    grad=lambda g, dy, x, *, low, high, mode: g.pad_grad(
        dy, x, low=low, high=high, mode=mode
    ),
    doc="x with low[i] elements before and high[i] after along axis i; negative crops "
    "(constant mode only).",
)
op(
    "pad_grad(dy, like: shape, *, low: ints, high: ints, "
    'mode: "constant"|"reflect"|"replicate"|"circular")',
    shape="pad_grad",
    dtypes=NUMERIC,
    outputs=("dx",),
    grad=lambda g, ddx, *, low, high, mode: g.pad(ddx, low=low, high=high, mode=mode),
    lite=False,
    doc="dy at the elements that padding copied, summed back to where they came from.",
)
for _name, _where, _sign in [("tril", "below", "<="), ("triu", "above", ">=")]:
    op(
        f"{_name}(x, *, diagonal: int = 0)",
        shape="planes",
        layout="follow",
        grad=lambda g, dy, *, diagonal, _name=_name: getattr(g, _name)(
            dy, diagonal=diagonal
        ),
        lite=False,
        doc=f"The part on and {_where} the diagonal (column {_sign} row + diagonal), "
        "zeros elsewhere.",
    )
