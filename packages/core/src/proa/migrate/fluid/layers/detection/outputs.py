"""What detectors find: boxes of classes, but none that overlaps with a better one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import proa
from proa._core import Tensor, ops
from proa.migrate.fluid.host_calls import Array, Like, Rows, on_host
from proa.migrate.fluid.layers.detection.boxes import (
    clipped,
    decoded,
    overlaps,
    polygon_overlap,
    suppressed,
)
from proa.nn import functional as F
from proa.nn import nms
from proa.nn.sequences import RowSequences
from proa.static.nn.sequence_arguments import with_sequences
from proa.vision.ops import box_coder

__all__ = [
    "detection_output", "locality_aware_nms", "multiclass_nms",
    "retinanet_detection_output",
]  # fmt: skip

#: Chosen (class, score, index) of an image.
Chosen = list[tuple[int, float, int]]


def _in_order(scores: Array, threshold: float, top_k: int) -> Array:
    """The indices of scores over the threshold, by falling score."""
    (found,) = np.nonzero(scores > threshold)
    found = found[np.argsort(-scores[found], kind="stable")]
    return found if top_k < 0 else found[:top_k]


def _suppressed_polygons(polygons: Array, threshold: float, eta: float) -> list[int]:
    selected: list[int] = []
    corners = polygons.reshape(len(polygons), -1, 2)
    for i, polygon in enumerate(corners):
        if any(polygon_overlap(polygon, corners[k]) > threshold for k in selected):
            continue
        selected.append(i)
        if eta < 1 and threshold > 0.5:
            threshold *= eta
    return selected


def _best(found: Chosen, keep_top_k: int) -> Chosen:
    """The best ones, by class."""
    if 0 <= keep_top_k < len(found):
        found = sorted(found, key=lambda each: -each[1])[:keep_top_k]
        found.sort(key=lambda each: each[0])
    return found


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
    name: str | None = None,
) -> Tensor:
    """Boxes without those that overlap with a better one of their class.

    Args:
        bboxes: (images, boxes, 4), or polygons (images, boxes, 2 * corners); or rows
            (n, classes, 4) of sequences, one for each image.
        scores: (images, classes, boxes), or rows (n, classes).
        score_threshold: Boxes must score over this.
        nms_top_k: How many of a class are looked at, -1 for all.
        keep_top_k: How many of an image are kept, -1 for all.
        nms_threshold: Boxes that overlap by more are dropped.
        normalized: Whether places are parts of the image; else the last pixel belongs
            to a box.
        nms_eta: A factor on the threshold after each box, as long as it is over 0.5.
        background_label: A class to leave out, -1 for none.
        name: Has no meaning here.

    Returns:
        Class, score and box (n, 6), a sequence for each image; no rows where there is
        no box (1.x gave one of -1).
    """
    if scores.ndim == 3 and int(bboxes.shape[2]) == 4:
        rows, counts, _ = nms.multiclass_nms(
            bboxes, scores, score_threshold, nms_top_k, keep_top_k, nms_threshold,
            normalized, nms_eta, background_label,
        )  # fmt: skip
        return _as_sequences(rows, counts)
    extra = 0.0 if normalized else 1.0

    def of_class(boxes: Array, score: Array) -> list[int]:
        order = _in_order(score, score_threshold, nms_top_k)
        if boxes.shape[1] == 4:
            selected = suppressed(boxes[order], nms_threshold, nms_eta, extra)
        else:
            selected = _suppressed_polygons(boxes[order], nms_threshold, nms_eta)
        return [int(i) for i in order[selected]]

    def of_image(boxes: Array, score: Array, by_row: bool) -> Array:
        chosen: Chosen = []
        for label in range(score.shape[1] if by_row else score.shape[0]):
            if label == background_label:
                continue
            own = score[:, label] if by_row else score[label]
            selected = of_class(boxes[:, label] if by_row else boxes, own)
            chosen += [
                (label, own[i], i) for i in (sorted(selected) if by_row else selected)
            ]
        chosen = _best(chosen, keep_top_k)
        if by_row:
            chosen.sort(key=lambda each: (each[0], each[2]))
        lines = [[c, s, *(boxes[i, c] if by_row else boxes[i])] for c, s, i in chosen]
        return np.asarray(lines, "float32").reshape(-1, boxes.shape[-1] + 2)

    def found(boxes: Any, score: Any) -> Rows:
        if isinstance(boxes, Rows):
            marks = np.cumsum(boxes.lengths[-1])[:-1]
            whole = score.array if isinstance(score, Rows) else score
            parts = zip(boxes.parts(), np.split(whole, marks), strict=True)
            return _joined([of_image(b, s, True) for b, s in parts])
        pairs = zip(boxes, score, strict=True)
        return _joined([of_image(b, s, False) for b, s in pairs])

    like = Like("float32", (None, int(bboxes.shape[2]) + 2), 1)
    return on_host(found, [bboxes, scores], [like])[0]


def _joined(parts: Sequence[Array]) -> Rows:
    return Rows(np.concatenate(parts), [[len(part) for part in parts]])


def _as_sequences(rows: Tensor, counts: Tensor) -> Tensor:
    lengths = ops.cast(counts, dtype="int64")
    return with_sequences(rows, RowSequences([lengths], None, rows))


def detection_output(
    loc: Tensor,
    scores: Tensor,
    prior_box: Tensor,
    prior_box_var: Tensor,
    background_label: int = 0,
    nms_threshold: float = 0.3,
    nms_top_k: int = 400,
    keep_top_k: int = 200,
    score_threshold: float = 0.01,
    nms_eta: float = 1.0,
    return_index: bool = False,
) -> Any:
    """What an SSD finds: class, score and box (n, 6), a sequence for each image.

    Args:
        loc: Codes of boxes (images, priors, 4).
        scores: Scores of classes (images, priors, classes), before softmax.
        prior_box: (priors, 4).
        prior_box_var: (priors, 4).
        background_label: The class of nothing.
        nms_threshold: As `multiclass_nms` has it, as the following.
        nms_top_k: See there.
        keep_top_k: See there.
        score_threshold: See there.
        nms_eta: See there.
        return_index: Whether the indices (n, 1) among all boxes are given, too.
    """
    boxes = box_coder(prior_box, prior_box_var, loc, code_type="decode_center_size")
    share = proa.transpose(F.softmax(scores), [0, 2, 1])
    rows, counts, index = nms.multiclass_nms(
        boxes, share, score_threshold, nms_top_k, keep_top_k, nms_threshold, True,
        nms_eta, background_label,
    )  # fmt: skip
    rows.stop_gradient = True
    found = _as_sequences(rows, counts)
    return (found, _as_sequences(index, counts)) if return_index else found


def locality_aware_nms(
    bboxes: Tensor,
    scores: Tensor,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = -1,
    name: str | None = None,
) -> Tensor:
    """`multiclass_nms` of one image and one class, in which a box is first merged with
    the one before where both overlap (EAST, 2017): the mean by score, and the sum of
    scores.
    """
    extra = 0.0 if normalized else 1.0

    def overlap(x: Array, y: Array) -> float:
        if len(x) > 4:
            return polygon_overlap(x.reshape(-1, 2), y.reshape(-1, 2))
        return float(overlaps(x[None], y[None], extra)[0, 0])

    def found(boxes: Array, score: Array) -> Rows:
        chosen = []
        for label, own in enumerate(score[0]):
            if label == background_label:
                continue
            merged, sums = _merged(boxes[0], own, overlap, nms_threshold)
            order = _in_order(sums, score_threshold, nms_top_k)
            if merged.shape[1] == 4:
                selected = suppressed(merged[order], nms_threshold, nms_eta, extra)
            else:
                selected = _suppressed_polygons(merged[order], nms_threshold, nms_eta)
            chosen += [(label, sums[i], merged[i]) for i in order[selected]]
        if 0 <= keep_top_k < len(chosen):
            chosen = sorted(chosen, key=lambda each: -each[1])[:keep_top_k]
            chosen.sort(key=lambda each: each[0])
        lines = [[label, s, *box] for label, s, box in chosen]
        whole = np.asarray(lines, "float32").reshape(-1, boxes.shape[2] + 2)
        return _joined([whole])

    like = Like("float32", (None, int(bboxes.shape[2]) + 2), 1)
    return on_host(found, [bboxes, scores], [like])[0]


def _merged(
    boxes: Array, scores: Array, overlap: Callable[[Array, Array], float], limit: float
) -> tuple[Array, Array]:
    """Runs of boxes that overlap with the one before by more than the limit, as one."""
    found, sums = boxes.copy(), scores.copy()
    at, begun = 0, False
    merged = []
    for i in range(len(boxes)):
        if begun and overlap(found[i], found[at]) > limit:
            total = sums[i] + sums[at]
            found[at] = (found[i] * sums[i] + found[at] * sums[at]) / total
            sums[at] = total
            continue
        if begun:
            merged.append(at)
        at, begun = i, True
    merged += [at] if begun else []
    return found[merged], sums[merged]


def retinanet_detection_output(
    bboxes: Sequence[Tensor],
    scores: Sequence[Tensor],
    anchors: Sequence[Tensor],
    im_info: Tensor,
    score_threshold: float = 0.05,
    nms_top_k: int = 1000,
    keep_top_k: int = 100,
    nms_threshold: float = 0.3,
    nms_eta: float = 1.0,
) -> Tensor:
    """What a RetinaNet finds: class from 1, score and box (n, 6), for each image.

    Args:
        bboxes: For each level of the pyramid codes (images, boxes, 4).
        scores: For each level scores (images, boxes, classes).
        anchors: For each level (boxes, 4).
        im_info: Height, width and scale of each image, (images, 3).
        score_threshold: Boxes must score over this; but not those of the last level.
        nms_top_k: How many of a level are looked at.
        keep_top_k: How many of an image are kept.
        nms_threshold: Boxes that overlap by more are dropped.
        nms_eta: A factor on the threshold after each box, as long as it is over 0.5.
    """
    count = len(bboxes)

    def of_image(i: int, parts: Sequence[Array], info: Array) -> Array:
        high, wide = np.round(info[0] / info[2]), np.round(info[1] / info[2])
        by_class: dict[int, list[Array]] = {}
        for level in range(count):
            codes, score, anchor = (parts[level + k * count] for k in range(3))
            own = score[i].reshape(-1)
            limit = score_threshold if level < count - 1 else 0.0
            order = _in_order(own, limit, nms_top_k)
            rows = order // score.shape[2]
            boxes = clipped(decoded(anchor[rows], codes[i][rows]) / info[2], high, wide)
            for index, box in zip(order, boxes, strict=True):
                line = np.append(box, own[index])
                by_class.setdefault(int(index % score.shape[2]), []).append(line)
        lines = []
        for label in sorted(by_class):
            whole = np.asarray(by_class[label], "float32")
            whole = whole[np.argsort(-whole[:, 4], kind="stable")]
            selected = suppressed(whole[:, :4], nms_threshold, nms_eta, 1.0)
            lines += [[label + 1, whole[k, 4], *whole[k, :4]] for k in selected]
        lines = sorted(lines, key=lambda line: -line[1])[:keep_top_k]
        return np.asarray(lines, "float32").reshape(-1, 6)

    def found(*parts: Array) -> Rows:
        info = parts[-1]
        return _joined([of_image(i, parts[:-1], own) for i, own in enumerate(info)])

    given = [*bboxes, *scores, *anchors, im_info]
    return on_host(found, given, [Like("float32", (None, 6), 1)])[0]
