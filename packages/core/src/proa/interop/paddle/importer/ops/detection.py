"""Object detection: boxes, anchors and the suppression of overlapping boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
from proa.interop.graph.values import Array
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op


@paddle_op("yolo_box", inputs="X ImgSize", outputs="Boxes Scores")
def yolo_box(call: Call, x: Any, size: Any) -> Any:
    return proa.vision.ops.yolo_box(
        x, size, call.get("anchors"), call.get("class_num"),
        call.get("conf_thresh", 0.01), call.get("downsample_ratio", 32),
        call.flag("clip_bbox", True), scale_x_y=call.get("scale_x_y", 1.0),
        iou_aware=call.flag("iou_aware"),
        iou_aware_factor=call.get("iou_aware_factor", 0.5),
    )  # fmt: skip


@paddle_op("prior_box", inputs="Input Image", outputs="Boxes Variances")
def prior_box(call: Call, x: Any, image: Any) -> Any:
    return proa.vision.ops.prior_box(
        x, image, call.get("min_sizes"), call.get("max_sizes") or None,
        call.get("aspect_ratios", [1.0]), call.get("variances"), call.flag("flip"),
        call.flag("clip"), [call.get("step_w", 0.0), call.get("step_h", 0.0)],
        call.get("offset", 0.5), call.flag("min_max_aspect_ratios_order"),
    )  # fmt: skip


@paddle_op(
    "box_coder", inputs="PriorBox PriorBoxVar TargetBox", outputs="OutputBox"
)  # fmt: skip
def box_coder(call: Call, prior: Any, variance: Any, target: Any) -> Any:
    given = call.get("variance") or None
    return proa.vision.ops.box_coder(
        prior, given if variance is None else variance, target,
        call.get("code_type", "encode_center_size"), call.flag("box_normalized", True),
        axis=call.get("axis", 0),
    )  # fmt: skip


@paddle_op("box_clip", inputs="Input ImInfo", outputs="Output")
def box_clip(call: Call, boxes: Any, info: Any) -> Any:
    if boxes.ndim != 3:
        raise call.refuse("boxes of several images in one matrix")
    size = proa.round(proa.slice(info, [1], [0], [2]) / proa.slice(info, [1], [2], [3]))
    limit = proa.unsqueeze(proa.flip(size, [1]) - 1.0, [1])
    limit = proa.concat([limit, limit], -1)
    return proa.maximum(proa.minimum(boxes, limit), proa.zeros_like(boxes))


@paddle_op("iou_similarity", inputs="X Y")
def iou_similarity(call: Call, x: Any, y: Any) -> Any:
    found = _overlaps(call.host(x), call.host(y), call.flag("box_normalized", True))
    return proa.to_tensor(found)


def _overlaps(x: Array, y: Array, normalized: bool) -> Array:
    """(n, m): intersection over union of (n, 4) and (m, 4) boxes."""
    more = 0.0 if normalized else 1.0

    def area(b: Array) -> Array:
        size = np.maximum(b[..., 2:] - b[..., :2] + more, 0)
        found: Array = size[..., 0] * size[..., 1]
        return found

    low = np.maximum(x[:, None, :2], y[None, :, :2])
    high = np.minimum(x[:, None, 2:], y[None, :, 2:])
    common = np.prod(np.maximum(high - low + more, 0), -1)
    union = area(x)[:, None] + area(y)[None] - common
    found: Array = np.where(common > 0, common / np.maximum(union, 1e-10), 0.0)
    return found.astype(x.dtype)


@paddle_op(
    "multiclass_nms", "multiclass_nms2", "multiclass_nms3",
    inputs="BBoxes Scores RoisNum", outputs="Out Index NmsRoisNum",
)  # fmt: skip
def multiclass_nms(call: Call, boxes: Any, scores: Any, counts: Any = None) -> Any:
    """Rows (class, score, box) of the boxes that are kept, the best of each image."""
    if counts is not None or boxes.ndim != 3:
        raise call.refuse("boxes of several images in one matrix")
    all_boxes, all_scores = call.host(boxes), call.host(scores)
    rows, index, numbers = [], [], []
    for n, (one, score) in enumerate(zip(all_boxes, all_scores, strict=True)):
        found = [
            (label, i)
            for label in range(len(score))
            if label != call.get("background_label", 0)
            for i in _kept(call, one, score[label])
        ]
        limit = call.get("keep_top_k", -1)
        if 0 <= limit < len(found):
            found = sorted(found, key=lambda at: -score[at[0], at[1]])[:limit]
            found.sort(key=lambda at: at[0])
        rows += [[label, score[label, i], *one[i]] for label, i in found]
        index += [n * len(one) + i for _, i in found]
        numbers.append(len(found))
    table = np.array(rows, all_boxes.dtype).reshape(-1, 6)
    at = np.array(index, np.int32).reshape(-1, 1)
    return (
        proa.to_tensor(table),
        proa.to_tensor(at),
        proa.to_tensor(np.array(numbers, np.int32)),
    )


def _kept(call: Call, boxes: Array, score: Array) -> list[int]:
    """The indices of one class' boxes that are kept, the best first."""
    order = np.argsort(-score, kind="stable")
    order = order[score[order] > call.get("score_threshold", 0.0)]
    limit = call.get("nms_top_k", -1)
    order = order[:limit] if limit >= 0 else order
    overlap, eta = call.get("nms_threshold", 0.3), call.get("nms_eta", 1.0)
    normalized = call.flag("normalized", True)
    kept: list[int] = []
    for i in order:
        if kept:
            found = _overlaps(boxes[i][None], boxes[kept], normalized)
            if found.max() > overlap:
                continue
        kept.append(int(i))
        if eta < 1 and overlap > 0.5:
            overlap *= eta
    return kept
