"""Resizing, sampling at places, and regions of interest."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
import proa.nn.functional as F
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.ops.convolution import layout_of
from proa.interop.paddle.importer.table import paddle_op
from proa.tensor.symbolic_dims import SymbolicDim

_NAMES = [
    f"{mode}_interp{version}"
    for mode in ("nearest", "linear", "bilinear", "trilinear", "bicubic")
    for version in ("", "_v2")
]


def _size(call: Call, rank: int, sizes: Any, each: list[Any]) -> list[Any] | None:
    """The new size, if the operator has that rather than a factor."""
    if each or sizes is not None:
        return call.numbers("", sizes, each)
    found = [call.get(name, -1) for name in ("out_d", "out_h", "out_w")][-rank:]
    return found if min(found) > 0 else None


@paddle_op(
    *_NAMES, inputs="X OutSize SizeTensor* Scale", host="OutSize SizeTensor Scale"
)
def interpolate(
    call: Call, x: Any, sizes: Any, each: list[Any], factor: Any = None
) -> Any:
    rank = x.ndim - 2
    mode, layout = call.op.split("_")[0], layout_of(call, rank, "data_layout")
    first = 2 if layout[1] == "C" else 1
    corners = call.flag("align_corners", True)
    align = call.get("align_mode", 1)
    old = not call.op.endswith("_v2")
    factors = (
        call.numbers("scale", factor)
        if not old
        else [call.number(factor, call.get("scale", 0.0))]
    )
    size = _size(call, rank, sizes, each)
    if (each or sizes is not None) or not factors or min(factors) <= 0:
        factors = []
    if not factors and size is None:
        raise call.refuse("neither size nor scale")
    if mode == "nearest" and corners:
        return _nearest_corners(call, x, size or [
            int(n * f) for n, f in zip(
                call.known(x.shape[first : first + rank]), factors * rank, strict=False
            )
        ], first)  # fmt: skip
    if factors and not old:
        factors = factors * rank if len(factors) == 1 else factors
        return F.interpolate(
            x, None, factors, mode, corners, 0 if mode == "nearest" else align, layout
        )
    if size is None:  # the factor gives the size alone, in operators of 1.x
        known = x.shape[first : first + rank]
        if any(type(n) is SymbolicDim for n in known) and factors[0] == int(factors[0]):
            size = [n * int(factors[0]) for n in known]
        else:
            size = [int(n * factors[0]) for n in call.known(known)]
    return F.interpolate(
        x, [int(n) if type(n) is not SymbolicDim else n for n in size], None, mode,
        corners, 0 if mode == "nearest" else align, layout,
    )  # fmt: skip


def _nearest_corners(call: Call, x: Any, size: list[Any], first: int) -> Any:
    """Element i of m is at round(i * (n - 1) / (m - 1)), halves rounded up."""
    for i, m in enumerate(call.known(size)):
        (n,) = call.known([x.shape[first + i]])
        ratio = (n - 1) / (m - 1) if m > 1 else 0.0
        at = np.floor(np.arange(m) * np.float32(ratio) + 0.5).astype(np.int64)
        x = proa.index_select(x, proa.to_tensor(at), first + i)
    return x


@paddle_op("grid_sampler", inputs="X Grid", outputs="Output")
def grid_sampler(call: Call, x: Any, grid: Any) -> Any:
    return F.grid_sample(
        x, grid, call.get("mode", "bilinear"), call.get("padding_mode", "zeros"),
        call.flag("align_corners", True),
    )  # fmt: skip


@paddle_op(
    "affine_grid", inputs="Theta OutputShape", outputs="Output", host="OutputShape"
)
def affine_grid(call: Call, theta: Any, shape: Any = None) -> Any:
    wanted = call.known(call.numbers("output_shape", shape))
    return F.affine_grid(theta, wanted, call.flag("align_corners", True))


@paddle_op("roi_align", inputs="X ROIs RoisNum")
def roi_align(call: Call, x: Any, rois: Any, counts: Any = None) -> Any:
    if counts is None:
        counts = proa.full([1], rois.shape[0], "int32")
    size = [call.get("pooled_height", 1), call.get("pooled_width", 1)]
    return proa.vision.ops.roi_align(
        x, rois, counts, size, call.get("spatial_scale", 1.0),
        call.get("sampling_ratio", -1), call.flag("aligned"),
    )  # fmt: skip


@paddle_op("roi_pool", inputs="X ROIs RoisNum", outputs="Out Argmax")
def roi_pool(call: Call, x: Any, rois: Any, counts: Any = None) -> Any:
    if counts is None:
        counts = proa.full([1], rois.shape[0], "int32")
    size = [call.get("pooled_height", 1), call.get("pooled_width", 1)]
    scale = call.get("spatial_scale", 1.0)
    found = proa.vision.ops.roi_pool(x, rois, counts, size, scale)
    if not call.wants(1):
        return found
    place = proa.vision.ops.roi_pooling.roi_places(x, rois, counts, size, scale)
    plane = call.known(x.shape[2:])
    within = place % (plane[0] * plane[1])
    return found, proa.where(place < 0, place, within)
