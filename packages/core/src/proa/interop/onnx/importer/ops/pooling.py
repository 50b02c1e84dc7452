"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import proa
import proa.nn.functional as F
from proa._core import ops as _core_ops
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.ops.convolution import window_pads
from proa.interop.onnx.importer.ops.elementwise import is_float
from proa.interop.onnx.importer.ops.shape import padded
from proa.interop.onnx.importer.table import onnx_op

_MAX: dict[int, Callable[..., Any]] = {
    1: F.max_pool1d,
    2: F.max_pool2d,
    3: F.max_pool3d,
}
_AVERAGE: dict[int, Callable[..., Any]] = {
    1: F.avg_pool1d,
    2: F.avg_pool2d,
    3: F.avg_pool3d,
}


class _Window:
    """A pooling node's window."""

    def __init__(self, call: Call, x: Any) -> None:
        self.kernel: list[int] = call.get("kernel_shape")
        self.rank = len(self.kernel)
        self.stride: list[int] = call.get("strides", [1] * self.rank)
        self.dilation: list[int] = call.get("dilations", [1] * self.rank)
        self.pads = window_pads(
            call, x.shape[2:], self.kernel, self.stride, self.dilation
        )
        self.ceil = bool(call.get("ceil_mode", 0))

    @property
    def is_plain(self) -> bool:
        """Whether Proa's pooling takes it: neither dilated nor rounded up."""
        return set(self.dilation) == {1} and not self.ceil and self.rank <= 3

    def extra(self, sizes: list[int]) -> list[int]:
        """Places added at the end of each axis so that the last window is whole."""
        if not self.ceil:
            return [0] * self.rank
        found = []
        for i, n in enumerate(sizes):
            reach = (self.kernel[i] - 1) * self.dilation[i] + 1
            low, high = self.pads[2 * i], self.pads[2 * i + 1]
            free = n + low + high - reach
            count = -(-free // self.stride[i])
            if count * self.stride[i] >= n + low:
                count -= 1  # the last window would begin in the padding
            found.append(max(count * self.stride[i] - free, 0))
        return found

    def windows(self, call: Call, x: Any, value: Any, border: Any = None) -> Any:
        """Its windows' elements along one new last axis.

        Args:
            value: What the padding holds.
            border: Likewise, but for what rounding up adds; value if None.
        """
        sizes = call.known(x.shape[2:]) if self.ceil else x.shape[2:]
        low, high = [0, 0, *self.pads[::2]], [0, 0, *self.pads[1::2]]
        x = padded(x, low, high, "constant", value)
        border = value if border is None else border
        zeros = [0] * (self.rank + 2)
        x = padded(x, zeros, [0, 0, *self.extra(sizes)], "constant", border)
        for i in range(self.rank):
            x = _core_ops.windows(
                x, axis=i + 2, size=self.kernel[i], step=self.stride[i],
                dilation=self.dilation[i],
            )  # fmt: skip
        return proa.flatten(x, 2 + self.rank, -1)


def _lowest(x: Any) -> Any:
    return float("-inf") if is_float(x) else int(np.iinfo(x.dtype.name).min)


@onnx_op("MaxPool")
def max_pool(call: Call, x: Any) -> Any:
    window = _Window(call, x)
    wants_places = len(call.node.outputs) > 1 and call.node.outputs[1] != ""
    if wants_places:
        return _max_with_places(call, x, window)
    if window.is_plain and is_float(x):
        return _MAX[window.rank](x, window.kernel, window.stride, window.pads)
    return proa.max(window.windows(call, x, _lowest(x)), -1)


def _max_with_places(call: Call, x: Any, window: _Window) -> Any:
    shape = call.known(x.shape)
    places = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    if call.get("storage_order", 0):
        planes = np.moveaxis(places.reshape(*shape[:2], *shape[:1:-1]), 2, -1)
        places = planes if window.rank == 2 else places
    found = window.windows(call, x, _lowest(x))
    at = proa.argmax(found, -1, keepdim=True).astype("int64")
    index = window.windows(call, proa.to_tensor(places), -1)
    best = proa.take_along_axis(index, at, found.ndim - 1)
    return proa.max(found, -1), proa.squeeze(best, [found.ndim - 1])


@onnx_op("AveragePool")
def average_pool(call: Call, x: Any) -> Any:
    window = _Window(call, x)
    counts_padding = bool(call.get("count_include_pad", 0))
    if window.is_plain and (counts_padding or not any(window.pads)):
        return _AVERAGE[window.rank](
            x, window.kernel, window.stride, window.pads, exclusive=not counts_padding
        )
    if window.is_plain and set(window.pads) and window.rank == 2:
        return F.avg_pool2d(x, window.kernel, window.stride, window.pads)
    ones = proa.ones(x.shape, x.dtype)
    total = proa.sum(window.windows(call, x, 0.0), -1)
    counted = window.windows(call, ones, float(counts_padding), 0.0)
    return total / proa.sum(counted, -1)


@onnx_op("LpPool")
def lp_pool(call: Call, x: Any) -> Any:
    p = call.get("p", 2)
    found = _Window(call, x).windows(call, proa.pow(proa.abs(x), float(p)), 0.0)
    return proa.pow(proa.sum(found, -1), 1.0 / p)


def _spatial(x: Any) -> list[int]:
    return list(range(2, x.ndim))


@onnx_op("GlobalAveragePool")
def global_average_pool(call: Call, x: Any) -> Any:
    return proa.mean(x, _spatial(x), True)


@onnx_op("GlobalMaxPool")
def global_max_pool(call: Call, x: Any) -> Any:
    return proa.max(x, _spatial(x), True)


@onnx_op("GlobalLpPool")
def global_lp_pool(call: Call, x: Any) -> Any:
    p = float(call.get("p", 2))
    total = proa.sum(proa.pow(proa.abs(x), p), _spatial(x), keepdim=True)
    return proa.pow(total, 1.0 / p)


@onnx_op("MaxUnpool", host=(2,))
def max_unpool(call: Call, x: Any, index: Any, shape: Any = None) -> Any:
    call.known(x.shape)
    kernel = call.get("kernel_shape")
    stride = call.get("strides", [1] * len(kernel))
    pads = call.get("pads", [0] * 2 * len(kernel))
    sizes = [
        (n - 1) * s - pads[i] - pads[i + len(kernel)] + k
        for i, (n, s, k) in enumerate(zip(x.shape[2:], stride, kernel, strict=True))
    ]
    given = call.ints(shape)
    final = list(x.shape[:2]) + (sizes if given is None else given[2:])
    if given is not None and given[2:] != sizes:
        # places are those of the smaller image
        index = _moved(index, sizes, given[2:], x.shape)
    flat = proa.zeros([math.prod(final)], x.dtype)
    flat = proa.scatter_nd_add(
        flat, proa.reshape(index, [-1, 1]), proa.reshape(x, [-1])
    )
    return proa.reshape(flat, final)


def _moved(index: Any, old: list[int], new: list[int], shape: list[int]) -> Any:
    planes = shape[0] * shape[1]
    small = np.arange(planes * math.prod(old)).reshape(planes, *old)
    table = np.zeros(small.size, np.int64)
    large = np.arange(planes * math.prod(new)).reshape(planes, *new)
    cut = (slice(None), *(slice(0, n) for n in old))
    table[small.reshape(-1)] = large[cut].reshape(-1)
    flat = proa.gather(proa.to_tensor(table), proa.reshape(index, [-1]), 0)
    return proa.reshape(flat, index.shape)


@onnx_op("MaxRoiPool")
def max_roi_pool(call: Call, x: Any, rois: Any) -> Any:
    boxes = proa.slice(rois, [1], [1], [5])
    counts = np.bincount(call.host(rois)[:, 0].astype(int), minlength=x.shape[0])
    return proa.vision.ops.roi_pool(
        x, boxes, proa.to_tensor(counts.astype(np.int32)), call.get("pooled_shape"),
        call.get("spatial_scale", 1.0),
    )  # fmt: skip
