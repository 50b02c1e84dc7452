"""Convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import proa
import proa.nn.functional as F
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.ops.linear import requantized, zero_point
from proa.interop.onnx.importer.table import onnx_op

_CONV: dict[int, Callable[..., Any]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Callable[..., Any]] = {
    1: F.conv1d_transpose,
    2: F.conv2d_transpose,
    3: F.conv3d_transpose,
}


def window_pads(
    call: Call, sizes: list[Any], kernel: list[int], stride: list[int],
    dilation: list[int],
) -> list[int]:  # fmt: skip
    """Padding as low, high of each axis, from ``pads`` or ``auto_pad``."""
    rank = len(kernel)
    mode = call.get("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        pads = call.get("pads", [0] * 2 * rank)
        return [pads[i + rank * end] for i in range(rank) for end in (0, 1)]
    if mode == "VALID":
        return [0] * 2 * rank
    found = []
    for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True):
        if type(n) is not int and s != 1:
            raise call.refuse("auto_pad of a symbolic dimension")
        reach = (k - 1) * d + 1
        total = reach - 1 if s == 1 else max((-(-n // s) - 1) * s + reach - n, 0)
        less, more = total // 2, total - total // 2
        found += [less, more] if mode == "SAME_UPPER" else [more, less]
    return found


@onnx_op("Conv", weights=(1, 2))
def conv(call: Call, x: Any, w: Any, bias: Any = None) -> Any:
    rank = x.ndim - 2
    if rank not in _CONV:
        raise call.refuse(f"{rank} spatial axes")
    stride = call.get("strides", [1] * rank)
    dilation = call.get("dilations", [1] * rank)
    pads = window_pads(call, x.shape[2:], w.shape[2:], stride, dilation)
    group = call.get("group", 1)
    return _CONV[rank](x, w, bias, stride, pads, dilation, group)


@onnx_op("ConvTranspose", weights=(1, 2))
def conv_transpose(call: Call, x: Any, w: Any, bias: Any = None) -> Any:
    rank = x.ndim - 2
    if rank not in _TRANSPOSED:
        raise call.refuse(f"{rank} spatial axes")
    stride = call.get("strides", [1] * rank)
    dilation = call.get("dilations", [1] * rank)
    extra = call.get("output_padding", [0] * rank)
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation, strict=True)]
    cut = _transposed_cut(call, x.shape[2:], reach, stride, extra)
    # Cut by hand: output padding may be wider than F.conv_transpose takes it.
    y = _TRANSPOSED[rank](
        x, w, bias, stride=stride, dilation=dilation, groups=call.get("group", 1)
    )
    axes, starts, ends = [], [], []
    for i in range(rank):
        low, high = cut[2 * i], cut[2 * i + 1] - extra[i]
        if high < 0:
            y = _extended(y, i + 2, -high, bias)
        if low or high > 0:
            axes.append(i + 2)
            starts.append(low)
            ends.append(-high if high > 0 else 2**31 - 1)
    return proa.slice(y, axes, starts, ends) if axes else y


def _extended(y: Any, axis: int, count: int, bias: Any) -> Any:
    """y with places at an axis' end that no element of the input reaches."""
    shape = list(y.shape)
    shape[axis] = count
    more = proa.zeros(shape, y.dtype)
    if bias is not None:
        more = more + proa.reshape(bias, [-1, *[1] * (y.ndim - 2)])
    return proa.concat([y, more], axis)


def _transposed_cut(
    call: Call, sizes: list[Any], reach: list[int], stride: list[int], extra: list[int]
) -> list[int]:
    """What is cut off the whole result: low, high of each axis."""
    rank = len(reach)
    mode, wanted = call.get("auto_pad", "NOTSET"), call.get("output_shape")
    if wanted is None and mode in ("NOTSET", "", "VALID"):
        pads = call.get("pads", [0] * 2 * rank)
        return [pads[i + rank * end] for i in range(rank) for end in (0, 1)]
    found = []
    for i in range(rank):
        whole = (sizes[i] - 1) * stride[i] + extra[i] + reach[i]
        size = sizes[i] * stride[i] if wanted is None else wanted[-rank:][i]
        total = whole - size
        less, more = total // 2, total - total // 2
        found += [less, more] if mode == "SAME_UPPER" else [more, less]
    return found


@onnx_op("ConvInteger")
def conv_integer(
    call: Call, x: Any, w: Any, x_point: Any = None, w_point: Any = None
) -> Any:
    x, w = zero_point(x, x_point, 1), zero_point(w, w_point, 0)
    return conv(call, x.astype("float64"), w.astype("float64")).astype("int32")


