"""Proposals of a region network, and their distribution to the levels of a pyramid.
How many there are depends on values: in a recorded graph those numbers are symbolic
dimensions.
"""

from __future__ import annotations

import math

from proa._core import Tensor, ops
from proa.autograd import no_grad
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn.functional.vision import iota
from proa.nn.nms import (
    box_area,
    corners,
    descending_order,
    first_entries,
    true_indices,
    widened,
)
from proa.tensor.arguments import cast_if

__all__ = ["distribute_fpn_proposals", "generate_proposals"]


def _moved(anchors: Tensor, deltas: Tensor, variances: Tensor, extra: float) -> Tensor:
    """Anchors (.., 4) moved and stretched by deltas * variances."""
    low, high = corners(anchors)
    size = ops.add(ops.sub(high, low), extra)
    shift, log_scale = corners(ops.mul(deltas, variances))
    middle = ops.add(ops.add(low, ops.mul(size, 0.5)), ops.mul(shift, size))
    log_scale = ops.minimum(log_scale, math.log(1000.0 / 16))
    half = ops.mul(ops.mul(ops.exp(log_scale), size), 0.5)
    last = ops.sub(ops.add(middle, half), extra)
    return ops.concat(ops.sub(middle, half), last, axis=anchors.ndim - 1)


