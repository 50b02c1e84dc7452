"""Convolution. x is (N, C, H, W), w (O, C / groups, KH, KW).

Padding is top, bottom, left, right.
"""

from __future__ import annotations

from typing import Any

from proa.schema.dtypes import FLOATING
from proa.schema.ops.linear import _ACT
from proa.schema.row import REFUSED, op

_GEOMETRY = (
    "stride: ints = [1, 1], padding: ints = [0, 0, 0, 0], dilation: ints = [1, 1], "
    "groups: int = 1"
)


def _conv2d_grad(
    g: Any,
    dy: Any,
    x: Any,
    w: Any,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
) -> Any:
    geometry = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
    }
    return (
        g.conv2d_grad_input(dy, w, x, **geometry),
        g.conv2d_grad_weight(x, dy, w, **geometry),
        g.sum_channels(dy),
    )


op(
    f"conv2d(x, w, bias?, *, {_GEOMETRY})",
    shape="conv2d",
    layout="channels_last",
    dtypes=FLOATING,
    grad=_conv2d_grad,
    promote="common",
    autocast="white",
    scratch=True,
    pack="w",
    doc="Cross-correlation of x with the kernels w, plus a bias per output channel. "
    "The result is stored channels-last.",
)
op(
    f"conv2d_grad_input(dy, w, like: shape, *, {_GEOMETRY})",
    shape="conv2d_grad_input",
    dtypes=FLOATING,
    outputs=("dx",),
    grad=lambda g, ddx, dy, w, *, stride, padding, dilation, groups: (
        g.conv2d(
            ddx, w, stride=stride, padding=padding, dilation=dilation, groups=groups
        ),
        g.conv2d_grad_weight(
            ddx, dy, w, stride=stride, padding=padding, dilation=dilation, groups=groups
        ),
    ),
    promote="common",
    autocast="white",
    scratch=True,
    pack="w",
    doc="Gradient of conv2d with respect to its input, which has the shape of like; "
    "also the transposed convolution of dy.",
)
op(
    f"conv2d_grad_weight(x, dy, like: shape, *, {_GEOMETRY})",
    shape="conv2d_grad_weight",
    dtypes=FLOATING,
    outputs=("dw",),
    grad=lambda g, ddw, x, dy, *, stride, padding, dilation, groups: (
        g.conv2d_grad_input(
            dy, ddw, x, stride=stride, padding=padding, dilation=dilation, groups=groups
        ),
        g.conv2d(
            x, ddw, stride=stride, padding=padding, dilation=dilation, groups=groups
        ),
    ),
    promote="common",
    autocast="white",
    scratch=True,
    lite=False,
    doc="Gradient of conv2d with respect to its kernels, which have the shape of like.",
)


def _transpose_grad(
    g: Any,
    dy: Any,
    x: Any,
    w: Any,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
) -> Any:
    geometry = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
    }
    return (
        g.conv2d(dy, w, **geometry),
        g.conv2d_grad_weight(dy, x, w, **geometry),
        g.sum_channels(dy),
    )


op(
    f"conv2d_transpose(x, w, bias?, *, {_GEOMETRY}, output_padding: ints = [0, 0])",
    shape="conv2d_transpose",
    layout="channels_last",
    dtypes=FLOATING,
    grad=_transpose_grad,
    promote="common",
    autocast="white",
    scratch=True,
    pack="w",
    doc="The transpose of conv2d with kernels w (C, O / groups, KH, KW), plus a bias. "
    "output_padding < stride adds rows and columns at the end, which conv2d would have "
    "left over.",
)
op(
    "sum_channels(x)",
    shape="sum_channels",
    dtypes=FLOATING,
    grad=lambda g, dy, x: g.broadcast_channels(dy, x),
    lite=False,
    scratch=True,
    doc="Sum over every axis but axis 1: (N, C, ..) -> (C,).",
)
op(
    "broadcast_channels(x, like: shape)",
    shape="broadcast_channels",
    kind="view",
    dtypes=FLOATING,
    grad=lambda g, dy: g.sum_channels(dy),
    lite=False,
    doc="(C,) -> (N, C, ..) of like, without copying.",
)
op(
    f'conv2d_act(x, w, bias?, residual?, *, {_GEOMETRY}, act: {_ACT} = "none")',
    shape="conv2d",
    layout="channels_last",
    dtypes=FLOATING,
    grad=REFUSED,
    scratch=True,
    pack="w",
    adds="residual",
    doc="act(conv2d(x, w, bias) + residual): what the graph passes fuse a convolution, "
    "an add and an activation into. Inference only.",
)
op(
    "conv2d_norm(x, w, center, factor, shift, bias?, residual?, *, "
    f'{_GEOMETRY}, act: {_ACT} = "none", scale: float = 1.0, offset: float = 0.0)',
    shape="conv2d_norm",
    layout="channels_last",
    dtypes=("float32", "float64"),
    grad=REFUSED,
    scratch=True,
    pack="w",
    doc="act((conv2d(x, w, bias) - center) * factor + shift + residual) * scale + "
    "offset, with center, factor and shift for each output channel: a convolution and "
    "a batch norm of fixed statistics, with the bits of the two in a row. Made by "
    "graph passes, inference only.",
)
