"""Rows of convolution, pooling and resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.ops.elementwise import activated, scaled
from proa.interop.paddle.exporter.table import export_row
from proa.interop.paddle.exporter.writer import CODES

Ints = Sequence[int]


def _biased(c: Call, y: Ref, bias: Ref | None) -> Ref:
    if bias is None:
        return y
    return c.op("elementwise_add", {"X": y, "Y": bias}, y.shape, axis=1)


def geometry_of(
    stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> dict[str, Any]:
    """The attributes of a convolution."""
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
        **geometry_of(stride, padding, dilation, groups),
    )  # fmt: skip
    return _biased(c, y, bias)


@export_row("conv2d_act")
def conv2d_act(
    c: Call, x: Ref, w: Ref, bias: Ref | None = None, residual: Ref | None = None, *,
    act: str, **geometry: Any,
) -> Ref:  # fmt: skip
    y = conv2d(c, x, w, bias, **geometry)
    if residual is not None:
        y = c.binary("elementwise_add", y, residual)
    return activated(c, y, act)


@export_row("conv2d_norm")
def conv2d_norm(
    c: Call, x: Ref, w: Ref, center: Ref, factor: Ref, shift: Ref,
    bias: Ref | None = None, residual: Ref | None = None, *, act: str, scale: float,
    offset: float, **geometry: Any,
) -> Ref:  # fmt: skip
    y = conv2d(c, x, w, bias, **geometry)
    for kind, v in (("sub", center), ("mul", factor), ("add", shift)):
        y = c.op(f"elementwise_{kind}", {"X": y, "Y": v}, y.shape, axis=1)
    if residual is not None:
        y = c.binary("elementwise_add", y, residual)
    y = activated(c, y, act)
    if scale != 1.0 or offset != 0.0:
        y = c.row("scale", y, scale=scale, bias=offset)
    return y


@export_row("conv2d_transpose")
def conv2d_transpose(
    c: Call, x: Ref, w: Ref, bias: Ref | None = None, *, stride: Ints, padding: Ints,
    dilation: Ints, groups: int, output_padding: Ints,
) -> Ref:  # fmt: skip
    more = list(output_padding) if any(output_padding) else []
    y = c.op(
        "conv2d_transpose", {"Input": x, "Filter": w}, c.outputs[0].shape,
        out="Output", output_padding=more, output_size=[],
        **geometry_of(stride, padding, dilation, groups),
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
    if not ceil_mode and padding[0] == padding[1] and padding[2] == padding[3]:
        return _maxima(c, x, kernel, stride, [padding[0], padding[2]])
    assert x.shape is not None
    height, width = x.shape[2:]
    if min(height, width) < 0:
        c.refuse("indices of windows that are not whole, of symbolic sizes")
    # Windows of the array with borders, whose places are counted with these.
    before, after = [padding[0], padding[2]], [padding[1], padding[3]]
    for i, n in enumerate(c.outputs[0].shape[2:]):
        reach = (n - 1) * stride[i] + kernel[i] - x.shape[2 + i]
        after[i] = max(after[i], reach - before[i])
    wide = c.row(
        "pad", x, low=[0, 0, *before], high=[0, 0, *after], mode="constant",
        value=-3e38,
    )  # fmt: skip
    found = _maxima(c, wide, kernel, stride, [0, 0])
    across = c.const(width + before[1] + after[1], "int32")
    row = c.binary("elementwise_floordiv", found, across)
    column = c.binary("elementwise_mod", found, across)
    row = scaled(c, row, width, -before[0] * width - before[1])
    return c.binary("elementwise_add", row, column)


def _maxima(c: Call, x: Ref, kernel: Ints, stride: Ints, padding: Ints, **how: bool
            ) -> Ref:  # fmt: skip
    """Where in its plane the greatest element of each window is."""
    return c.op(
        "max_pool2d_with_index", {"X": x}, c.outputs[0].shape, dtype="int32",
        out="Mask", more=["Out"], ksize=kernel, strides=stride, paddings=padding,
        global_pooling=False, **{"adaptive": False, **how},
    )  # fmt: skip


@export_row("adaptive_max_pool2d_index")
def adaptive_max_pool2d_index(c: Call, x: Ref, *, size: Ints) -> Ref:
    return _maxima(c, x, size, [1, 1], [0, 0], adaptive=True)


@export_row("pool_gather")
def pool_gather(c: Call, x: Ref, index: Ref) -> Ref:
    planes, places = _planes(c, x), c.cast(_planes(c, index), "int64")
    found = c.op(
        "take_along_axis", {"Input": planes, "Index": places}, places.shape,
        out="Result", Axis=2,
    )  # fmt: skip
    return c.reshape(found, [c.size(index, i) for i in range(4)])


@export_row("pool_scatter")
def pool_scatter(c: Call, dy: Ref, index: Ref, like: Ref) -> Ref:
    zeros = _planes(c, c.row("full_like", like, value=0.0, dtype=dy.dtype))
    result = c.op(
        "put_along_axis",
        {"Input": zeros, "Index": c.cast(_planes(c, index), "int64"),
         "Value": _planes(c, dy)},
        zeros.shape, out="Result", Axis=2, Reduce="add", Include_self=True,
    )  # fmt: skip
    return c.reshape(result, [c.size(like, i) for i in range(4)])


def _planes(c: Call, x: Ref) -> Ref:
    """(N, C, H, W) as (N, C, H * W)."""
    assert x.shape is not None
    height, width = x.shape[2:]
    size = -1 if min(height, width) < 0 else height * width
    return c.op(
        "flatten_contiguous_range", {"X": x}, [*x.shape[:2], size], more=["XShape"],
        start_axis=2, stop_axis=3,
    )  # fmt: skip


@export_row("roi_max_index")
def roi_max_index(c: Call, x: Ref, boxes: Ref, image: Ref, *, size: Ints, scale: float
                  ) -> Ref:  # fmt: skip
    # Each box has an image of its own, so that they may come in any order.
    assert x.shape is not None
    shape = c.outputs[0].shape
    own = c.op("gather", {"X": x, "Index": image}, [-1, *x.shape[1:]], axis=0)
    counts = c.op(
        "fill_any_like", {"X": image}, image.shape, dtype="int32", value=1.0,
        dtype_=CODES["int32"],
    )  # fmt: skip
    outputs = {"Out": (x.dtype, shape), "Argmax": ("int64", shape)}
    given = {"X": own, "ROIs": boxes, "RoisNum": counts}
    _, place = c.ops(
        "roi_pool", given, outputs, pooled_height=size[0], pooled_width=size[1],
        spatial_scale=float(scale),
    )  # fmt: skip
    channels, height, width = x.shape[1:]
    if min(channels, height, width) < 0:
        c.refuse("places in an array of symbolic sizes")
    plane = height * width
    channel = c.const(np.arange(channels).reshape(1, -1, 1, 1) * plane, "int64")
    first = c.reshape(c.cast(image, "int64"), [-1, 1, 1, 1])
    first = c.binary("elementwise_mul", first, c.const(channels * plane, "int64"))
    found = c.binary("elementwise_add", place, channel)
    found = c.binary("elementwise_add", found, first)
    inside = c.binary("greater_equal", place, c.const(0, "int64"), dtype="bool")
    return c.row("where", inside, found, place)  # type: ignore[no-any-return]


_RESIZED = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}


@export_row("resize_axis")
def resize_axis(
    c: Call, x: Ref, *, axis: int, size: int, scale: float, mode: str, corners: bool,
    half: bool,
) -> Ref:  # fmt: skip
    axis %= x.rank
    sizes = [c.size(x, i) for i in range(x.rank)]
    if x.rank == 4 and axis >= 2:
        how = {"corners": corners, "half": half}
        return _resized(c, x, axis, size, scale, mode, c.outputs[0].shape, **how)
    # The axes before and after it become one each.
    n, inner = sizes[axis], c.product(sizes[axis + 1 :])
    flat = c.reshape(x, [1, c.product(sizes[:axis]), n, inner])
    assert flat.shape is not None
    after = [*flat.shape[:2], c.outputs[0].shape[axis], flat.shape[3]]
    found = _resized(c, flat, 2, size, scale, mode, after, corners=corners, half=half)
    sizes[axis] = c.size(found, 2)
    return c.reshape(found, sizes)


def _resized(
    c: Call, x: Ref, axis: int, size: int, scale: float, mode: str, shape: Ints, *,
    corners: bool, half: bool,
) -> Ref:  # fmt: skip
    """Planes resampled along axis 2 or 3."""
    kind = _RESIZED[mode]
    attrs: dict[str, Any] = {
        "align_corners": corners, "align_mode": 0 if half else 1,
        "interp_method": kind, "data_layout": "NCHW", "out_d": -1,
    }  # fmt: skip
    if size:
        sizes = [c.size(x, 2), c.size(x, 3)]
        sizes[axis - 2] = size
        each = [n if isinstance(n, Ref) else c.ints([n]) for n in sizes]
        known = [n if isinstance(n, int) else -1 for n in sizes]
        given = {"X": x, "SizeTensor": each if -1 in known else None}
        attrs |= {"out_h": known[0], "out_w": known[1]}
    else:
        given = {"X": x}
        factors = [1.0, 1.0]
        factors[axis - 2] = float(scale)
        attrs |= {"out_h": -1, "out_w": -1, "scale": factors}
    return c.op(f"{kind}_interp_v2", given, shape, **attrs)
