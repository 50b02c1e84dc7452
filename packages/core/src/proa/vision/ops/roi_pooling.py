"""Pooling of regions: every box of an image to a grid of one size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from proa._core import Tensor, ops
from proa.autograd import no_grad
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn.functional.geometry import per_axis, split_axis
from proa.nn.functional.vision import corners_of, iota, row_index
from proa.nn.layer import Layer
from proa.tensor.arguments import cast_if
from proa.tensor.creation import as_tensor
from proa.tensor.lod import LoDTensor

__all__ = [
    "PSRoIPool", "RoIAlign", "RoIPool", "prroi_pool", "psroi_pool", "roi_align",
    "roi_pool",
]  # fmt: skip


def _check_boxes(where: str, boxes: Tensor) -> None:
    if boxes.ndim != 2 or boxes.shape[1] not in (-1, 4):
        raise ShapeError(where, "boxes must have shape (R, 4)", boxes.shape)


def _image_of_each(where: str, boxes: Tensor, boxes_num: Tensor) -> Tensor:
    """The number of the image that each box belongs to, int64 (R,)."""
    _check_boxes(where, boxes)
    counts = ops.cast(ops.flatten(as_tensor(boxes_num)), dtype=as_dtype("int64"))
    ends = ops.cumsum(counts, axis=0)
    if not boxes._is_symbolic and not ends._is_symbolic:
        total = int(ends.numpy()[-1]) if ends.size else 0
        if total != boxes.shape[0]:
            raise InvalidArgumentError(
                f"[{where}] boxes_num must add up to the {boxes.shape[0]} boxes, "
                f"got {total}"
            )
    place = ops.unsqueeze(iota(boxes), axis=[1])
    return ops.sum(ops.cast(ops.greater_equal(place, ends), dtype=as_dtype("int64")),
                   axis=[1])  # fmt: skip


def _check(where: str, x: Tensor, output_size: Any) -> list[int]:
    if x.ndim != 4 or min(x.shape[1:]) < 1:
        raise ShapeError(where, "x must be (N, C, H, W) of known C, H, W", x.shape)
    return per_axis(where, output_size, 2, "output_size")


def _edges(boxes: Tensor) -> list[Tensor]:
    """x1, y1, x2, y2, each (R,)."""
    return [ops.select(boxes, axis=1, index=i) for i in range(4)]


def _line(values: Sequence[int], like: Tensor) -> Tensor:
    """Consecutive numbers in the dtype of ``like``."""
    return ops.arange(start=values[0], step=1, count=len(values), dtype=like.dtype)


def _points(
    low: Tensor, length: Tensor, bins: int, samples: int, limit: int
) -> tuple[Tensor, Tensor]:
    """Coordinates of the points in each bin of each box, and each point's weight.

    Args:
        low: (R,), where the boxes begin; ``length`` their length.
        length: (R,).
        bins: Bins of a box.
        samples: Points of a bin; 0: as many as it has pixels, rounded up.
        limit: Pixels of the image.

    Returns:
        Both (R, bins, points).
    """
    width = ops.unsqueeze(ops.scale(length, scale=1.0 / bins), axis=[1, 2])
    max_samples, count = samples, None
    if samples <= 0:
        count = ops.maximum(ops.ceil(width), 1.0)
        if count._is_symbolic:
            max_samples = -(-limit // bins) + 1
        else:
            found = float(ops.max(count).item()) if count.size else 1.0
            if not math.isfinite(found):
                raise InvalidArgumentError(
                    f"[roi_align] boxes must be finite, got a bin of {found} pixels"
                )
            max_samples = int(found)
    point = _line(range(max_samples), low)
    share = ops.div(
        ops.add(point, 0.5), count if count is not None else float(max_samples)
    )
    place = ops.mul(
        ops.add(ops.unsqueeze(_line(range(bins), low), axis=[1]), share), width
    )
    at = ops.add(ops.unsqueeze(low, axis=[1, 2]), place)
    if count is None:
        weight = ops.scale(ops.mul(at, 0.0), bias=1.0 / max_samples)
    else:
        used = ops.cast_like(ops.less_than(point, count), low)
        weight = ops.add(ops.div(used, count), ops.mul(at, 0.0))
    inside = ops.logical_and(
        ops.greater_equal(at, -1.0), ops.less_equal(at, float(limit))
    )
    weight = ops.where(inside, weight, 0.0)
    return ops.clip(at, min=0.0, max=limit - 1.0), weight


def roi_align(
    x: Tensor,
    boxes: Tensor,
    boxes_num: Tensor,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = True,
    name: str | None = None,
) -> Tensor:
    """Means of x, read between its pixels, over the bins of boxes.

    Args:
        x: (N, C, H, W), floating.
        boxes: (R, 4): x1, y1, x2, y2; those of the first image first. No gradient.
        boxes_num: (N,), the number of boxes of each image.
        output_size: Bins of a box, one number or (height, width).
        spatial_scale: Pixels of x for one unit of the boxes.
        sampling_ratio: Points of a bin along an axis; <= 0: its pixels, rounded up (in
            a recorded graph for boxes no larger than the image).
        aligned: Whether boxes are moved by half a pixel, as pixels' middles are there.

    Returns:
        (R, C, height, width).

    Raises:
        ShapeError: If x or boxes are not as described.
        InvalidArgumentError: If boxes_num does not add up to R.

    Source: He et al., Mask R-CNN, 2017.
    """
    size = _check("roi_align", x, output_size)
    with no_grad():
        image = _image_of_each("roi_align", boxes, boxes_num)
        wide = boxes if boxes.dtype == "float64" else cast_if(boxes, "float32")
        shift = -0.5 if aligned else 0.0
        x1, y1, x2, y2 = (
            ops.scale(e, scale=float(spatial_scale), bias=shift) for e in _edges(wide)
        )
        tall, long = ops.sub(y2, y1), ops.sub(x2, x1)
        if not aligned:
            tall, long = ops.maximum(tall, 1.0), ops.maximum(long, 1.0)
        down, down_weight = _points(y1, tall, size[0], sampling_ratio, x.shape[2])
        along, along_weight = _points(x1, long, size[1], sampling_ratio, x.shape[3])
        rows, cols = [2, 4], [1, 3]  # R, height, width, points down, points along
        index, weight = corners_of(
            [ops.unsqueeze(down, axis=rows), ops.unsqueeze(along, axis=cols)],
            x.shape[2:], ops.unsqueeze(image, axis=[1, 2, 3, 4]),
        )  # fmt: skip
        share = ops.mul(
            ops.unsqueeze(down_weight, axis=rows),
            ops.unsqueeze(along_weight, axis=cols),
        )
        weight = ops.mul(weight, ops.unsqueeze(share, axis=[-1]))
        index, weight = (
            ops.flatten(ops.flatten(t, start_axis=3, stop_axis=5), 0, 2)
            for t in (index, weight)
        )
    y = ops.blend_rows(row_index(x), index, cast_if(weight, x.dtype))
    return _grid(y, size)


def _grid(y: Tensor, size: list[int]) -> Tensor:
    """(R * height * width, C) -> (R, C, height, width)."""
    y = split_axis(split_axis(y, 0, [-1, size[1]]), 0, [-1, size[0]])
    return ops.transpose(y, perm=[0, 3, 1, 2])


def roi_pool(
    x: Tensor,
    boxes: Tensor,
    boxes_num: Tensor,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """The greatest element of each bin of boxes, which are rounded to whole pixels.

    Arguments are those of `roi_align`. A bin without pixels gives 0.

    Source: Girshick, Fast R-CNN, 2015.
    """
    size = _check("roi_pool", x, output_size)
    with no_grad():
        place = roi_places(x, boxes, boxes_num, size, spatial_scale)
        index = ops.unsqueeze(ops.flatten(place), axis=[1])
        ones = ops.full_like(index, value=1, dtype=x.dtype)
    y = ops.blend_rows(ops.unsqueeze(ops.flatten(x), axis=[1]), index, ones)
    return ops.reshape_like(y, place)


def roi_places(
    x: Tensor, boxes: Tensor, boxes_num: Tensor, size: list[int], scale: float
) -> Tensor:
    """Where in x the elements are that `roi_pool` takes, counted in row-major order; -1
    for a bin without pixels.
    """
    image = _image_of_each("roi_pool", boxes, boxes_num)
    wide = cast_if(boxes, x.dtype)
    return ops.roi_max_index(x, wide, image, size=size, scale=float(scale))


def psroi_pool(
    x: Tensor,
    boxes: Tensor,
    boxes_num: Tensor,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Means over the bins of boxes, every bin from channels of its own.

    Bin (i, j) of channel c is the mean of x's channel (c * height + i) * width + j.
    Sums are taken in float64 from a table of sums. Arguments are those of `roi_align`.

    Returns:
        (R, C / (height * width), height, width).

    Raises:
        ShapeError: If height * width does not divide the channels.

    Source: Dai et al., R-FCN, 2016.
    """
    size = _check("psroi_pool", x, output_size)
    channels, area = x.shape[1], size[0] * size[1]
    if channels % area:
        raise ShapeError("psroi_pool", f"{area} must divide the channels", x.shape)
    tall, wide = x.shape[2] + 1, x.shape[3] + 1
    with no_grad():
        image = _image_of_each("psroi_pool", boxes, boxes_num)
        low, high = [], []
        x1, y1, x2, y2 = _edges(ops.cast(boxes, dtype=as_dtype("float64")))
        for begin, end, bins, limit in [
            (y1, y2, size[0], tall),
            (x1, x2, size[1], wide),
        ]:
            first = ops.scale(_rounded(begin), scale=float(spatial_scale))
            last = ops.scale(ops.add(_rounded(end), 1.0), scale=float(spatial_scale))
            bin_ = ops.scale(ops.maximum(ops.sub(last, first), 0.1), scale=1.0 / bins)
            places = ops.unsqueeze(_line(range(bins + 1), begin), axis=[0])
            cuts = ops.add(
                ops.mul(places, ops.unsqueeze(bin_, axis=[1])),
                ops.unsqueeze(first, axis=[1]),
            )
            until = ops.slice(cuts, axes=[1], starts=[1], ends=[bins + 1], steps=[1])
            since = ops.slice(cuts, axes=[1], starts=[0], ends=[bins], steps=[1])
            low.append(ops.clip(ops.floor(since), min=0.0, max=limit - 1.0))
            high.append(ops.clip(ops.ceil(until), min=0.0, max=limit - 1.0))
        index, weight = _table_corners(
            [ops.unsqueeze(low[0], axis=[1, 3]), ops.unsqueeze(low[1], axis=[1, 2])],
            [ops.unsqueeze(high[0], axis=[1, 3]), ops.unsqueeze(high[1], axis=[1, 2])],
            ops.unsqueeze(image, axis=[1, 2, 3]), channels, size, [tall, wide],
        )  # fmt: skip
    sums = ops.cast(x, dtype=as_dtype("float64"))
    sums = ops.cumsum(ops.cumsum(sums, axis=2), axis=3)
    table = ops.pad(sums, low=[0, 0, 1, 1], high=[0, 0, 0, 0])
    y = ops.blend_rows(
        ops.unsqueeze(ops.flatten(table), axis=[1]),
        ops.flatten(index, start_axis=0, stop_axis=3),
        ops.flatten(weight, start_axis=0, stop_axis=3),
    )
    y = split_axis(
        split_axis(ops.squeeze(y, axis=[1]), 0, [-1, size[1]]), 0, [-1, size[0]]
    )
    return cast_if(split_axis(y, 0, [-1, channels // area]), x.dtype)


def _rounded(x: Tensor) -> Tensor:
    """To the nearest integer, halves away from 0."""
    return ops.mul(ops.sign(x), ops.floor(ops.add(ops.abs(x), 0.5)))


def _table_corners(
    low: list[Tensor],
    high: list[Tensor],
    image: Tensor,
    channels: int,
    size: list[int],
    table: list[int],
) -> tuple[Tensor, Tensor]:
    """The four entries of a table of sums that make the mean of each bin.

    Places are (R, 1, height, 1) and (R, 1, 1, width); the result is
    (R, channels, height, width, 4).
    """
    whole = as_dtype("int64")
    own = ops.arange(start=0, step=1, count=channels, dtype=whole)
    own = ops.reshape(own, shape=[1, -1, *size])
    plane = ops.add(ops.mul(image, channels), own)
    count = ops.mul(ops.sub(high[0], low[0]), ops.sub(high[1], low[1]))
    empty = ops.less_equal(count, 0.0)
    share = ops.where(empty, 0.0, ops.reciprocal(ops.maximum(count, 1.0)))
    blank = ops.cast(ops.mul(plane, 0), dtype=as_dtype("float64"))
    share = ops.add(share, blank)
    indices, weights = [], []
    for y, x, sign in [(high[0], high[1], 1.0), (low[0], high[1], -1.0),
                       (high[0], low[1], -1.0), (low[0], low[1], 1.0)]:  # fmt: skip
        row = ops.add(ops.mul(plane, table[0]), ops.cast(y, dtype=whole))
        indices.append(ops.add(ops.mul(row, table[1]), ops.cast(x, dtype=whole)))
        weights.append(ops.scale(share, scale=sign))
    return ops.stack(*indices, axis=-1), ops.stack(*weights, axis=-1)


def prroi_pool(
    x: Tensor,
    boxes: Tensor | Sequence[Tensor],
    boxes_num: Tensor | None = None,
    output_size: int | Sequence[int] = 1,
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Exact means of x, taken as bilinear between its pixels, over the bins of boxes.

    The integral of a bilinear surface over a box is a sum of pixels, each weighted by
    the integrals of its two hat functions; there are also gradients for the boxes.

    Args:
        x: (N, C, H, W), floating.
        boxes: (R, 4) with boxes_num, or a list with the boxes of each image, or a
            LoDTensor whose sequences are the images'.
        boxes_num: (N,), the number of boxes of each image.
        output_size: Bins of a box, one number or (height, width).
        spatial_scale: Pixels of x for one unit of the boxes.

    Returns:
        (R, C, height, width).

    Source: Jiang et al., Acquisition of localization confidence, 2018.
    """
    size = _check("prroi_pool", x, output_size)
    if not isinstance(boxes, Tensor):
        for one in boxes:
            _check_boxes("prroi_pool", one)
        boxes_num = as_tensor([one.shape[0] for one in boxes])
        boxes = ops.concat(*boxes, axis=0)
    elif boxes_num is None and isinstance(boxes, LoDTensor):
        boxes_num = as_tensor(boxes.recursive_sequence_lengths()[-1])
    if boxes_num is None:
        raise InvalidArgumentError(
            "[prroi_pool] expected boxes_num with boxes in one Tensor, got None"
        )
    with no_grad():
        image = _image_of_each("prroi_pool", boxes, boxes_num)
    x1, y1, x2, y2 = (
        ops.scale(e, scale=float(spatial_scale))
        for e in _edges(cast_if(boxes, x.dtype))
    )
    down = _hat_integrals(y1, y2, size[0], x.shape[2])
    along = _hat_integrals(x1, x2, size[1], x.shape[3])
    each = ops.gather(x, image, axis=0)  # (R, C, H, W)
    y = ops.matmul(ops.unsqueeze(down, axis=[1]), each)
    return ops.matmul(y, ops.swap_last(ops.unsqueeze(along, axis=[1])))


def _hat_integrals(low: Tensor, high: Tensor, bins: int, pixels: int) -> Tensor:
    """(R, bins, pixels): mean over each bin of the hat function of each pixel."""
    width = ops.unsqueeze(
        ops.scale(ops.maximum(ops.sub(high, low), 0.0), scale=1.0 / bins), axis=[1, 2]
    )
    cuts = ops.mul(ops.unsqueeze(_line(range(bins + 1), low), axis=[1]), width)
    cuts = ops.add(cuts, ops.unsqueeze(low, axis=[1, 2]))
    # Integral of max(0, 1 - |t|) up to s in [-1, 1]: 1/2 + s - s |s| / 2.
    s = ops.clip(ops.sub(cuts, _line(range(pixels), low)), min=-1.0, max=1.0)
    up_to = ops.sub(s, ops.scale(ops.mul(s, ops.abs(s)), scale=0.5))
    last = ops.slice(up_to, axes=[1], starts=[1], ends=[bins + 1], steps=[1])
    first = ops.slice(up_to, axes=[1], starts=[0], ends=[bins], steps=[1])
    empty = ops.less_equal(width, 0.0)
    share = ops.div(ops.sub(last, first), ops.where(empty, 1.0, width))
    return ops.where(empty, 0.0, share)


class _Pool(Layer):
    def __init__(
        self, output_size: int | Sequence[int], spatial_scale: float = 1.0
    ) -> None:
        super().__init__()
        self._output_size, self._spatial_scale = output_size, spatial_scale

    def extra_repr(self) -> str:
        return f"output_size={self._output_size}, spatial_scale={self._spatial_scale}"


class RoIAlign(_Pool):
    """Means of x over the bins of boxes; see `roi_align`."""

    def forward(
        self, x: Tensor, boxes: Tensor, boxes_num: Tensor, aligned: bool = True
    ) -> Tensor:
        return roi_align(
            x, boxes, boxes_num, self._output_size, self._spatial_scale,
            aligned=aligned,
        )  # fmt: skip


class RoIPool(_Pool):
    """The greatest elements of the bins of boxes; see `roi_pool`."""

    def forward(self, x: Tensor, boxes: Tensor, boxes_num: Tensor) -> Tensor:
        return roi_pool(x, boxes, boxes_num, self._output_size, self._spatial_scale)


class PSRoIPool(_Pool):
    """Means over bins from channels of their own; see `psroi_pool`."""

    def forward(self, x: Tensor, boxes: Tensor, boxes_num: Tensor) -> Tensor:
        return psroi_pool(x, boxes, boxes_num, self._output_size, self._spatial_scale)
