"""Boxes as arrays: overlaps, codes and suppression, as detectors of 1.x have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: The greatest logarithm of a ratio that a code's exponential takes.
_LARGEST = float(np.log(1000.0 / 16.0))


def areas(boxes: Array, extra: float = 0.0) -> Array:
    """(..,) of boxes (.., 4), whose sides are `extra` longer; 0 of reversed ones."""
    sides = boxes[..., 2:] - boxes[..., :2]
    result = np.prod(sides + np.float32(extra), axis=-1)
    return np.where((sides < 0).any(-1), 0, result)


def overlaps(x: Array, y: Array, extra: float = 0.0) -> Array:
    """(n, m): intersection over union of boxes (n, 4) and (m, 4)."""
    low = np.maximum(x[:, None, :2], y[None, :, :2])
    high = np.minimum(x[:, None, 2:], y[None, :, 2:])
    sides = np.maximum(high - low + np.float32(extra), 0)
    common = np.where((high < low).any(-1) & (extra == 0), 0, sides.prod(-1))
    whole = areas(x, extra)[:, None] + areas(y, extra)[None] - common
    return np.where(common > 0, common / np.where(whole > 0, whole, 1), 0)


def encoded(anchors: Array, boxes: Array, weights: Any = None) -> Array:
    """Boxes (n, 4) relative to anchors (n, 4), whose last pixels belong to them."""
    size, wide = (b[:, 2:] - b[:, :2] + 1 for b in (anchors, boxes))
    shift = (boxes[:, :2] + wide / 2 - anchors[:, :2] - size / 2) / size
    code = np.concatenate([shift, np.log(wide / size)], 1)
    return code if weights is None else code / np.asarray(weights, code.dtype)


def decoded(anchors: Array, codes: Array, variances: Array | None = None) -> Array:
    """The reverse of `encoded`; the sides' ratios are at most 1000 / 16."""
    size = anchors[:, 2:] - anchors[:, :2] + 1
    code = codes if variances is None else codes * variances
    middle = code[:, :2] * size + anchors[:, :2] + size / 2
    half = np.exp(np.minimum(code[:, 2:], np.float32(_LARGEST))) * size / 2
    return np.concatenate([middle - half, middle + half - 1], 1)


def clipped(boxes: Array, height: float, width: float) -> Array:
    """Boxes (n, 4) within an image of so many pixels."""
    limit = np.asarray([width, height] * 2, boxes.dtype) - 1
    return np.clip(boxes, 0, limit)


def suppressed(
    boxes: Array, threshold: float, eta: float = 1.0, extra: float = 0.0
) -> list[int]:
    """Which boxes (n, 4), the best first, overlap with none before by more than the
    threshold, which falls by the factor eta after each as long as it is over 0.5.
    """
    selected: list[int] = []
    for i in range(len(boxes)):
        if selected:
            found = overlaps(boxes[i : i + 1], boxes[selected], extra)
            if found.max() > threshold:
                continue
        selected.append(i)
        if eta < 1 and threshold > 0.5:
            threshold *= eta
    return selected


def polygon_overlap(x: Array, y: Array) -> float:
    """Intersection over union of two convex polygons (corners, 2)."""
    common = abs(_area(_clipped_polygon(x, y)))
    whole = abs(_area(x)) + abs(_area(y)) - common
    return common / whole if common > 0 and whole > 0 else 0.0


def _area(polygon: Array) -> float:
    """Positive if the corners go round against the clock."""
    if len(polygon) < 3:
        return 0.0
    x, y = polygon[:, 0], polygon[:, 1]
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2)


def _clipped_polygon(subject: Array, window: Array) -> Array:
    """The part of one convex polygon within another one (Sutherland and Hodgman)."""
    window = window if _area(window) > 0 else window[::-1]
    points = [p.astype("float64") for p in subject]
    for a, b in zip(window, np.roll(window, -1, axis=0), strict=True):
        side = [(b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])
                for p in points]  # fmt: skip
        found = []
        for i, (p, s) in enumerate(zip(points, side, strict=True)):
            before, other = points[i - 1], side[i - 1]
            if s * other < 0:
                found.append(before + (p - before) * (other / (other - s)))
            if s >= 0:
                found.append(p)
        points = found
    return np.asarray(points).reshape(-1, 2)
