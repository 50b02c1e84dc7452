"""Segmentation: cross entropy of pixels, and the mean intersection over union."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.nn import functional as F
from proa_slim.distill import kl_loss

#: Weight of an object's pixel; most pixels are background.
_OBJECT_WEIGHT = 3.0


def loss(logits: Any, masks: Any) -> Any:
    """Cross entropy of the pixels, objects weighing more."""
    each = F.cross_entropy(logits, masks, axis=1, reduction="none")
    weight = (masks > 0).astype("float32").reshape(each.shape) * (
        _OBJECT_WEIGHT - 1
    ) + 1
    return (each * weight).sum() / weight.sum()


def distillation(teacher: Any, student: Any) -> Any:
    """The divergence from the teacher's classes, of a pixel on average."""
    pair = [x.transpose([0, 2, 3, 1]) for x in (teacher, student)]
    return kl_loss(*pair, temperature=2.0)


def mean_iou(outputs: Sequence[NDArray[Any]], masks: NDArray[np.uint8]) -> float:
    """In percent: of a class, pixels right over pixels of either; then the mean."""
    classes = outputs[0].shape[1]
    found = outputs[0].argmax(1)
    table = np.bincount(
        masks.reshape(-1) * np.int64(classes) + found.reshape(-1), minlength=classes**2
    ).reshape(classes, classes)
    right = np.diag(table)
    either = table.sum(0) + table.sum(1) - right
    return float(100 * np.mean(right[either > 0] / either[either > 0]))
