"""Proposals of a region network, and their sharing out to the levels of a pyramid. How
many there are depends on values, so this works on NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from proa._core import Tensor
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.creation import as_tensor
from proa.vision.ops.boxes import suppress, values_of

__all__ = ["distribute_fpn_proposals", "generate_proposals"]


def _moved(anchors: Any, deltas: Any, variances: Any, extra: float) -> Any:
    """Anchors (n, 4) moved and stretched by deltas * variances."""
    size = anchors[:, 2:] - anchors[:, :2] + extra
    centre = anchors[:, :2] + 0.5 * size
    step = deltas * variances
    centre = centre + step[:, :2] * size
    size = np.exp(np.minimum(step[:, 2:], np.log(1000.0 / 16))) * size
    return np.concatenate([centre - size / 2, centre + size / 2 - extra], 1)


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
    """The best boxes that a region proposal network foretells.

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
        (R, 4), their scores (R, 1), and the numbers (N,) int32 or None. An image
        without a box of that size gives one of zeros.

    Raises:
        ShapeError: If the shapes do not fit.

    Source: Ren et al., Faster R-CNN, 2015.
    """
    score, delta, size, anchor, variance = values_of(
        "generate_proposals", scores, bbox_deltas, img_size, anchors, variances
    )
    if score.ndim != 4 or delta.shape != (
        len(score), 4 * score.shape[1], *score.shape[2:],
    ):  # fmt: skip
        must = "scores must be (N, A, H, W) and bbox_deltas (N, 4 * A, H, W)"
        raise ShapeError("generate_proposals", must, [scores.shape, bbox_deltas.shape])
    anchor, variance = anchor.reshape(-1, 4), variance.reshape(-1, 4)
    extra = 1.0 if pixel_offset else 0.0
    boxes, points, counts = [], [], []
    for n in range(len(score)):
        point = score[n].transpose(1, 2, 0).reshape(-1)
        move = delta[n].reshape(-1, 4, *score.shape[2:]).transpose(2, 3, 0, 1)
        best = np.argsort(-point, kind="stable")[: max(pre_nms_top_n, 0) or None]
        box = _moved(anchor[best], move.reshape(-1, 4)[best], variance[best], extra)
        limit = np.tile(size[n][::-1] - extra, 2)
        box = np.clip(box, 0, limit)
        wide = box[:, 2:] - box[:, :2] + extra
        fits = (wide >= max(min_size, 1.0)).all(1)
        if pixel_offset:
            fits &= (box[:, :2] + wide / 2 <= size[n][::-1]).all(1)
        box, point = box[fits], point[best][fits]
        if not len(box):
            box, point = np.zeros((1, 4), score.dtype), np.zeros(1, score.dtype)
        elif nms_thresh > 0:
            kept = suppress(box, nms_thresh, eta, extra)
            kept = kept[: max(post_nms_top_n, 0) or None]
            box, point = box[kept], point[kept]
        boxes.append(box.astype(score.dtype))
        points.append(point.reshape(-1, 1))
        counts.append(len(box))
    return (
        as_tensor(np.concatenate(boxes)),
        as_tensor(np.concatenate(points)),
        as_tensor(np.asarray(counts, np.int32)) if return_rois_num else None,
    )


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
        The boxes of each level; (R, 1) int32, the place of each box among
        all of them; and with rois_num the numbers of each image's boxes by level, else
        None.

    Raises:
        ShapeError: If fpn_rois is not (R, 4).
        InvalidArgumentError: If max_level is below min_level.

    Source: Lin et al., Feature pyramid networks, 2017.
    """
    boxes, numbers = values_of("distribute_fpn_proposals", fpn_rois, rois_num)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
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
    fits = numbers is None or (
        numbers.ndim == 1 and numbers.sum() == len(boxes) and (numbers >= 0).all()
    )
    if not fits:
        raise InvalidArgumentError(
            "[distribute_fpn_proposals] expected rois_num (N,) to add up to the "
            f"{len(boxes)} boxes, got {numbers.tolist()}"
        )
    side = boxes[:, 2:] - boxes[:, :2]
    known = (side >= 0).all(1)
    area = np.where(known, (side + (1.0 if pixel_offset else 0.0)).prod(1), 0.0)
    level = np.floor(refer_level + np.log2(np.sqrt(area) / refer_scale + 1e-8))
    level = np.clip(level, min_level, max_level).astype(int)
    levels = range(min_level, max_level + 1)
    order = np.concatenate([np.flatnonzero(level == k) for k in levels])
    restore = np.empty(len(boxes), np.int32)
    restore[order] = np.arange(len(boxes))
    counts = None
    if numbers is not None:
        image = np.repeat(np.arange(len(numbers)), numbers)
        counts = [
            as_tensor(
                np.bincount(image[level == k], minlength=len(numbers)).astype(np.int32)
            )
            for k in levels
        ]
    return (
        [as_tensor(boxes[level == k]) for k in levels],
        as_tensor(restore.reshape(-1, 1)),
        counts,
    )
