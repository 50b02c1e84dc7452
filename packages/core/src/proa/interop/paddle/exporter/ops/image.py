"""Rows of convolution, pooling and resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.table import export_row
from proa.interop.paddle.exporter.writer import Ref

Ints = Sequence[int]


def _biased(c: Call, y: Ref, bias: Ref | None) -> Ref:
    if bias is None:
        return y
    return c.op("elementwise_add", {"X": y, "Y": bias}, y.shape, axis=1)


def _geometry(stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Any:
    return {
        "strides": stride, "paddings": padding, "dilations": dilation,
        "groups": groups, "padding_algorithm": "EXPLICIT", "data_format": "NCHW",
    }  # fmt: skip


@export_row("conv2d")
def conv2d(
    c: Call, x: Ref, w: Ref, bias: Ref | None = None, *, stride: Ints, padding: Ints,
    dilation: Ints, groups: int,
) -> Ref:  # fmt: skip
    assert x.shape is not None
    deep = groups > 1 and groups == x.shape[1]
    y = c.op(
        "depthwise_conv2d" if deep else "conv2d", {"Input": x, "Filter": w},
        c.outputs[0].shape, out="Output",
        **_geometry(stride, padding, dilation, groups),
    )  # fmt: skip
    return _biased(c, y, bias)


@export_row("conv2d_transpose")
def conv2d_transpose(
    c: Call, x: Ref, w: Ref, bias: Ref | None = None, *, stride: Ints, padding: Ints,
    dilation: Ints, groups: int, output_padding: Ints,
) -> Ref:  # fmt: skip
    more = list(output_padding) if any(output_padding) else []
    y = c.op(
        "conv2d_transpose", {"Input": x, "Filter": w}, c.outputs[0].shape,
        out="Output", output_padding=more, output_size=[],
        **_geometry(stride, padding, dilation, groups),
    )  # fmt: skip
    return _biased(c, y, bias)


def _pool(c: Call, x: Ref, kind: str, kernel: Ints, **more: Any) -> Ref:
    attrs = {
        "strides": [1, 1], "paddings": [0, 0], "ceil_mode": False, "exclusive": True,
        "adaptive": False, **more,
    }  # fmt: skip
    return c.op(
        "pool2d", {"X": x}, c.outputs[0].shape, pooling_type=kind, ksize=kernel,
        global_pooling=False, padding_algorithm="EXPLICIT", data_format="NCHW", **attrs,
    )  # fmt: skip


@export_row("max_pool2d")
def max_pool2d(c: Call, x: Ref, *, kernel: Ints, stride: Ints, padding: Ints,
               ceil_mode: bool) -> Ref:  # fmt: skip
    window = {"strides": stride, "paddings": padding, "ceil_mode": ceil_mode}
    return _pool(c, x, "max", kernel, **window)


@export_row("avg_pool2d")
def avg_pool2d(c: Call, x: Ref, *, kernel: Ints, stride: Ints, padding: Ints,
               ceil_mode: bool, exclusive: bool) -> Ref:  # fmt: skip
    window = {"strides": stride, "paddings": padding, "ceil_mode": ceil_mode}
    return _pool(c, x, "avg", kernel, exclusive=exclusive, **window)


@export_row("adaptive_avg_pool2d")
def adaptive_avg_pool2d(c: Call, x: Ref, *, size: Ints) -> Ref:
    return _pool(c, x, "avg", size, adaptive=True)


@export_row("adaptive_max_pool2d")
def adaptive_max_pool2d(c: Call, x: Ref, *, size: Ints) -> Ref:
    # pool2d takes the maxima of other windows
    return c.op(
        "max_pool2d_with_index", {"X": x}, c.outputs[0].shape, more=["Mask"],
        ksize=size, strides=[1, 1], paddings=[0, 0], global_pooling=False,
        adaptive=True,
    )  # fmt: skip


@export_row("max_pool2d_index")
def max_pool2d_index(c: Call, x: Ref, *, kernel: Ints, stride: Ints, padding: Ints,
                     ceil_mode: bool) -> Ref:  # fmt: skip
    if ceil_mode or padding[0] != padding[1] or padding[2] != padding[3]:
        c.refuse("indices of windows that are not whole, or uneven padding")
    return c.op(
        "max_pool2d_with_index", {"X": x}, c.outputs[0].shape, dtype="int32",
        out="Mask", more=["Out"], ksize=kernel, strides=stride,
        paddings=[padding[0], padding[2]], global_pooling=False, adaptive=False,
    )  # fmt: skip


_RESIZED = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}


@export_row("resize_axis")
def resize_axis(
    c: Call, x: Ref, *, axis: int, size: int, scale: float, mode: str, corners: bool,
    half: bool,
) -> Ref:  # fmt: skip
    axis %= x.rank
    if x.rank != 4 or axis < 2:
        c.refuse(f"axis {axis} of {x.rank}")
    assert x.shape is not None
    kind = _RESIZED[mode]
    attrs: dict[str, Any] = {
        "align_corners": corners, "align_mode": 0 if half else 1,
        "interp_method": kind, "data_layout": "NCHW", "out_d": -1,
    }  # fmt: skip
    if size:
        sizes = [c.size(x, 2), c.size(x, 3)]
        sizes[axis - 2] = size
        each = [n if isinstance(n, Ref) else c.sizes([n]) for n in sizes]
        known = [n if isinstance(n, int) else -1 for n in sizes]
        given = {"X": x, "SizeTensor": each if -1 in known else None}
        attrs |= {"out_h": known[0], "out_w": known[1]}
    else:
        given = {"X": x}
        factors = [1.0, 1.0]
        factors[axis - 2] = float(scale)
        attrs |= {"out_h": -1, "out_w": -1, "scale": factors}
    return c.op(f"{kind}_interp_v2", given, c.outputs[0].shape, **attrs)
