"""Choice among boxes that overlap. How many are kept depends on their values, so these
functions work on NumPy arrays and cannot be recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa._core import Tensor
from proa.errors import InvalidArgumentError, ShapeError, SymbolicValueError
from proa.tensor.creation import as_tensor

__all__ = ["matrix_nms", "nms"]


def values_of(where: str, *tensors: Tensor | None) -> list[Any]:
    """The tensors' values; symbolic ones have none."""
    if any(t is not None and t._is_symbolic for t in tensors):
        raise SymbolicValueError(
            f"[{where}] expected known values, as the number of results depends on "
            "them, got a symbolic tensor"
        )
    return [None if t is None else t.numpy() for t in tensors]


def overlaps(box: Any, others: Any, extra: float = 0.0) -> Any:
    """Intersection over union of boxes (4,) or (n, 1, 4) with others (.., 4).

    ``extra`` is added to every length: 1 where the last pixel belongs to a box.
    """
    low = np.maximum(box[..., :2], others[..., :2])
    high = np.minimum(box[..., 2:], others[..., 2:])
    common = np.maximum(high - low + extra, 0).prod(-1)
    sizes = [
        np.maximum(b[..., 2:] - b[..., :2] + extra, 0).prod(-1) for b in (box, others)
    ]
    union = sizes[0] + sizes[1] - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


def suppress(boxes: Any, threshold: float, eta: float = 1.0, extra: float = 0.0) -> Any:
    """Indices of the boxes, best first, that overlap with no better one kept.

    With eta < 1 the threshold, while over 0.5, falls by eta with every box kept.
    """
    left, kept = np.arange(len(boxes)), []
    while left.size:
        best, left = left[0], left[1:]
        kept.append(int(best))
        left = left[overlaps(boxes[best], boxes[left], extra) <= threshold]
        if eta < 1 and threshold > 0.5:
            threshold *= eta
    return np.asarray(kept, np.int64)


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
    corner, score, kinds = values_of("nms", boxes, scores, category_idxs)
    if corner.ndim != 2 or corner.shape[1] != 4:
        raise ShapeError("nms", "boxes must have shape (R, 4)", boxes.shape)
    for name, given in [("scores", score), ("category_idxs", kinds)]:
        if given is not None and given.shape != (len(corner),):
            raise ShapeError("nms", f"{name} must have shape (R,)", list(given.shape))
    if kinds is not None and (score is None or categories is None):
        raise InvalidArgumentError(
            "[nms] category_idxs needs scores and categories, got "
            f"{'no scores' if score is None else 'no categories'}"
        )
    if top_k is not None and top_k > len(corner):
        raise InvalidArgumentError(
            f"[nms] top_k must not exceed the {len(corner)} boxes, got {top_k}"
        )
    order = np.arange(len(corner))
    if score is not None:
        order = np.argsort(-score, kind="stable")
    if kinds is None:
        kept = order[suppress(corner[order], iou_threshold)]
    else:
        assert categories is not None
        found = [order[:0]]
        for category in categories:
            mine = order[kinds[order] == category]
            found.append(mine[suppress(corner[mine], iou_threshold)])
        kept = np.concatenate(found)
        kept = kept[np.argsort(-score[kept], kind="stable")]
    return as_tensor(kept[:top_k].astype(np.int64))


def _decayed(overlap: Any, use_gaussian: bool, sigma: float) -> Any:
    """By how much each box's score falls for the better boxes before it (n, n)."""
    before = np.triu(overlap, 1)  # [i, j]: box j with the better box i
    max_iou = before.max(0)[:, None]  # of box i with those better than it
    if use_gaussian:
        factor = np.exp((max_iou**2 - before**2) * sigma)
    else:
        factor = (1 - before) / np.maximum(1 - max_iou, 1e-10)
    factor[np.tril_indices(len(overlap))] = 1
    return factor.min(0)


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
        return_index: Also give each box's place in (N * M).
        return_rois_num: Also give the number of boxes of each image.

    Returns:
        (R, 6): class, score, box; then the numbers (N,), then the places (R, 1), or
        None for what is not requested.

    Source: Wang et al., SOLOv2, 2020.
    """
    boxes, points = values_of("matrix_nms", bboxes, scores)
    fits = boxes.ndim == points.ndim == 3 and boxes.shape[2] == 4
    if not fits or points.shape[::2] != boxes.shape[:2]:
        must = "bboxes must be (N, M, 4) and scores (N, classes, M)"
        raise ShapeError("matrix_nms", must, [bboxes.shape, scores.shape])
    rows, places, counts = [], [], []
    for n in range(len(boxes)):
        found = []
        for label in range(points.shape[1]):
            if label == background_label:
                continue
            mine = np.flatnonzero(points[n, label] > score_threshold)
            mine = mine[np.argsort(-points[n, label, mine], kind="stable")]
            mine = mine[: nms_top_k if nms_top_k >= 0 else None]
            if not mine.size:
                continue
            corner = boxes[n, mine]
            overlap = overlaps(
                corner[:, None], corner[None], 0.0 if normalized else 1.0
            )
            score = points[n, label, mine] * _decayed(
                overlap, use_gaussian, gaussian_sigma
            )
            found += [
                (s, label, i)
                for s, i in zip(score, mine, strict=True)
                if s > post_threshold
            ]
        found.sort(key=lambda f: -f[0])
        found = found[: keep_top_k if keep_top_k >= 0 else None]
        counts.append(len(found))
        rows += [[label, s, *boxes[n, i]] for s, label, i in found]
        places += [n * boxes.shape[1] + i for _, _, i in found]
    return (
        as_tensor(np.asarray(rows, boxes.dtype).reshape(-1, 6)),
        as_tensor(np.asarray(counts, np.int32)) if return_rois_num else None,
        as_tensor(np.asarray(places, np.int32).reshape(-1, 1))
        if return_index
        else None,
    )