def generate_proposals(
    scores: Tensor,
    bbox_deltas: Tensor,
    img_size: Tensor,
    anchors: Tensor,
    variances: Tensor,
    pre_nms_top_n: int = 6000,
    post_nms_top_n: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
    pixel_offset: bool = False,
    return_rois_num: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The best boxes that a region proposal network predicts.

    Args:
        scores: (N, A, H, W), of an object at each anchor.
        bbox_deltas: (N, 4 * A, H, W): shift of the centre in anchor sizes, log of the
            factors of width and height.
        img_size: (N, 2): height and width.
        anchors: (H, W, A, 4): x1, y1, x2, y2.
        variances: (H, W, A, 4), what deltas are multiplied by.
        pre_nms_top_n: How many are considered.
        post_nms_top_n: How many are kept, of each image.
        nms_thresh: Boxes that overlap with a better one by more are dropped.
        min_size: The least width and height, at least 1.
        eta: By what the threshold, while over 0.5, falls with each box kept.
        pixel_offset: Whether the last pixel belongs to a box.
        return_rois_num: Also give the number of boxes of each image.

    Returns:
        (R, 4), their scores (R, 1), and the counts (N,) int32 or None. An image
        without a box of that size gives one of zeros.

    Raises:
        ShapeError: If the shapes do not fit.

    Source: Ren et al., Faster R-CNN, 2015.
    """
    fits = scores.ndim == bbox_deltas.ndim == 4 and min(scores.shape[1:]) >= 1
    if not fits or bbox_deltas.shape[1:] != [
        4 * scores.shape[1], *scores.shape[2:],
    ]:  # fmt: skip
        must = "scores must be (N, A, H, W) and bbox_deltas (N, 4 * A, H, W)"
        raise ShapeError("generate_proposals", must, [scores.shape, bbox_deltas.shape])
    extra = 1.0 if pixel_offset else 0.0
    with no_grad():
        points, moves = _by_anchor(scores, bbox_deltas)
        best = descending_order(points)
        if pre_nms_top_n > 0:
            best = first_entries(best, pre_nms_top_n, axis=1)
        points = ops.take_along_axis(points, best, axis=1)
        moves = ops.take_along_axis(moves, ops.unsqueeze(best, axis=[2]), axis=1)
        own, scale = (
            ops.gather(ops.reshape(a, shape=[-1, 4]), best, axis=0)
            for a in (anchors, variances)
        )
        boxes = _moved(own, moves, scale, extra)
        boxes, fits_size = _within(boxes, img_size, max(min_size, 1.0), pixel_offset)
        selected = fits_size
        if nms_thresh > 0:
            lists = widened(boxes, extra)
            selected = ops.box_suppress(
                lists, selected, threshold=float(nms_thresh), eta=float(eta)
            )
            if post_nms_top_n > 0:
                rank = ops.cumsum(ops.cast(selected, dtype="int64"), axis=1)
                is_best = ops.less_equal(rank, post_nms_top_n)
                selected = ops.logical_and(selected, is_best)
        # An image without a box has one of zeros, at index 0.
        some = ops.any(fits_size, axis=[1], keepdim=True)
        first = ops.equal(ops.unsqueeze(iota(points, 1), axis=[0]), 0)
        lone = ops.logical_and(first, ops.logical_not(some))
        selected = ops.logical_or(selected, lone)
        points = ops.where(some, points, 0.0)
        boxes = ops.where(ops.unsqueeze(some, axis=[2]), boxes, 0.0)
        rows = true_indices(ops.flatten(selected))
        flat = ops.flatten(boxes, start_axis=0, stop_axis=1)
        counts = ops.sum(ops.cast(selected, dtype="int64"), axis=[1])
        return (
            cast_if(ops.gather(flat, rows, axis=0), scores.dtype),
            ops.unsqueeze(ops.gather(ops.flatten(points), rows, axis=0), axis=[1]),
            ops.cast(counts, dtype="int32") if return_rois_num else None,
        )


def _by_anchor(scores: Tensor, deltas: Tensor) -> tuple[Tensor, Tensor]:
    """(N, H * W * A) and (N, H * W * A, 4)."""
    points = ops.transpose(scores, perm=[0, 2, 3, 1])
    points = ops.flatten(points, start_axis=1, stop_axis=3)
    moves = ops.reshape(deltas, shape=[0, -1, 4, *scores.shape[2:]])
    moves = ops.transpose(moves, perm=[0, 3, 4, 1, 2])
    return points, ops.flatten(moves, start_axis=1, stop_axis=3)


def _within(
    boxes: Tensor, size: Tensor, smallest: float, pixel_offset: bool
) -> tuple[Tensor, Tensor]:
    """Boxes (N, k, 4) cut to images of a size (N, 2), and which of them are as wide and
    as high as the smallest.
    """
    extra = 1.0 if pixel_offset else 0.0
    height, width = (
        ops.unsqueeze(ops.select(cast_if(size, boxes.dtype), axis=1, index=i), axis=[1])
        for i in range(2)
    )
    whole = ops.unsqueeze(ops.concat(width, height, axis=1), axis=[1])  # (N, 1, 2)
    limit = ops.sub(whole, extra)
    low, high = (ops.minimum(ops.maximum(end, 0.0), limit) for end in corners(boxes))
    sides = ops.add(ops.sub(high, low), extra)
    fits = ops.greater_equal(sides, smallest)
    if pixel_offset:
        middle = ops.add(low, ops.mul(sides, 0.5))
        fits = ops.logical_and(fits, ops.less_equal(middle, whole))
    return ops.concat(low, high, axis=2), ops.all(fits, axis=[2])


#: More than log2 of any ratio of float64 sizes.
_MAX_LEVELS = 4096


def distribute_fpn_proposals(
    fpn_rois: Tensor,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool = False,
    rois_num: Tensor | None = None,
    name: str | None = None,
) -> tuple[list[Tensor], Tensor, list[Tensor] | None]:
    """Boxes shared out to the levels of a feature pyramid by their size.

    level = floor(refer_level + log2(sqrt(area) / refer_scale)), within the levels.

    Args:
        fpn_rois: (R, 4): x1, y1, x2, y2, those of the first image first.
        min_level: The lowest level; ``max_level`` the highest.
        max_level: The highest level.
        refer_level: The level of boxes with the area refer_scale ** 2.
        refer_scale: See above.
        pixel_offset: Whether the last pixel belongs to a box.
        rois_num: (N,), the number of boxes of each image.

    Returns:
        The boxes of each level; (R, 1) int32, the index of each box among
        all of them; and with rois_num the numbers of each image's boxes by level, else
        None.

    Raises:
        ShapeError: If fpn_rois is not (R, 4).
        InvalidArgumentError: If max_level is below min_level.

    Source: Lin et al., Feature pyramid networks, 2017.
    """
    if fpn_rois.ndim != 2 or fpn_rois.shape[1] not in (-1, 4):
        must = "fpn_rois must have shape (R, 4)"
        raise ShapeError("distribute_fpn_proposals", must, fpn_rois.shape)
    if max_level < min_level:
        raise InvalidArgumentError(
            "[distribute_fpn_proposals] max_level must be at least min_level "
            f"{min_level}, got {max_level}"
        )
    if max_level - min_level >= _MAX_LEVELS:
        raise InvalidArgumentError(
            f"[distribute_fpn_proposals] expected at most {_MAX_LEVELS} levels, got "
            f"min_level={min_level}, max_level={max_level}"
        )
    _check_numbers(fpn_rois, rois_num)
    with no_grad():
        level = _levels(
            fpn_rois, min_level, max_level, refer_level, refer_scale, pixel_offset
        )
        indices = [
            true_indices(ops.equal(level, k)) for k in range(min_level, max_level + 1)
        ]
        order = indices[0] if len(indices) == 1 else ops.concat(*indices, axis=0)
        restore = ops.unsqueeze(ops.sort(order, axis=0)[1], axis=[1])
        boxes = [ops.gather(fpn_rois, at, axis=0) for at in indices]
        counts = None
        if rois_num is not None:
            counts = [_counts_by_image(at, rois_num) for at in indices]
    return boxes, ops.cast(restore, dtype="int32"), counts


def _check_numbers(boxes: Tensor, numbers: Tensor | None) -> None:
    """Refuse numbers of boxes that do not add up, as far as they are known."""
    if numbers is None or numbers._is_symbolic or boxes.shape[0] < 0:
        return
    known = numbers.numpy()
    if known.ndim != 1 or known.sum() != boxes.shape[0] or (known < 0).any():
        raise InvalidArgumentError(
            "[distribute_fpn_proposals] expected rois_num (N,) to add up to the "
            f"{boxes.shape[0]} boxes, got {known.tolist()}"
        )


def _levels(
    boxes: Tensor, lowest: int, highest: int, refer_level: int, refer_scale: int,
    pixel_offset: bool,
) -> Tensor:  # fmt: skip
    """The level (R,) int64 of each box."""
    low, high = corners(boxes)
    known = ops.all(ops.greater_equal(ops.sub(high, low), 0.0), axis=[1])
    area = box_area(low, ops.add(high, 1.0 if pixel_offset else 0.0))
    side = ops.sqrt(ops.where(known, area, 0.0))
    ratio = ops.add(ops.div(side, float(refer_scale)), 1e-8)
    # floor(log2(ratio)) by comparisons with the powers of 2, which are exact.
    level = ops.full_like(ratio, value=lowest, dtype="int64")
    for k in range(lowest + 1, highest + 1):
        power = 2.0 ** max(min(k - refer_level, 1000), -1000)
        above = ops.greater_equal(ratio, power)
        level = ops.add(level, ops.cast(above, dtype="int64"))
    return level


def _counts_by_image(indices: Tensor, numbers: Tensor) -> Tensor:
    """How many of the indices (of boxes sorted by image) fall in each image, int32."""
    sizes = ops.cast(numbers, dtype="int64")
    ends, index = ops.cumsum(sizes, axis=0), ops.unsqueeze(indices, axis=[1])
    since = ops.greater_equal(index, ops.sub(ends, sizes))
    inside = ops.logical_and(since, ops.less_than(index, ends))
    return ops.cast(ops.sum(ops.cast(inside, dtype="int64"), axis=[0]), dtype="int32")
