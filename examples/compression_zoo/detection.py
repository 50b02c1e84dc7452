"""Detection: what a YOLO head learns, its boxes, and their mean average precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import proa
from proa.nn import functional as F
from proa.vision.ops import nms, yolo_box, yolo_loss

Array = NDArray[Any]
#: Widths and heights of boxes, in pixels of images of `SIZE`.
ANCHORS = (9, 15, 13, 19, 16, 24, 21, 29)
SIZE = 64


class Heads:
    """How heads share the anchors: loss, boxes and distillation.

    Args:
        classes: Number of classes of objects.
        masks: For each head, the anchors that it has.
        strides: Stride of each head: pixels for a cell.
    """

    def __init__(
        self, classes: int, masks: Sequence[Sequence[int]], strides: Sequence[int]
    ) -> None:
        self.classes, self.masks, self.strides = classes, masks, strides

    def loss(self, outputs: Any, boxes: Any, labels: Any) -> Any:
        """YOLOv3's loss, of an image on average."""
        total: Any = 0.0
        for x, mask, stride in zip(
            _listed(outputs), self.masks, self.strides, strict=True
        ):
            total = total + yolo_loss(
                x, boxes, labels, ANCHORS, mask, self.classes, 0.6, stride,
                use_label_smooth=False,
            ).mean()  # fmt: skip
        return total

    def distillation(self, teacher: Any, student: Any) -> Any:
        """How far the student's heads are from the teacher's, of an image on average.

        Boxes and classes count as much as the teacher believes in an object there
        (Mehta and Ozturk, 2018).
        """
        total: Any = 0.0
        pairs = zip(_listed(teacher), _listed(student), self.masks, strict=True)
        for given, learned, mask in pairs:
            shape = [given.shape[0], len(mask), 5 + self.classes, *given.shape[2:]]
            t, s = given.reshape(shape), learned.reshape(shape)
            p = F.sigmoid(t)
            objects = p[:, :, 4:5]
            places = (
                (F.sigmoid(s[:, :, :2]) - p[:, :, :2]).square().sum(2, keepdim=True)
            )
            sizes = (s[:, :, 2:4] - t[:, :, 2:4]).square().sum(2, keepdim=True)
            names = _cross_entropy(s[:, :, 5:], p[:, :, 5:]).sum(2, keepdim=True)
            own = _cross_entropy(s[:, :, 4:5], objects)
            total = total + (own + objects * (places + sizes + names)).sum()
        return total / float(_listed(student)[0].shape[0])

    def mean_average_precision(
        self, outputs: Sequence[Array], boxes: Array, labels: Array
    ) -> float:
        """In percent, over the classes, at an overlap of one half."""
        truths = [_corners(b[b[:, 2] > 0]) * SIZE for b in boxes]
        kinds = [k[b[:, 2] > 0] for k, b in zip(labels, boxes, strict=True)]
        found = self.boxes(outputs)
        return 100 * mean_average_precision(found, truths, kinds, self.classes)

    def boxes(self, outputs: Sequence[Array]) -> list[Array]:
        """For each image (boxes, 6): x1, y1, x2, y2, score, class."""
        count = len(outputs[0])
        size = proa.to_tensor(np.full((count, 2), SIZE, np.int32))
        parts, scores = [], []
        for x, mask, stride in zip(outputs, self.masks, self.strides, strict=True):
            anchors = [n for m in mask for n in ANCHORS[2 * m : 2 * m + 2]]
            pair = yolo_box(
                proa.to_tensor(x), size, anchors, self.classes, 0.02, stride
            )
            parts.append(pair[0].numpy())
            scores.append(pair[1].numpy())
        every, score = np.concatenate(parts, 1), np.concatenate(scores, 1)
        return [_suppressed(b, s) for b, s in zip(every, score, strict=True)]


def _listed(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _cross_entropy(x: Any, target: Any) -> Any:
    """Binary cross entropy of sigmoid(x)."""
    return F.binary_cross_entropy_with_logits(x, target, reduction="none")


def _corners(boxes: Array) -> Array:
    """Centres and sizes as x1, y1, x2, y2."""
    half = boxes[:, 2:] / 2
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], 1)


def _suppressed(boxes: Array, scores: Array) -> Array:
    """Boxes of one image without those that overlap with a better one of the class."""
    which, kinds = np.nonzero(scores > 0.02)
    if not which.size:
        return np.zeros((0, 6), np.float32)
    chosen, points = boxes[which], scores[which, kinds]
    selected = nms(
        proa.to_tensor(chosen), 0.45, proa.to_tensor(points),
        proa.to_tensor(kinds.astype(np.int64)), range(scores.shape[1]),
    ).numpy()  # fmt: skip
    return np.column_stack([chosen[selected], points[selected], kinds[selected]])


# --- the metric


def mean_average_precision(
    found: Sequence[Array], truths: Sequence[Array], kinds: Sequence[Array],
    classes: int, overlap: float = 0.5,
) -> float:  # fmt: skip
    """The mean of average precisions of classes, as PASCAL VOC has it since 2010.

    A box is right if it overlaps by at least `overlap` with a true one of its class,
    the most overlapping one, which no better box has taken.

    Args:
        found: For each image (boxes, 6): x1, y1, x2, y2, score, class.
        truths: For each image (objects, 4).
        kinds: For each image (objects,), their classes.
        classes: Those without an object do not count.
    """
    precisions = []
    for kind in range(classes):
        mine = [t[k == kind] for t, k in zip(truths, kinds, strict=True)]
        count = sum(map(len, mine))
        if count:
            given = [f[f[:, 5] == kind] for f in found]
            precisions.append(average_precision(_hits(given, mine, overlap), count))
    return float(np.mean(precisions))


def _hits(found: Sequence[Array], truths: Sequence[Array], overlap: float) -> Array:
    """Whether each box is right, by falling score."""
    order = sorted(
        ((row[4], image, row[:4]) for image, rows in enumerate(found) for row in rows),
        key=lambda item: -item[0],
    )
    taken = [np.zeros(len(t), bool) for t in truths]
    hits = np.zeros(len(order), bool)
    for i, (_, image, box) in enumerate(order):
        if not len(truths[image]):
            continue
        common = _overlaps(box, truths[image])
        best = int(common.argmax())
        if common[best] >= overlap and not taken[image][best]:
            taken[image][best] = hits[i] = True
    return hits


def _overlaps(box: Array, others: Array) -> Array:
    """Intersection over union of a box with others."""
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    common = np.clip(high - low, 0, None).prod(1)
    areas = (others[:, 2:] - others[:, :2]).prod(1) + (box[2:] - box[:2]).prod()
    return common / (areas - common)


def average_precision(hits: Array, count: int) -> float:
    """The area below precision over recall, precision being made monotonous.

    Args:
        hits: Whether each box is right, by falling score.
        count: Objects that there are.
    """
    true = np.cumsum(hits)
    precision = true / np.arange(1, len(hits) + 1)
    # The greatest precision at this recall or a higher one.
    best = np.maximum.accumulate(precision[::-1])[::-1]
    return float(best[hits].sum() / count)
