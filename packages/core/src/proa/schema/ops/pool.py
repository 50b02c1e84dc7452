"""Pooling of (N, C, H, W); padding is top, bottom, left, right."""

from __future__ import annotations

import functools

from proa.schema.dtypes import FLOATING, REAL
from proa.schema.row import op as any_op

op = functools.partial(any_op, arithmetic=True)

_WINDOW = (
    "kernel: ints, stride: ints, padding: ints = [0, 0, 0, 0], ceil_mode: bool = False"
)

op(
    f"max_pool2d(x, *, {_WINDOW})",
    shape="pool2d",
    layout="follow",
    dtypes=REAL,
    grad=lambda g, dy, x, *, kernel, stride, padding, ceil_mode: g.pool_scatter(
        dy,
        g.max_pool2d_index(
            x, kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode
        ),
        x,
    ),
    doc="Greatest element of each window. Memory order follows x.",
)
op(
    f"max_pool2d_index(x, *, {_WINDOW})",
    shape="pool2d",
    layout="follow",
    dtypes=REAL,
    grad=None,
    out="int32",
    lite=False,
    doc="h * W + w of the greatest element of each window, the first of equals.",
)
op(
    "pool_scatter(dy, index, like: shape)",
    shape="pool_scatter",
    dtypes=FLOATING,
    outputs=("dx",),
    grad=lambda g, ddx, index: (g.pool_gather(ddx, index), None),
    lite=False,
    doc="Zeros of the shape of like (N, C, H, W), dy added at h * W + w = index.",
)
op(
    "pool_gather(x, index)",
    shape="pool_gather",
    layout="follow",
    dtypes=FLOATING,
    grad=lambda g, dy, x, index: (g.pool_scatter(dy, index, x), None),
    lite=False,
    doc="x at h * W + w = index, plane by plane.",
)
op(
    f"avg_pool2d(x, *, {_WINDOW}, exclusive: bool = True)",
    shape="pool2d",
    layout="follow",
    dtypes=FLOATING,
    grad=lambda g, dy, x, *, kernel, stride, padding, ceil_mode, exclusive: (
        g.avg_pool2d_grad(
            dy,
            x,
            kernel=kernel,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            exclusive=exclusive,
        )
    ),
    doc="Mean of each window, padding left out if exclusive.",
)
op(
    f"avg_pool2d_grad(dy, like: shape, *, {_WINDOW}, exclusive: bool = True)",
    shape="pool2d_grad",
    dtypes=FLOATING,
    outputs=("dx",),
    grad=lambda g, ddx, *, kernel, stride, padding, ceil_mode, exclusive: g.avg_pool2d(
        ddx,
        kernel=kernel,
        stride=stride,
        padding=padding,
        ceil_mode=ceil_mode,
        exclusive=exclusive,
    ),
    lite=False,
    doc="dy spread evenly over the windows it came from.",
)
op(
    "adaptive_avg_pool2d(x, *, size: ints)",
    shape="adaptive_pool2d",
    layout="follow",
    dtypes=FLOATING,
    grad=lambda g, dy, x, *, size: g.adaptive_avg_pool2d_grad(dy, x, size=size),
    doc="Mean over size[0] x size[1] windows; window i covers floor(i * H / size) to "
    "ceil((i + 1) * H / size).",
)
op(
    "adaptive_avg_pool2d_grad(dy, like: shape, *, size: ints)",
    shape="adaptive_pool2d_grad",
    dtypes=FLOATING,
    outputs=("dx",),
    grad=lambda g, ddx, *, size: g.adaptive_avg_pool2d(ddx, size=size),
    lite=False,
    doc="dy spread evenly over the windows it came from.",
)
op(
    "adaptive_max_pool2d(x, *, size: ints)",
    shape="adaptive_pool2d",
    layout="follow",
    dtypes=REAL,
    grad=lambda g, dy, x, *, size: g.pool_scatter(
        dy, g.adaptive_max_pool2d_index(x, size=size), x
    ),
    doc="Greatest element of each of the windows of adaptive_avg_pool2d.",
)
op(
    "adaptive_max_pool2d_index(x, *, size: ints)",
    shape="adaptive_pool2d",
    layout="follow",
    dtypes=REAL,
    grad=None,
    out="int32",
    lite=False,
    doc="h * W + w of the greatest element of each window, the first of equals.",
)
