"""Rows that resample along an axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.standard import slice_
from proa.interop.onnx.exporter.table import export_row
from proa.ir.program import Array


@dataclass(frozen=True)
class _Resampling:
    """The attributes of a `resize_axis`."""

    size: int
    scale: float
    mode: str
    corners: bool
    half: bool

    def count(self, n: int) -> int:
        """How many elements n become."""
        return self.size or math.floor(n * self.scale)

    def places(self, n: int) -> Array:
        """Where the elements of the result are between those of the array."""
        count = self.count(n)
        ratio = 1.0 / self.scale if self.scale else n / max(count, 1)
        if self.corners:
            ratio = (n - 1) / max(count - 1, 1)
        if count <= 1:
            ratio = 0.0
        at = ratio * np.arange(count)
        if self.centred:
            at = at + 0.5 * ratio - 0.5
        return at

    @property
    def centred(self) -> bool:
        """Whether elements are the middles of intervals."""
        if self.corners or self.mode == "nearest":
            return False
        return self.half or self.mode == "cubic"

    @property
    def coordinates(self) -> str:
        """The standard's name of how places follow."""
        if self.corners:
            return "align_corners"
        return "pytorch_half_pixel" if self.centred else "asymmetric"


def _weights(how: _Resampling, n: int) -> Array:
    """(n, count): how much each element of the array adds to one of the result."""
    places = how.places(n)
    matrix = np.zeros((n, len(places)))
    if how.mode == "linear":
        places = np.clip(places, 0, n - 1)
        distance = np.abs(places - np.arange(n)[:, None])
        return np.maximum(1.0 - distance, 0.0)
    low = np.floor(places)
    for k in (-1, 0, 1, 2):
        at = np.clip(low + k, 0, n - 1).astype(int)
        np.add.at(matrix, (at, np.arange(len(places))), _cubic(places - low - k))
    return matrix


def _cubic(d: Array) -> Array:
    """Keys's kernel with a = -0.75."""
    a, d = -0.75, np.abs(d)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    outer = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, outer, 0.0))


def _by_index(c: Call, x: Ref, axis: int, how: _Resampling, n: int) -> Ref:
    """Resize to a known size by a selection, or a product with the weights."""
    if how.mode == "nearest":
        places = how.places(n).astype(np.float32) + (0.5 if how.corners else 0.0)
        index = np.clip(np.floor(places), 0, n - 1).astype(int)
        return c.op("Gather", x, c.const(index, "int64"), axis=axis)
    weights = c.cast(c.const(_weights(how, n), "float64"), x.dtype)
    if axis == x.rank - 1:
        return c.op("MatMul", x, weights)
    perm = list(range(x.rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    last = c.op("MatMul", c.op("Transpose", x, perm=perm), weights)
    return c.op("Transpose", last, perm=perm)


def _resized(c: Call, x: Ref, scales: list[float], sizes: Ref | None, how: _Resampling
             ) -> Ref:  # fmt: skip
    none = c.const(np.zeros(0), "float32")
    region = none if c.opset < 13 else None
    factors = c.const(scales, "float32") if sizes is None else None
    if factors is None and c.opset < 13:
        factors = none
    attrs: dict[str, Any] = {}
    if how.mode == "nearest":
        attrs["nearest_mode"] = "round_prefer_ceil" if how.corners else "floor"
    return c.op(
        "Resize", x, region, factors, sizes, mode=how.mode,
        coordinate_transformation_mode=how.coordinates, **attrs,
    )  # fmt: skip


def _by_upsampling(c: Call, x: Ref, axis: int, how: _Resampling) -> Ref:
    """What opsets 9 and 10 have."""
    plain = how.mode == "nearest" and not how.corners
    if not plain or not how.scale or (how.scale < 1 and c.opset < 10):
        c.refuse("resampling along a symbolic dimension needs opset 11")
    scales = c.const(
        [how.scale if i == axis else 1.0 for i in range(x.rank)], "float32"
    )
    return c.op("Upsample" if c.opset < 10 else "Resize", x, scales, mode="nearest")


def _in_planes(c: Call, x: Ref, axis: int) -> tuple[Ref, bool]:
    """x with the axis as the third of four, and whether it had to be reshaped."""
    if x.rank == 4 and axis in (2, 3):
        return x, False
    before = c.product([c.size(x, i) for i in range(axis)])
    after = c.product([c.size(x, i) for i in range(axis + 1, x.rank)])
    sizes = [before, 1, c.size(x, axis), after]
    return c.op("Reshape", x, c.vector(sizes)), True


@export_row("resize_axis")
def resize_axis(c: Call, x: Ref, *, axis: int, **attrs: Any) -> Ref:
    how, axis = _Resampling(**attrs), axis % x.rank
    n = c.size(x, axis)
    if isinstance(n, int):
        count = how.count(n)
        exact = how.scale == 0 or count == how.scale * n
        plain = exact and count > 1 and 0 not in (x.shape or ())
        if c.opset < 11 or not plain or x.dtype == "float64":
            return _by_index(c, x, axis, how, n)
    elif c.opset < 11:
        return _by_upsampling(c, x, axis, how)
    planes, flat = _in_planes(c, x, axis)
    at = 2 if flat else axis
    if how.scale:
        scales = [how.scale if i == at else 1.0 for i in range(4)]
        y = _resized(c, planes, scales, None, how)
    else:
        shape = c.op("Shape", planes)
        parts = [slice_(c, shape, [0], [0], [at]), c.ints([how.size])]
        if at < 3:
            parts.append(slice_(c, shape, [0], [at + 1], [4]))
        y = _resized(c, planes, [], c.op("Concat", *parts, axis=0), how)
    if not flat:
        return y
    sizes: list[int | Ref] = [c.size(x, i) for i in range(x.rank)]
    known = c.outputs[0].shape[axis]
    sizes[axis] = known if known >= 0 else -1
    return c.op("Reshape", y, c.vector(sizes))
