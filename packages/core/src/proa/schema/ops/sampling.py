"""Reading arrays at windows, at places between their elements, and by weighted rows."""

from __future__ import annotations

from typing import Any

from proa.schema.dtypes import ALL, FLOATING, NUMERIC
from proa.schema.row import op

op(
    "windows(x, *, axis: int, size: int, step: int = 1, dilation: int = 1)",
    shape="windows",
    kind="view",
    dtypes=ALL,
    grad=lambda g, dy, x, *, axis, size, step, dilation: g.windows_grad(
        dy, x, axis=axis, size=size, step=step, dilation=dilation
    ),
    doc="y[.., i, .., k] = x[.., i * step + k * dilation, ..] for windows i of size "
    "elements along axis that fit; k is a new last axis. Windows share memory.",
)
op(
    "windows_grad(dy, like: shape, *, axis: int, size: int, step: int = 1, "
    "dilation: int = 1)",
    shape="windows_grad",
    dtypes=NUMERIC,
    outputs=("dx",),
    grad=lambda g, ddx, *, axis, size, step, dilation: g.windows(
        ddx, axis=axis, size=size, step=step, dilation=dilation
    ),
    doc="Zeros of the shape of like, windows of dy added where they came from.",
)

_RESIZE = (
    'axis: int, size: int = 0, scale: float = 0.0, mode: "nearest"|"linear"|"cubic" = '
    '"nearest", corners: bool = False, half: bool = True'
)


def _resize_grad(
    g: Any,
    dy: Any,
    x: Any,
    *,
    axis: Any,
    size: Any,
    scale: Any,
    mode: Any,
    corners: Any,
    half: Any,
) -> Any:
    return g.resize_axis_grad(
        dy, x, axis=axis, size=size, scale=scale, mode=mode, corners=corners, half=half
    )


def _resize_grad_grad(
    g: Any,
    ddx: Any,
    *,
    axis: Any,
    size: Any,
    scale: Any,
    mode: Any,
    corners: Any,
    half: Any,
) -> Any:
    return g.resize_axis(
        ddx, axis=axis, size=size, scale=scale, mode=mode, corners=corners, half=half
    )


op(
    f"resize_axis(x, *, {_RESIZE})",
    shape="resize_axis",
    layout="follow",
    dtypes=ALL,
    grad=_resize_grad,
    scratch=True,
    doc="x resampled along axis to size elements (size 0: floor(n * scale)). Element i "
    "is at r * i; linear with half and cubic: r * (i + 0.5) - 0.5. r is 1 / scale, "
    "n / size without scale, (n - 1) / (size - 1) by corners, 0 for one element. cubic "
    "is Keys's kernel with a = -0.75. Only nearest takes integers.",
)
op(
    f"resize_axis_grad(dy, like: shape, *, {_RESIZE})",
    shape="resize_axis_grad",
    dtypes=FLOATING,
    outputs=("dx",),
    grad=_resize_grad_grad,
    scratch=True,
    lite=False,
    doc="dy added, by its weights, to the elements of like that it was made of.",
)

op(
    "blend_rows(x, index, weight)",
    shape="blend_rows",
    dtypes=FLOATING,
    grad=lambda g, dy, x, index, weight: (
        g.blend_rows_scatter(dy, index, weight, x),
        None,
        g.blend_rows_dot(dy, x, index),
    ),
    doc="y[r] = sum over k of weight[r, k] * x[index[r, k]]: weighted sums of rows of "
    "x (m, c). A negative index adds nothing, whatever its weight.",
)
op(
    "blend_rows_scatter(dy, index, weight, like: shape)",
    shape="blend_rows_scatter",
    dtypes=FLOATING,
    outputs=("dx",),
    grad=lambda g, ddx, dy, index, weight: (
        g.blend_rows(ddx, index, weight),
        None,
        g.blend_rows_dot(dy, ddx, index),
    ),
    lite=False,
    doc="Zeros of the shape of like (m, c); weight[r, k] * dy[r] added to row "
    "index[r, k].",
)
op(
    "blend_rows_dot(dy, x, index)",
    shape="blend_rows_dot",
    dtypes=FLOATING,
    outputs=("dw",),
    grad=lambda g, ddw, dy, x, index: (
        g.blend_rows(x, index, ddw),
        g.blend_rows_scatter(dy, index, ddw, x),
        None,
    ),
    lite=False,
    doc="dw[r, k] = dy[r] . x[index[r, k]], 0 where the index is negative.",
)
op(
    "roi_max_index(x, boxes, image, *, size: ints, scale: float = 1.0)",
    shape="roi_max_index",
    dtypes=FLOATING,
    out="int64",
    grad=None,
    lite=False,
    doc="Of each of size[0] x size[1] bins of boxes (x1, y1, x2, y2) * scale, rounded "
    "to whole pixels, on x[image]: the place of the greatest element in x (N, C, H, W) "
    "counted in row-major order; -1 for a bin without elements.",
)
op(
    "box_suppress(boxes, valid, *, threshold: float, eta: float = 1.0)",
    shape="box_suppress",
    dtypes=FLOATING,
    out="bool",
    grad=None,
    lite=False,
    doc="Which boxes (n, k, 4), x1, y1, x2, y2 and the best first, non-maximum "
    "suppression keeps of each of n lists: a valid (n, k) one whose intersection over "
    "union with every better one that is kept is at most threshold. With eta < 1 the "
    "threshold, while over 0.5, is multiplied by eta after every box that is kept.",
)
