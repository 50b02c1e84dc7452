"""Choice among boxes that overlap. How many are kept depends on their values: in a
recorded graph that number is a symbolic dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proa._core import Tensor, ops
from proa.autograd import no_grad
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn.nms import (
    box_iou,
    choose_candidates,
    collect_detections,
    descending_order,
    first_entries,
    true_indices,
    widened,
)
from proa.tensor.arguments import cast_if
from proa.tensor.creation import as_tensor

__all__ = ["matrix_nms", "nms"]


def nms(
    boxes: Tensor,
    iou_threshold: float = 0.3,
    scores: Tensor | None = None,
    category_idxs: Tensor | None = None,
    categories: Sequence[int] | None = None,
    top_k: int | None = None,
) -> Tensor:
    """Indices of the boxes left when those that overlap with a better one are dropped.

    Args:
        boxes: (R, 4): x1, y1, x2, y2.
        iou_threshold: Boxes that overlap by more are dropped.
        scores: (R,); without it the boxes are taken as sorted, the best first.
        category_idxs: (R,), the category of each box; boxes drop only their like.
        categories: The categories to consider.
        top_k: How many to keep at most.

    Returns:
        int64, by falling score. Of equal scores the first box counts as better.

    Raises:
        ShapeError: If the shapes do not fit.
        InvalidArgumentError: If arguments that belong together are not all given.
    """
    _check(boxes, scores, category_idxs, categories, top_k)
    with no_grad():
        boxes = boxes if boxes.dtype == "float64" else cast_if(boxes, "float32")
        order = None
        if scores is not None:
            order = descending_order(scores)
            boxes = ops.gather(boxes, order, axis=0)
        lists = ops.unsqueeze(boxes, axis=[0])
        valid = ops.full_like(ops.select(lists, axis=2, index=0), value=1, dtype="bool")
        if category_idxs is not None and order is not None:
            wanted = as_tensor(np.asarray(categories, np.int64).reshape(-1, 1))
            own = ops.gather(cast_if(category_idxs, "int64"), order, axis=0)
            valid = ops.equal(ops.unsqueeze(own, axis=[0]), wanted)
            lists = ops.gather(lists, ops.mul(ops.flatten(wanted), 0), axis=0)
        selected = ops.box_suppress(lists, valid, threshold=float(iou_threshold))
        selected = ops.any(selected, axis=[0])
        indices = true_indices(selected)
        if order is not None:
            indices = ops.gather(order, indices, axis=0)
        return indices if top_k is None else first_entries(indices, top_k, axis=0)


def _check(
    boxes: Tensor,
    scores: Tensor | None,
    kinds: Tensor | None,
    categories: Sequence[int] | None,
    top_k: int | None,
) -> None:
    """Refuse arguments of `nms` that do not fit."""
    if boxes.ndim != 2 or boxes.shape[1] not in (-1, 4):
        raise ShapeError("nms", "boxes must have shape (R, 4)", boxes.shape)
    count = boxes.shape[0]
    for name, given in [("scores", scores), ("category_idxs", kinds)]:
        if given is None:
            continue
        differs = given.ndim == 1 and -1 != given.shape[0] != count != -1
        if given.ndim != 1 or differs:
            raise ShapeError("nms", f"{name} must have shape (R,)", given.shape)
    if kinds is not None and (scores is None or categories is None):
        raise InvalidArgumentError(
            "[nms] category_idxs needs scores and categories, got "
            f"{'no scores' if scores is None else 'no categories'}"
        )
    if top_k is not None and top_k > count >= 0:
        raise InvalidArgumentError(
            f"[nms] top_k must not exceed the {count} boxes, got {top_k}"
        )


def _decay(boxes: Tensor, use_gaussian: bool, sigma: float) -> Tensor:
    """By how much the scores of boxes (N, C, t, 4) fall for the better ones before them
    (N, C, t).
    """
    overlap = box_iou(boxes, boxes)  # [i, j]
    number = ops.select(boxes, axis=3, index=0)
    rank = ops.sub(ops.cumsum(ops.full_like(number, value=1, dtype="int64"), axis=2), 1)
    better = ops.less_than(ops.unsqueeze(rank, axis=[3]), ops.unsqueeze(rank, axis=[2]))
    before = ops.where(better, overlap, 0.0)
    zeros = ops.unsqueeze(ops.mul(number, 0.0), axis=[2])  # so that there is a maximum
    largest = ops.max(ops.concat(before, zeros, axis=2), axis=[2])
    largest = ops.unsqueeze(largest, axis=[3])  # of box i with those better than it
    if use_gaussian:
        spread = ops.sub(ops.square(largest), ops.square(before))
        factor = ops.exp(ops.scale(spread, scale=float(sigma)))
    else:
        rest = ops.maximum(ops.sub(1.0, largest), 1e-10)
        factor = ops.div(ops.sub(1.0, before), rest)
    factor = ops.where(better, factor, 1.0)
    return ops.min(ops.concat(factor, ops.add(zeros, 1.0), axis=2), axis=[2])


def matrix_nms(
    bboxes: Tensor,
    scores: Tensor,
    score_threshold: float,
    post_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
    background_label: int = 0,
    normalized: bool = True,
    return_index: bool = False,
    return_rois_num: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Boxes whose scores fall with their overlap with better ones, in one step.

    A box's score is multiplied by the least, over better boxes i of its class, of
    (1 - overlap with i) / (1 - the greatest overlap of i with those better than it).

    Args:
        bboxes: (N, M, 4): x1, y1, x2, y2.
        scores: (N, classes, M).
        score_threshold: Boxes must score over this to be considered,
        post_threshold: and over this afterwards.
        nms_top_k: How many of a class are considered, -1 for all.
        keep_top_k: How many of an image are kept, -1 for all.
        use_gaussian: Use exp(-sigma * overlap ** 2) in place of 1 - overlap.
        gaussian_sigma: sigma.
        background_label: A class to leave out, -1 for none.
        normalized: Whether coordinates are parts of the image; else the last pixel
            belongs to a box.
        return_index: Also give each box's index in (N * M).
        return_rois_num: Also give the number of boxes of each image.

    Returns:
        (R, 6): class, score, box; then the counts (N,), then the indices (R, 1), or
        None for what is not requested.

    Source: Wang et al., SOLOv2, 2020.
    """
    with no_grad():
        found = choose_candidates(
            "matrix_nms", bboxes, scores, score_threshold, nms_top_k, background_label
        )
        boxes = widened(found.boxes, 0.0 if normalized else 1.0)
        decay = _decay(boxes, use_gaussian, gaussian_sigma)
        points = ops.mul(found.scores, cast_if(decay, scores.dtype))
        over = ops.greater_than(points, float(post_threshold))
        selected = ops.logical_and(found.valid, over)
        rows, counts, indices = collect_detections(
            found, selected, points, keep_top_k, False
        )
    return (
        rows,
        counts if return_rois_num else None,
        indices if return_index else None,
    )
