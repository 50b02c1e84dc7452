"""YOLO version 3: boxes from a head's output, and its loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa._core import Tensor, ops
from proa.autograd import no_grad
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn.functional.geometry import split_axis
from proa.nn.functional.vision import iota
from proa.tensor.arguments import cast_if
from proa.tensor.creation import as_tensor

__all__ = ["yolo_box", "yolo_loss"]


def _anchors(where: str, anchors: Any) -> Any:
    """(A, 2): widths and heights."""
    sizes = np.asarray(anchors, np.float64)
    if sizes.ndim != 1 or sizes.size == 0 or sizes.size % 2 or (sizes <= 0).any():
        raise InvalidArgumentError(
            f"[{where}] anchors must be pairs of a positive width and height, got "
            f"{anchors}"
        )
    return sizes.reshape(-1, 2)


def _heads(where: str, x: Tensor, count: int, entries: int) -> Tensor:
    """(N, count * entries, H, W) -> (N, count, entries, H, W)."""
    if x.ndim != 4 or x.shape[1] != count * entries or min(x.shape[2:]) < 1:
        must = f"x must be (N, {count} * {entries}, H, W) of known H and W"
        raise ShapeError(where, must, x.shape)
    return split_axis(x, 1, [count, entries])


def _constant(values: Any, like: Tensor) -> Tensor:
    return cast_if(as_tensor(np.asarray(values, np.float64)), like.dtype)


def _cells(x: Tensor) -> tuple[Tensor, Tensor]:
    """Column and row of each cell, as they broadcast to (.., H, W)."""
    height, width = x.shape[-2:]
    return (
        _constant(np.arange(width), x),
        _constant(np.arange(height).reshape(-1, 1), x),
    )


def _centres(p: Tensor, scale_x_y: float) -> list[Tensor]:
    """x and y of the boxes of every cell, in (0, 1) of the image."""
    result = []
    for i, (cell, n) in enumerate(zip(_cells(p), reversed(p.shape[-2:]), strict=True)):
        inside = ops.sigmoid(ops.select(p, axis=2, index=i))
        place = ops.scale(inside, scale=scale_x_y, bias=-0.5 * (scale_x_y - 1))
        result.append(ops.scale(ops.add(place, cell), scale=1.0 / n))
    return result


def _sizes(p: Tensor, anchors: Any, ratio: int) -> list[Tensor]:
    """Width and height of the boxes of every cell, in parts of the image."""
    result = []
    for i, n in enumerate(reversed(p.shape[-2:])):
        own = _constant(anchors[:, i].reshape(-1, 1, 1) / (ratio * n), p)
        result.append(ops.mul(ops.exp(ops.select(p, axis=2, index=2 + i)), own))
    return result


def _boxes_first(t: Tensor) -> Tensor:
    """(N, anchors, H, W) -> (N, anchors * H * W)."""
    return ops.flatten(t, start_axis=1, stop_axis=3)


def yolo_box(
    x: Tensor,
    img_size: Tensor,
    anchors: Sequence[int],
    class_num: int,
    conf_thresh: float,
    downsample_ratio: int,
    clip_bbox: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
    iou_aware: bool = False,
    iou_aware_factor: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """Boxes and their scores from the output of a YOLOv3 head.

    With sigmoids s of an anchor's numbers (x, y, w, h, object, classes) at cell (i, j):
    centre ((j + s_x) / W, (i + s_y) / H) of the image, size exp(w), exp(h) times the
    anchor's, score s_object * s_class. Boxes with s_object under conf_thresh are 0.

    Args:
        x: (N, A * (5 + class_num), H, W); with iou_aware A more channels first.
        img_size: (N, 2): height and width of the images.
        anchors: Widths and heights of the A anchors by turns.
        class_num: Classes.
        conf_thresh: The least object score.
        downsample_ratio: Pixels of the network's input for one cell.
        clip_bbox: Whether boxes are cut to the image.
        scale_x_y: s_x and s_y are stretched about 0.5 by this.
        iou_aware: Whether the head foretells overlaps.
        iou_aware_factor: The overlap's part f in s_object ** (1 - f) * overlap ** f.

    Returns:
        Boxes (N, A * H * W, 4): x1, y1, x2, y2 in pixels; and scores
        (N, A * H * W, class_num).

    Raises:
        ShapeError: If the channels of x do not fit.

    Source: Redmon and Farhadi, YOLOv3, 2018.
    """
    sizes = _anchors("yolo_box", anchors)
    count, overlap = len(sizes), None
    if iou_aware:
        if x.ndim != 4 or x.shape[1] != count * (6 + class_num):
            must = f"x must have {count} * {6 + class_num} channels"
            raise ShapeError("yolo_box", must, x.shape)
        overlap = ops.sigmoid(
            ops.slice(x, axes=[1], starts=[0], ends=[count], steps=[1])
        )
        x = ops.slice(x, axes=[1], starts=[count], ends=[x.shape[1]], steps=[1])
    p = _heads("yolo_box", x, count, 5 + class_num)
    score = ops.sigmoid(ops.select(p, axis=2, index=4))
    if overlap is not None:
        score = ops.mul(
            ops.pow(score, 1.0 - iou_aware_factor), ops.pow(overlap, iou_aware_factor)
        )
    confident = ops.cast_like(ops.greater_equal(score, float(conf_thresh)), score)
    edge = [
        ops.unsqueeze(
            cast_if(ops.select(img_size, axis=1, index=1 - i), x.dtype), axis=[1, 2, 3]
        )
        for i in range(2)
    ]
    corners = []
    for centre, size, whole in zip(
        _centres(p, scale_x_y), _sizes(p, sizes, downsample_ratio), edge, strict=True
    ):
        half = ops.scale(size, scale=0.5)
        pair = [ops.mul(f(centre, half), whole) for f in (ops.sub, ops.add)]
        if clip_bbox:
            pair = [
                ops.maximum(pair[0], 0.0), ops.minimum(pair[1], ops.sub(whole, 1.0)),
            ]  # fmt: skip
        corners.append([_boxes_first(ops.mul(c, confident)) for c in pair])
    boxes = ops.stack(*(c[i] for i in range(2) for c in corners), axis=-1)
    classes = ops.slice(p, axes=[2], starts=[5], ends=[5 + class_num], steps=[1])
    classes = ops.mul(
        ops.sigmoid(classes), ops.unsqueeze(ops.mul(score, confident), axis=[2])
    )
    scores = ops.transpose(classes, perm=[0, 1, 3, 4, 2])
    return boxes, ops.flatten(scores, start_axis=1, stop_axis=3)


def _cross_entropy(x: Tensor, target: Tensor | float) -> Tensor:
    """Cross entropy of sigmoid(x): max(x, 0) - x * target + log(1 + exp(-|x|))."""
    return ops.sub(ops.softplus(x), ops.mul(x, target))


def _overlap(low: Any, high: Any, area: Tensor) -> Tensor:
    """Intersection over union of boxes given by pairs of edges for each axis."""
    common = None
    for (a_low, b_low), (a_high, b_high) in zip(low, high, strict=True):
        side = ops.maximum(
            ops.sub(ops.minimum(a_high, b_high), ops.maximum(a_low, b_low)), 0.0
        )
        common = side if common is None else ops.mul(common, side)
    assert common is not None
    return ops.div(common, ops.maximum(ops.sub(area, common), 1e-10))


def _ignored(
    p: Tensor, anchors: Any, gt: list[Tensor], valid: Tensor, thresh: float, ratio: int,
    scale_x_y: float,
) -> Tensor:  # fmt: skip
    """(N, cells): True where a foretold box overlaps a true one by more than thresh."""
    mine = [
        ops.unsqueeze(_boxes_first(t), axis=[2])
        for t in (*_centres(p, scale_x_y), *_sizes(p, anchors, ratio))
    ]
    true = [ops.unsqueeze(t, axis=[1]) for t in gt]
    low, high = [], []
    for i in range(2):
        halves = [ops.scale(t[2 + i], scale=0.5) for t in (mine, true)]
        low.append(
            [ops.sub(t[i], h) for t, h in zip((mine, true), halves, strict=True)]
        )
        high.append(
            [ops.add(t[i], h) for t, h in zip((mine, true), halves, strict=True)]
        )
    area = ops.add(ops.mul(mine[2], mine[3]), ops.mul(true[2], true[3]))
    found = ops.where(ops.unsqueeze(valid, axis=[1]), _overlap(low, high, area), 0.0)
    return ops.greater_than(ops.max(found, axis=[2]), float(thresh))


def _best_anchor(gt: list[Tensor], anchors: Any, size: list[int]) -> Tensor:
    """(N, B): the anchor whose shape overlaps most with each true box."""
    own = [_constant(anchors[:, i] / size[i], gt[0]) for i in range(2)]
    true = [ops.unsqueeze(gt[2 + i], axis=[2]) for i in range(2)]
    common = ops.mul(ops.minimum(true[0], own[0]), ops.minimum(true[1], own[1]))
    area = ops.add(ops.mul(true[0], true[1]), ops.mul(own[0], own[1]))
    return ops.argmax(ops.div(common, ops.sub(area, common)), axis=2)


def _chosen_anchors(anchor_mask: Any, count: int) -> list[int]:
    heads = [int(m) for m in anchor_mask]
    if not heads or min(heads) < 0 or max(heads) >= count:
        raise InvalidArgumentError(
            f"[yolo_loss] anchor_mask must name some of {count} anchors, "
            f"got {anchor_mask}"
        )
    return heads


def _cell(centre: Tensor, count: int) -> Tensor:
    """The cell, of count along an axis, that contains a part of the image."""
    scaled = ops.scale(centre, scale=float(count))
    return ops.clip(ops.cast(scaled, dtype=as_dtype("int64")), 0, count - 1)


def yolo_loss(
    x: Tensor,
    gt_box: Tensor,
    gt_label: Tensor,
    anchors: Sequence[int],
    anchor_mask: Sequence[int],
    class_num: int,
    ignore_thresh: float,
    downsample_ratio: int,
    gt_score: Tensor | None = None,
    use_label_smooth: bool = True,
    name: str | None = None,
    scale_x_y: float = 1.0,
) -> Tensor:
    """The loss of a YOLOv3 head on each image.

    Every true box is given to the anchor of the most similar shape, at the cell of its
    centre, if the head has that anchor. There, with weight score * (2 - w * h): cross
    entropies of x and y, absolute errors of log w and log h; with weight score: cross
    entropies of the classes and of the object. Elsewhere: the cross entropy of no
    object, unless the foretold box overlaps a true one by more than ignore_thresh.

    Args:
        x: (N, A * (5 + class_num), H, W), A being the length of anchor_mask.
        gt_box: (N, B, 4): centre x, y, width, height in parts of the image; width or
            height 0 for none.
        gt_label: (N, B), integers.
        anchors: Widths and heights of all anchors by turns.
        anchor_mask: Which of them the head has.
        class_num: Classes.
        ignore_thresh: See above.
        downsample_ratio: Pixels of the network's input for one cell.
        gt_score: (N, B), the weight of each true box; 1 by default.
        use_label_smooth: Whether classes' targets are d and 1 - d with
            d = min(1 / class_num, 1 / 40) in place of 0 and 1.
        scale_x_y: As of `yolo_box`.

    Returns:
        (N,).

    Raises:
        ShapeError: If shapes do not fit.

    Source: Redmon and Farhadi, YOLOv3, 2018.
    """
    sizes = _anchors("yolo_loss", anchors)
    heads = _chosen_anchors(anchor_mask, len(sizes))
    p = _heads("yolo_loss", x, len(heads), 5 + class_num)
    if gt_box.ndim != 3 or gt_box.shape[2] != 4 or gt_label.ndim != 2:
        must = "gt_box must be (N, B, 4) and gt_label (N, B)"
        raise ShapeError("yolo_loss", must, [gt_box.shape, gt_label.shape])
    height, width = x.shape[2:]
    with no_grad():
        gt = [ops.select(cast_if(gt_box, x.dtype), axis=2, index=i) for i in range(4)]
        valid = ops.logical_and(
            ops.greater_than(gt[2], 1e-6), ops.greater_than(gt[3], 1e-6)
        )
        score = (
            ops.full_like(gt[0], value=1, dtype=x.dtype)
            if gt_score is None
            else cast_if(gt_score, x.dtype)
        )
        ignored = _ignored(
            p, sizes[heads], gt, valid, ignore_thresh, downsample_ratio, scale_x_y
        )
        size = [downsample_ratio * width, downsample_ratio * height]
        best = _best_anchor(gt, sizes, size)
        table = np.full(len(sizes), -1)
        table[heads[::-1]] = range(len(heads) - 1, -1, -1)
        head = ops.gather(as_tensor(table), best)
        given = ops.logical_and(valid, ops.greater_equal(head, 0))
        cell = [_cell(gt[i], n) for i, n in enumerate((width, height))]
        place = ops.add(ops.mul(head, height), cell[1])
        place = ops.add(ops.mul(place, width), cell[0])
        cells = len(heads) * height * width
        targets = _object_targets(ignored, ops.where(given, place, cells), score)
        image = ops.unsqueeze(iota(x), axis=[1])
        row = ops.where(given, ops.add(ops.mul(image, cells), place), -1)
    rows = ops.flatten(ops.transpose(p, perm=[0, 1, 3, 4, 2]), 0, 3)
    index = ops.unsqueeze(ops.flatten(row), axis=[1])
    ones = ops.full_like(index, value=1, dtype=x.dtype)
    at = split_axis(ops.blend_rows(rows, index, ones), 0, [-1, gt_box.shape[1]])
    weight = ops.mul(score, ops.cast_like(given, score))
    own = ops.gather(_constant(sizes / size, x), best)  # (N, B, 2)
    losses = ops.add(
        _place_loss(at, gt, cell, own, [width, height], weight, given),
        _class_loss(at, gt_label, class_num, weight, use_label_smooth),
    )
    objects = _boxes_first(ops.select(p, axis=2, index=4))
    return ops.add(ops.sum(losses, axis=[1]), _object_loss(objects, targets))


def _object_targets(ignored: Tensor, place: Tensor, score: Tensor) -> Tensor:
    """(N, cells): the score of the (last) box there, else -1 to ignore, else 0."""
    base = ops.scale(ops.cast_like(ignored, score), scale=-1.0)
    wide = ops.pad(base, low=[0, 0], high=[0, 1])  # the last is for boxes without place
    filled = ops.put_along_axis(wide, place, score, axis=1)
    count = wide.shape[1] - 1
    return ops.slice(filled, axes=[1], starts=[0], ends=[count], steps=[1])


def _place_loss(
    at: Tensor, gt: list[Tensor], cell: list[Tensor], own: Tensor, size: list[int],
    weight: Tensor, given: Tensor,
) -> Tensor:  # fmt: skip
    """(N, B): of x, y, w, h of the boxes' anchors."""
    total = None
    for i in range(2):
        target = ops.sub(
            ops.scale(gt[i], scale=float(size[i])), ops.cast_like(cell[i], gt[i])
        )
        ratio = ops.div(gt[2 + i], ops.select(own, axis=2, index=i))
        log = ops.log(ops.where(given, ratio, 1.0))
        error = ops.add(
            _cross_entropy(ops.select(at, axis=2, index=i), target),
            ops.abs(ops.sub(ops.select(at, axis=2, index=2 + i), log)),
        )
        total = error if total is None else ops.add(total, error)
    assert total is not None
    area = ops.scale(ops.mul(gt[2], gt[3]), scale=-1.0, bias=2.0)
    return ops.mul(total, ops.mul(area, weight))


def _class_loss(
    at: Tensor, label: Tensor, class_num: int, weight: Tensor, smooth: bool
) -> Tensor:
    """(N, B): of the classes."""
    logits = ops.slice(at, axes=[2], starts=[5], ends=[5 + class_num], steps=[1])
    low = min(1.0 / class_num, 1.0 / 40) if smooth else 0.0
    names = ops.arange(start=0, step=1, count=class_num, dtype=label.dtype)
    hot = ops.cast_like(ops.equal(ops.unsqueeze(label, axis=[2]), names), logits)
    target = ops.scale(hot, scale=1.0 - 2 * low, bias=low)
    return ops.mul(ops.sum(_cross_entropy(logits, target), axis=[2]), weight)


def _object_loss(x: Tensor, target: Tensor) -> Tensor:
    """(N,): of the object in each cell."""
    some = ops.mul(_cross_entropy(x, 1.0), ops.maximum(target, 0.0))
    none = ops.mul(
        _cross_entropy(x, 0.0),
        ops.cast_like(
            ops.logical_and(
                ops.less_equal(target, 1e-5), ops.greater_than(target, -0.5)
            ), x,
        ),
    )  # fmt: skip
    return ops.sum(ops.add(some, none), axis=[1])