@onnx_op("QLinearConv")
def qlinear_conv(
    call: Call, x: Any, x_scale: Any, x_point: Any, w: Any, w_scale: Any,
    w_point: Any, y_scale: Any, y_point: Any, bias: Any = None,
) -> Any:  # fmt: skip
    x, w = zero_point(x, x_point, 1), zero_point(w, w_point, 0)
    wide = None if bias is None else bias.astype("float64")
    total = conv(call, x.astype("float64"), w.astype("float64"), wide)
    factor = x_scale * w_scale
    if factor.ndim == 1 and factor.shape[0] > 1:
        factor = proa.reshape(factor, [-1, *[1] * (x.ndim - 2)])
    return requantized(total.astype("float32") * factor, y_scale, y_point)


@onnx_op("DeformConv", weights=(1, 3))
def deform_conv(
    call: Call, x: Any, w: Any, offset: Any, bias: Any = None, mask: Any = None
) -> Any:
    stride, dilation = call.get("strides", [1, 1]), call.get("dilations", [1, 1])
    pads = window_pads(call, x.shape[2:], w.shape[2:], stride, dilation)
    if pads[0] != pads[1] or pads[2] != pads[3]:
        raise call.refuse("uneven padding")
    return proa.vision.ops.deform_conv2d(
        x, offset, w, bias, stride, pads[::2], dilation,
        call.get("offset_group", 1), call.get("group", 1), mask,
    )  # fmt: skip


@onnx_op("Col2Im", host=(1, 2))
def col2im(call: Call, x: Any, image: Any, block: Any) -> Any:
    size, kernel = call.ints(image) or [], call.ints(block) or []
    rank = len(size)
    stride = call.get("strides", [1] * rank)
    dilation = call.get("dilations", [1] * rank)
    pads = call.get("pads", [0] * 2 * rank)
    if rank == 2:
        return F.fold(x, size, kernel, stride, pads, dilation)
    whole = [n + pads[i] + pads[i + rank] for i, n in enumerate(size)]
    # Where each element of each window is in the padded image.
    lines = []
    for n, k, s, d in zip(whole, kernel, stride, dilation, strict=True):
        first = np.arange(0, n - (k - 1) * d, s)
        lines.append(np.arange(k)[:, None] * d + first)
    grids = np.ix_(*[np.arange(line.size) for line in lines])
    places = [line.reshape(-1)[grid] for line, grid in zip(lines, grids, strict=True)]
    flat = np.ravel_multi_index(np.broadcast_arrays(*places), whole)
    split = [n for line in lines for n in line.shape]
    order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
    index = flat.reshape(split).transpose(order).reshape(-1).astype(np.int64)
    batch, channels = x.shape[0], x.shape[1] // math.prod(kernel)
    values = proa.reshape(x, [batch * channels, -1])
    empty = proa.zeros([batch * channels, math.prod(whole)], x.dtype)
    summed = proa.index_add(empty, proa.to_tensor(index), 1, values)
    found = proa.reshape(summed, [batch, channels, *whole])
    starts = pads[:rank]
    ends = [s + n for s, n in zip(starts, size, strict=True)]
    return proa.slice(found, list(range(2, rank + 2)), starts, ends)


@onnx_op("CenterCropPad", host=(1,))
def center_crop_pad(call: Call, x: Any, wanted: Any) -> Any:
    sizes = call.ints(wanted) or []
    axes = [a % x.ndim for a in call.get("axes", range(x.ndim))]
    for axis, size in zip(axes, sizes, strict=True):
        (n,) = call.known([x.shape[axis]])
        if n > size:
            start = (n - size) // 2
            x = proa.slice(x, [axis], [start], [start + size])
        elif n < size:
            low = (size - n) // 2
            shape = [list(x.shape), list(x.shape)]
            shape[0][axis], shape[1][axis] = low, size - n - low
            ends = [proa.zeros(s, x.dtype) for s in shape]
            x = proa.concat([ends[0], x, ends[1]], axis)
    return x


@onnx_op("CausalConvWithState", weights=(1, 2))
def causal_conv(call: Call, x: Any, w: Any, bias: Any = None, past: Any = None) -> Any:
    """Depthwise over time; the last elements are what the next call begins with."""
    room = w.shape[2] - 1
    if past is None:
        past = proa.zeros([x.shape[0], x.shape[1], room], x.dtype)
    whole = proa.concat([past, x], 2)
    y = F.conv1d(whole, w, bias, groups=w.shape[0])
    if call.get("activation", "none") in ("silu", "swish"):
        y = F.silu(y)
    state = proa.slice(whole, [2], [-room], [2**31 - 1]) if room else past
    return y, state
