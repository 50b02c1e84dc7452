"""Resizing, sampling at places, and regions of interest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import proa
import proa.nn.functional as F
from proa._core import ops
from proa.interop.graph.values import Array
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.table import onnx_op
from proa.nn.functional.symbolic_resizing import resized
from proa.tensor.symbolic_dims import SymbolicDim, same_size


@onnx_op("Upsample")
def upsample_attribute(call: Call, x: Any) -> Any:
    return _resize(call, x, call.get("scales"), None, None, "asymmetric")


@onnx_op("Upsample", since=9, host=(1,))
def upsample(call: Call, x: Any, scales: Any) -> Any:
    return _resize(call, x, call.ints(scales), None, None, "asymmetric")


@onnx_op("Resize", since=10, host=(1,))
def resize_scales(call: Call, x: Any, scales: Any) -> Any:
    return _resize(call, x, call.ints(scales), None, None, "asymmetric")


@onnx_op("Resize", since=11, host=(1, 2, 3))
def resize(
    call: Call, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None
) -> Any:
    where = call.get("coordinate_transformation_mode", "half_pixel")
    return _resize(call, x, call.ints(scales), call.ints(sizes), call.ints(roi), where)


def _resize(call: Call, x: Any, scales: Any, sizes: Any, roi: Any, where: str) -> Any:
    axes = [a % x.ndim for a in call.get("axes", range(x.ndim))]
    if sizes:
        sizes, scales = _with_aspect_ratio(call, x, axes, sizes)
    for i, axis in enumerate(axes):
        n = x.shape[axis]
        size = sizes[i] if sizes else None
        scale = scales[i] if scales else None
        same = scale in (None, 1.0) and (size is None or same_size(size, n))
        if same and where != "tf_crop_and_resize":
            continue
        region = (roi[i], roi[i + len(axes)]) if roi else (0.0, 1.0)
        x = _along_axis(call, x, axis, size, scale, where, region)
    return x


def _with_aspect_ratio(call: Call, x: Any, axes: list[int], sizes: Any) -> Any:
    policy = call.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return sizes, None
    call.known(x.shape)
    ratios = [size / x.shape[axis] for size, axis in zip(sizes, axes, strict=True)]
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    sizes = [math.floor(ratio * x.shape[axis] + 0.5) for axis in axes]
    return sizes, [ratio] * len(axes)


#: (mode, coordinates, rounding) that `ops.resize_axis` has.
_KERNELS: dict[tuple[str, str, str], dict[str, Any]] = {
    ("nearest", "asymmetric", "floor"): {"mode": "nearest"},
    ("linear", "half_pixel", ""): {"mode": "linear", "half": True},
    ("linear", "asymmetric", ""): {"mode": "linear", "half": False},
    ("linear", "pytorch_half_pixel", ""): {"mode": "linear", "half": True},
    ("linear", "align_corners", ""): {"mode": "linear", "corners": True},
}


def _along_axis(
    call: Call, x: Any, axis: int, size: Any, scale: Any, where: str, roi: Any
) -> Any:
    mode = call.get("mode", "nearest")
    n = x.shape[axis]
    rounding = call.get(
        "nearest_mode", "round_prefer_floor" if call.opset > 10 else "floor"
    )
    kernel = _KERNELS.get((mode, where, rounding if mode == "nearest" else ""))
    is_symbolic = type(n) is SymbolicDim or type(size) is SymbolicDim
    if type(size) is not SymbolicDim and (size is not None or not is_symbolic):
        count = math.floor(n * scale) if size is None else size
        if count == 1 and where == "half_pixel":
            kernel = None  # it takes the first element of all
    if kernel is not None and not call.get("antialias", 0):
        by_scale = size is None and (where != "align_corners" or scale == int(scale))
        if by_scale:
            return ops.resize_axis(x, axis=axis, size=0, scale=scale, **kernel)
        if size is not None and scale is None:
            return resized(x, axis, size, **kernel)
    if is_symbolic:
        raise call.refuse(f"a symbolic dimension and {mode}, {where}, {rounding}")
    ratio = count / n if scale is None else scale
    at = _places(n, count, ratio, where, roi)
    outside = (at < 0) | (at > n - 1) if where == "tf_crop_and_resize" else None
    if mode == "nearest":
        index = np.clip(_rounded(at, rounding), 0, n - 1).astype(np.int64)
        found = proa.index_select(x, proa.to_tensor(index), axis)
    else:
        weights = _weights(call, at, n, ratio, mode)
        moved = [i for i in range(x.ndim) if i != axis] + [axis]
        matrix = proa.to_tensor(weights.T.astype(x.dtype.name).copy())
        back = list(range(x.ndim - 1))
        back.insert(axis, x.ndim - 1)
        found = proa.transpose(proa.matmul(proa.transpose(x, moved), matrix), back)
    if outside is not None and outside.any():
        shape = [1] * x.ndim
        shape[axis] = -1
        value = proa.full_like(found, call.get("extrapolation_value", 0.0))
        found = proa.where(proa.to_tensor(outside.reshape(shape)), value, found)
    return found


def _places(n: int, count: int, scale: float, where: str, roi: Any) -> Array:
    """Where the elements of the result are among those of x."""
    i = np.arange(count, dtype=np.float64)
    if where == "align_corners":
        return i * (n - 1) / (n * scale - 1) if n * scale != 1 else i * 0.0
    if where == "asymmetric":
        return i / scale
    if where == "pytorch_half_pixel" and count <= 1:
        return i * 0.0
    if where == "half_pixel_symmetric":
        shift = n / 2 * (1 - count / (scale * n))
        return shift + (i + 0.5) / scale - 0.5
    if where == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    if where == "tf_crop_and_resize":
        start, end = (float(edge) * (n - 1) for edge in roi)
        if count <= 1:
            return i * 0.0 + 0.5 * (start + end)
        return start + i * (end - start) / (count - 1)
    return (i + 0.5) / scale - 0.5


def _rounded(at: Array, rounding: str) -> Array:
    functions: dict[str, Any] = {
        "floor": lambda: np.floor(at),
        "ceil": lambda: np.ceil(at),
        "round_prefer_ceil": lambda: np.floor(at + 0.5),
        "round_prefer_floor": lambda: np.ceil(at - 0.5),
    }
    found: Array = functions[rounding]()
    return found


def _hat(d: Array) -> Array:
    found: Array = np.maximum(1 - np.abs(d), 0)
    return found


def _cubic(d: Array, a: float) -> Array:
    d = np.abs(d)
    inner = (a + 2) * d**3 - (a + 3) * d**2 + 1
    outer = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, inner, np.where(d < 2, outer, 0.0))


def _weights(call: Call, at: Array, n: int, ratio: float, mode: str) -> Array:
    """(count, n): what of each element goes into each of the result."""
    factor = min(ratio, 1.0) if call.get("antialias", 0) else 1.0
    reach = math.ceil((1 if mode == "linear" else 2) / factor) + 1
    a = call.get("cubic_coeff_a", -0.75)
    found = np.zeros((len(at), n))
    for row, place in enumerate(at):
        taps = np.arange(math.floor(place) - reach, math.floor(place) + reach + 2)
        d = (taps - place) * factor
        w = _hat(d) if mode == "linear" else _cubic(d, a)
        inside = (taps >= 0) & (taps < n)
        if call.get("exclude_outside", 0) or call.get("antialias", 0):
            w = np.where(inside, w, 0.0) if call.get("exclude_outside", 0) else w
            w = w / w.sum()
        np.add.at(found[row], np.clip(taps, 0, n - 1), w)
    return found


@onnx_op("AffineGrid", host=(1,))
def affine_grid(call: Call, theta: Any, size: Any) -> Any:
    wanted = call.ints(size) or []
    corners = bool(call.get("align_corners", 0))
    if len(wanted) == 4:
        return F.affine_grid(theta, wanted, corners)
    ends = [1.0 if corners else 1.0 - 1.0 / n for n in wanted[2:]]
    lines = [np.linspace(-e, e, n) for e, n in zip(ends, wanted[2:], strict=True)]
    # (x, y, z, 1) of each place, the last axis of the array being x
    places = np.meshgrid(*lines, indexing="ij")[::-1]
    flat = np.stack([*places, np.ones(wanted[2:])], -1).reshape(-1, len(wanted) - 1)
    found = proa.matmul(
        proa.to_tensor(flat.astype(theta.dtype.name)), proa.transpose(theta, [0, 2, 1])
    )
    return proa.reshape(found, [theta.shape[0], *wanted[2:], len(wanted) - 2])


@onnx_op("RoiAlign")
def roi_align(call: Call, x: Any, rois: Any, images: Any) -> Any:
    usual = "half_pixel" if call.opset >= 16 else "output_half_pixel"
    half = call.get("coordinate_transformation_mode", usual)
    if call.get("mode", "avg") != "avg":
        raise call.refuse("mode max")
    image = call.host(images)
    order = np.argsort(image, kind="stable")
    counts = np.bincount(image, minlength=x.shape[0]).astype(np.int32)
    sorted_rois = proa.index_select(rois, proa.to_tensor(order.astype(np.int64)), 0)
    size = [call.get("output_height", 1), call.get("output_width", 1)]
    found = proa.vision.ops.roi_align(
        x, sorted_rois, proa.to_tensor(counts), size, call.get("spatial_scale", 1.0),
        call.get("sampling_ratio", 0) or -1, half == "half_pixel",
    )  # fmt: skip
    back = np.argsort(order).astype(np.int64)
    return proa.index_select(found, proa.to_tensor(back), 0)
