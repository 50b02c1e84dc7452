"""Non-maximum suppression (NMS) of boxes, as operators. While a graph is recorded, the
number of boxes that are kept is a symbolic dimension.
"""

from __future__ import annotations

from dataclasses import dataclass

from proa._core import Tensor, ops
from proa.errors import ShapeError
from proa.nn.functional.geometry import split_axis
from proa.nn.functional.vision import iota
from proa.nn.sequences import counted, greatest
from proa.tensor.arguments import cast_if
from proa.tensor.creation import as_tensor
from proa.tensor.search import nonzero


def true_indices(mask: Tensor) -> Tensor:
    """The indices at which a mask (n,) is true, ascending, int64 (k,)."""
    if not mask._is_symbolic:
        return ops.flatten(nonzero(mask), start_axis=0, stop_axis=1)
    hits = ops.cast(mask, dtype="int64")
    count = ops.sum(hits)
    # One slot more, for the indices at which the mask is false.
    slots = ops.mul(counted(ops.add(count, 1)), 0)
    slot = ops.where(mask, ops.sub(ops.cumsum(hits, axis=0), 1), count)
    filled = ops.index_put(slots, ops.unsqueeze(slot, axis=[1]), iota(mask))
    return first_entries(filled, -1, axis=0)


def first_entries(x: Tensor, count: int, axis: int) -> Tensor:
    """The first `count` entries along an axis; -n leaves out the last n."""
    return ops.slice(x, axes=[axis], starts=[0], ends=[count], steps=[1])


def descending_order(x: Tensor) -> Tensor:
    """The indices that sort the last axis in descending order; the sort is stable."""
    return ops.sort(x, axis=x.ndim - 1, descending=True)[1]


