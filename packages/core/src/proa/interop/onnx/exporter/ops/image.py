"""Rows of convolutions and poolings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.ops.unary import limited
from proa.interop.onnx.exporter.standard import (
    concat,
    reduce,
    scatter_added,
    slice_,
    unsqueeze,
)
from proa.interop.onnx.exporter.table import export_row

Ints = Sequence[int]


def _pads(padding: Ints) -> list[int]:
    """Top, bottom, left, right as the standard orders them."""
    top, bottom, left, right = padding
    return [top, left, bottom, right]


def activated(c: Call, x: Ref, act: str) -> Ref:
    """The activation that a fused operator ends with."""
    if act == "none":
        return x
    if act == "relu6":
        return limited(c, x, 0.0, 6.0)
    return c.row(act, Ref(x.name, x.dtype, c.outputs[0].shape))  # type: ignore[no-any-return]


@export_row("conv2d")
def conv2d(c: Call, x: Ref, w: Ref, bias: Ref | None = None, *, stride: Ints,
           padding: Ints, dilation: Ints, groups: int) -> Ref:  # fmt: skip
    kernel = None if w.shape is None or -1 in w.shape[2:] else list(w.shape[2:])
    return c.op(
        "Conv", x, w, bias, kernel_shape=kernel, strides=list(stride),
        pads=_pads(padding), dilations=list(dilation), group=groups,
    )  # fmt: skip


@export_row("conv2d_act")
def conv2d_act(
    c: Call, x: Ref, w: Ref, bias: Ref | None = None, residual: Ref | None = None, *,
    act: str, **geometry: Any,
) -> Ref:  # fmt: skip
    y = conv2d(c, x, w, bias, **geometry)
    if residual is not None:
        y = c.op("Add", y, residual)
    return activated(c, y, act)


@export_row("conv2d_norm")
def conv2d_norm(
    c: Call, x: Ref, w: Ref, center: Ref, factor: Ref, shift: Ref,
    bias: Ref | None = None, residual: Ref | None = None, *, act: str, scale: float,
    offset: float, **geometry: Any,
) -> Ref:  # fmt: skip
    y = conv2d(c, x, w, bias, **geometry)
    center, factor, shift = (unsqueeze(c, v, [1, 2]) for v in (center, factor, shift))
    y = c.op("Add", c.op("Mul", c.op("Sub", y, center), factor), shift)
    if residual is not None:
        y = c.op("Add", y, residual)
    y = activated(c, y, act)
    if scale != 1.0 or offset != 0.0:
        y = c.op("Mul", y, c.number(scale, x))
        y = c.op("Add", y, c.number(offset, x))
    return y


@export_row("conv2d_transpose")
def conv2d_transpose(
    c: Call, x: Ref, w: Ref, bias: Ref | None = None, *, stride: Ints, padding: Ints,
    dilation: Ints, groups: int, output_padding: Ints,
) -> Ref:  # fmt: skip
    return c.op(
        "ConvTranspose", x, w, bias, strides=list(stride), pads=_pads(padding),
        dilations=list(dilation), group=groups, output_padding=list(output_padding),
    )  # fmt: skip


@export_row("conv2d_grad_input")
def conv2d_grad_input(c: Call, dy: Ref, w: Ref, like: Ref, *, stride: Ints,
                      padding: Ints, dilation: Ints, groups: int) -> Ref:  # fmt: skip
    more = []
    for i in range(2):
        n, m, k = (v.shape[2 + i] if v.shape else -1 for v in (like, dy, w))
        if min(n, m, k) < 0:
            c.refuse("images of symbolic sizes")
        whole = (m - 1) * stride[i] + (k - 1) * dilation[i] + 1
        more.append(n + padding[2 * i] + padding[2 * i + 1] - whole)
    return conv2d_transpose(
        c, dy, w, stride=stride, padding=padding, dilation=dilation, groups=groups,
        output_padding=more,
    )  # fmt: skip


# -- pooling ---------------------------------------------------------------------------
def _window(c: Call, x: Ref, kernel: Ints, stride: Ints, padding: Ints, ceil_mode: bool
            ) -> dict[str, Any]:  # fmt: skip
    """The attributes of a pooling. Where the size is known, a last window that is not
    whole is one over further padding, which every opset has.
    """
    pads, window = (
        list(padding),
        {"kernel_shape": list(kernel), "strides": list(stride)},
    )
    sizes = c.outputs[0].shape
    if ceil_mode and -1 in sizes[2:]:
        if c.opset < 10:
            c.refuse("ceil_mode with symbolic sizes needs opset 10")
        return {**window, "pads": _pads(pads), "ceil_mode": 1}
    if ceil_mode:
        assert x.shape is not None
        for i in range(2):
            reach = (sizes[2 + i] - 1) * stride[i] + kernel[i]
            pads[2 * i + 1] += max(
                reach - x.shape[2 + i] - sum(pads[2 * i : 2 * i + 2]), 0
            )
    return {**window, "pads": _pads(pads)}


@export_row("max_pool2d")
def max_pool2d(c: Call, x: Ref, *, kernel: Ints, stride: Ints, padding: Ints,
               ceil_mode: bool) -> Ref:  # fmt: skip
    return c.op("MaxPool", x, **_window(c, x, kernel, stride, padding, ceil_mode))


@export_row("max_pool2d_index")
def max_pool2d_index(c: Call, x: Ref, *, kernel: Ints, stride: Ints, padding: Ints,
                     ceil_mode: bool) -> Ref:  # fmt: skip
    window = _window(c, x, kernel, stride, padding, ceil_mode)
    index = c.ops("MaxPool", 2, x, dtype="int64", **window)[1]
    plane = c.vector([c.product([c.size(x, 2), c.size(x, 3)])])
    before = c.op("Mul", c.op("Div", index, plane), plane)
    return c.op("Sub", index, before)  # the standard counts over the whole array


@export_row("avg_pool2d")
def avg_pool2d(c: Call, x: Ref, *, kernel: Ints, stride: Ints, padding: Ints,
               ceil_mode: bool, exclusive: bool) -> Ref:  # fmt: skip
    inside = int(not exclusive)
    window = _window(c, x, kernel, stride, padding, ceil_mode)
    return c.op("AveragePool", x, count_include_pad=inside, **window)


@export_row("pool_gather", since=11)
def pool_gather(c: Call, x: Ref, index: Ref) -> Ref:
    flat = c.ints([0, 0, -1])
    places = c.op("Reshape", c.cast(index, "int64"), flat)
    found = c.op("GatherElements", c.op("Reshape", x, flat), places, axis=2)
    return c.op("Reshape", found, c.shape(index))


@export_row("pool_scatter", since=16)
def pool_scatter(c: Call, dy: Ref, index: Ref, like: Ref) -> Ref:
    flat = c.ints([0, 0, -1])
    places = c.op("Reshape", c.cast(index, "int64"), flat)
    zeros = c.row("full_like", like, value=0, dtype=dy.dtype)
    planes, rest = (c.op("Reshape", v, flat) for v in (zeros, dy))
    result = scatter_added(c, "ScatterElements", planes, places, rest, axis=2)
    return c.op("Reshape", result, c.shape(like))


# -- adaptive pooling ------------------------------------------------------------------
def _bins(n: int, count: int) -> list[tuple[int, int]]:
    return [(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]


def _sides(c: Call, x: Ref) -> tuple[int, int]:
    assert x.shape is not None
    if -1 in x.shape[2:]:
        c.refuse("adaptive pooling of symbolic sizes to more than one element")
    return x.shape[2], x.shape[3]


def _even(sides: Ints, size: Ints) -> dict[str, Any] | None:
    """The pooling whose windows the bins are, if they are of one size."""
    if any(n % m for n, m in zip(sides, size, strict=True)):
        return None
    kernel = [n // m for n, m in zip(sides, size, strict=True)]
    return {"kernel_shape": kernel, "strides": kernel}


@export_row("adaptive_avg_pool2d")
def adaptive_avg_pool2d(c: Call, x: Ref, *, size: Ints) -> Ref:
    if list(size) == [1, 1]:
        return c.op("GlobalAveragePool", x)
    sides = _sides(c, x)
    window = _even(sides, size)
    if window is not None:
        return c.op("AveragePool", x, **window)
    left, right = (_mean_matrix(n, m) for n, m in zip(sides, size, strict=True))
    rows = c.op("MatMul", c.cast(c.const(left, "float64"), x.dtype), x)
    return c.op("MatMul", rows, c.cast(c.const(right.T, "float64"), x.dtype))


def _mean_matrix(n: int, count: int) -> Any:
    """Row i takes the mean of bin i."""
    matrix = np.zeros((count, n))
    for i, (start, end) in enumerate(_bins(n, count)):
        matrix[i, start:end] = 1.0 / (end - start)
    return matrix


@export_row("adaptive_max_pool2d")
def adaptive_max_pool2d(c: Call, x: Ref, *, size: Ints) -> Ref:
    if list(size) == [1, 1]:
        return reduce(c, "ReduceMax", x, [2, 3])
    sides = _sides(c, x)
    window = _even(sides, size)
    if window is not None:
        return c.op("MaxPool", x, **window)
    for axis in (2, 3):
        parts = [
            reduce(c, "ReduceMax", slice_(c, x, [axis], [start], [end]), [axis])
            for start, end in _bins(sides[axis - 2], size[axis - 2])
        ]
        x = concat(c, parts, axis)
    return x


@export_row("adaptive_max_pool2d_index")
def adaptive_max_pool2d_index(c: Call, x: Ref, *, size: Ints) -> Ref:
    height, width = _sides(c, x)
    places = np.arange(height * width).reshape(height, width)
    rows = []
    for top, bottom in _bins(height, size[0]):
        found = []
        for left, right in _bins(width, size[1]):
            part = slice_(c, x, [2, 3], [top, left], [bottom, right])
            flat = c.op("Reshape", part, c.ints([0, 0, -1]))
            best = c.op("ArgMax", flat, axis=2, keepdims=1)
            inside = c.const(places[top:bottom, left:right].reshape(-1), "int64")
            found.append(c.op("Gather", inside, best, axis=0))
        rows.append(unsqueeze(c, concat(c, found, 2), [2]))
    return concat(c, rows, 2)


# -- channels --------------------------------------------------------------------------
@export_row("sum_channels")
def sum_channels(c: Call, x: Ref) -> Ref:
    axes = [i for i in range(x.rank) if i != 1]
    return reduce(c, "ReduceSum", x, axes, keepdim=False)


@export_row("broadcast_channels")
def broadcast_channels(c: Call, x: Ref, like: Ref) -> Ref:
    wide = c.op("Reshape", x, c.ints([1, -1, *[1] * (like.rank - 2)]))
    return c.op("Expand", wide, c.shape(like))