def corners(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """(x1, y1) and (x2, y2) of boxes (.., 4), each (.., 2)."""
    last = boxes.ndim - 1
    low, high = (
        ops.slice(boxes, axes=[last], starts=[s], ends=[s + 2], steps=[1])
        for s in (0, 2)
    )
    return low, high


def widened(boxes: Tensor, extra: float) -> Tensor:
    """Boxes (.., 4) with ``extra`` added to x2 and y2: 1 where the last pixel belongs
    to a box.
    """
    if not extra:
        return boxes
    low, high = corners(boxes)
    return ops.concat(low, ops.add(high, extra), axis=boxes.ndim - 1)


def box_area(low: Tensor, high: Tensor) -> Tensor:
    """The areas (..,) of boxes by their corners (.., 2); 0 where a side is negative."""
    sides = ops.maximum(ops.sub(high, low), 0.0)
    last = low.ndim - 1
    width, height = (ops.select(sides, axis=last, index=i) for i in range(2))
    return ops.mul(width, height)


def box_iou(x: Tensor, y: Tensor) -> Tensor:
    """Intersection over union (.., n, m) of boxes (.., n, 4) and (.., m, 4); 0 of two
    empty ones.
    """
    sides = []
    for boxes, axis in ((x, x.ndim - 1), (y, y.ndim - 2)):
        sides.append([ops.unsqueeze(end, axis=[axis]) for end in corners(boxes)])
    (low, high), (other_low, other_high) = sides
    common = box_area(ops.maximum(low, other_low), ops.minimum(high, other_high))
    areas = ops.add(box_area(low, high), box_area(other_low, other_high))
    whole = ops.sub(areas, common)
    some = ops.greater_than(whole, 0.0)
    return ops.where(some, ops.div(common, ops.where(some, whole, 1.0)), 0.0)


@dataclass
class Candidates:
    """The t best boxes of each class of each image, by descending score.

    Attributes:
        boxes: (N, C, t, 4).
        scores: (N, C, t).
        valid: (N, C, t), which of them exceed the score threshold; they come first.
        indices: (N, C, t), among the boxes of all images.
    """

    boxes: Tensor
    scores: Tensor
    valid: Tensor
    indices: Tensor


def choose_candidates(
    where: str,
    boxes: Tensor,
    scores: Tensor,
    score_threshold: float,
    top_k: int,
    background: int,
) -> Candidates:
    """The boxes to choose among.

    Args:
        where: The caller, for errors.
        boxes: (N, M, 4).
        scores: (N, C, M).
        score_threshold: Boxes must score over this.
        top_k: How many of a class are taken, -1 for all.
        background: A class to leave out, -1 for none.

    Raises:
        ShapeError: If the shapes do not fit, or if C is not known.
    """
    fits = boxes.ndim == scores.ndim == 3 and boxes.shape[2] == 4
    pairs = zip(scores.shape[::2], boxes.shape[:2], strict=True) if fits else ()
    if not fits or any(a != b and min(a, b) >= 0 for a, b in pairs):
        must = "bboxes must be (N, M, 4) and scores (N, classes, M)"
        raise ShapeError(where, must, [boxes.shape, scores.shape])
    if scores.shape[1] < 0:
        raise ShapeError(where, "the number of classes must be known", scores.shape)
    valid = ops.greater_than(scores, float(score_threshold))
    if background >= 0:
        label = ops.unsqueeze(iota(scores, 1), axis=[1])
        valid = ops.logical_and(valid, ops.not_equal(label, background))
    counts = ops.sum(ops.cast(valid, dtype="int64"), axis=[2])
    steps = counted(greatest(ops.flatten(counts)))
    if top_k >= 0:
        steps = first_entries(steps, top_k, axis=0)
    lowest = ops.where(valid, scores, float("-inf"))
    order = ops.gather(descending_order(lowest), steps, axis=2)
    flat = ops.unsqueeze(ops.flatten(order, start_axis=1, stop_axis=2), axis=[2])
    chosen = ops.take_along_axis(boxes, flat, axis=1)
    image = ops.unsqueeze(iota(scores), axis=[1, 2])
    return Candidates(
        split_axis(chosen, 1, [scores.shape[1], -1]),
        ops.take_along_axis(scores, order, axis=2),
        ops.less_than(steps, ops.unsqueeze(counts, axis=[2])),
        ops.add(order, ops.mul(image, as_tensor(boxes.shape[1]))),
    )


def collect_detections(
    found: Candidates, selected: Tensor, scores: Tensor, top_k: int, by_class: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The boxes that are selected, those of the first image first.

    Args:
        found: What they are chosen from.
        selected: (N, C, t), bool.
        scores: (N, C, t).
        top_k: How many of an image are selected at most, -1 for all.
        by_class: Whether those of an image are in the order of their classes, instead
            of that of their scores.

    Returns:
        (R, 6): class, score, box; the counts (N,) int32; the indices (R, 1) int32 among
        the boxes of all images.
    """
    label = ops.unsqueeze(iota(scores, 1), axis=[1])
    label = ops.add(label, ops.mul(found.indices, 0))
    parts = [scores, selected, label, found.indices]
    scores, selected, label, index = (
        ops.flatten(p, start_axis=1, stop_axis=2) for p in parts
    )
    boxes = ops.flatten(found.boxes, start_axis=1, stop_axis=2)
    if top_k >= 0 or not by_class:
        order = descending_order(ops.where(selected, scores, float("-inf")))
        order = order if top_k < 0 else first_entries(order, top_k, axis=1)
        if by_class:
            order = ops.sort(order, axis=1)[0]
        scores, selected, label, index = (
            ops.take_along_axis(p, order, axis=1)
            for p in (scores, selected, label, index)
        )
        boxes = ops.take_along_axis(boxes, ops.unsqueeze(order, axis=[2]), axis=1)
    rows = true_indices(ops.flatten(selected))
    score, label, index = (
        ops.gather(ops.flatten(p), rows, axis=0) for p in (scores, label, index)
    )
    box = ops.gather(ops.flatten(boxes, start_axis=0, stop_axis=1), rows, axis=0)
    columns = [ops.unsqueeze(cast_if(p, box.dtype), axis=[1]) for p in (label, score)]
    counts = ops.sum(ops.cast(selected, dtype="int64"), axis=[1])
    return (
        ops.concat(*columns, box, axis=1),
        ops.cast(counts, dtype="int32"),
        ops.unsqueeze(ops.cast(index, dtype="int32"), axis=[1]),
    )


def multiclass_nms(
    bboxes: Tensor,
    scores: Tensor,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes (N, M, 4) of scores (N, classes, M) without those that overlap with a
    better one of their class by more than nms_threshold.

    Arguments are those of `matrix_nms`; ``nms_eta`` is that of `box_suppress`.

    Returns:
        (R, 6): class, score, box, by image and class; the counts (N,) int32; the
        indices (R, 1) int32 among the boxes of all images.
    """
    found = choose_candidates(
        "multiclass_nms", bboxes, scores, score_threshold, nms_top_k, background_label
    )
    lists = widened(found.boxes, 0.0 if normalized else 1.0)
    selected = ops.box_suppress(
        ops.flatten(lists, start_axis=0, stop_axis=1),
        ops.flatten(found.valid, start_axis=0, stop_axis=1),
        threshold=float(nms_threshold), eta=float(nms_eta),
    )  # fmt: skip
    selected = split_axis(selected, 0, [-1, scores.shape[1]])
    return collect_detections(found, selected, found.scores, keep_top_k, by_class=True)
