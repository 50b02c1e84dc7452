"""Object detection: boxes, anchors and the suppression of overlapping boxes."""

from __future__ import annotations

from typing import Any

import proa
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op
from proa.nn.nms import box_iou, multiclass_nms, widened


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
    extra = 0.0 if call.flag("box_normalized", True) else 1.0
    return box_iou(widened(x, extra), widened(y, extra))


@paddle_op(
    "multiclass_nms", "multiclass_nms2", "multiclass_nms3",
    inputs="BBoxes Scores RoisNum", outputs="Out Index NmsRoisNum",
)  # fmt: skip
def multi_class(call: Call, boxes: Any, scores: Any, counts: Any = None) -> Any:
    """Rows (class, score, box) of the boxes that are kept, the best of each image."""
    if counts is not None or boxes.ndim != 3:
        raise call.refuse("boxes of several images in one matrix")
    rows, numbers, indices = multiclass_nms(
        boxes, scores, call.get("score_threshold", 0.0), call.get("nms_top_k", -1),
        call.get("keep_top_k", -1), call.get("nms_threshold", 0.3),
        call.flag("normalized", True), call.get("nms_eta", 1.0),
        call.get("background_label", 0),
    )  # fmt: skip
    return rows, indices, numbers


@paddle_op("matrix_nms", inputs="BBoxes Scores", outputs="Out Index RoisNum")
def matrix_nms(call: Call, boxes: Any, scores: Any) -> Any:
    rows, numbers, indices = proa.vision.ops.matrix_nms(
        boxes, scores, call.get("score_threshold", 0.0),
        call.get("post_threshold", 0.0), call.get("nms_top_k", -1),
        call.get("keep_top_k", -1), call.flag("use_gaussian"),
        call.get("gaussian_sigma", 2.0), call.get("background_label", 0),
        call.flag("normalized", True), return_index=True,
    )  # fmt: skip
    return rows, indices, numbers


@paddle_op(
    "generate_proposals_v2",
    inputs="Scores BboxDeltas ImShape Anchors Variances",
    outputs="RpnRois RpnRoiProbs RpnRoisNum",
)
def generate_proposals(
    call: Call, scores: Any, deltas: Any, size: Any, anchors: Any, variances: Any
) -> Any:
    return proa.vision.ops.generate_proposals(
        scores, deltas, size, anchors, variances, call.get("pre_nms_topN", 6000),
        call.get("post_nms_topN", 1000), call.get("nms_thresh", 0.5),
        call.get("min_size", 0.1), call.get("eta", 1.0),
        call.flag("pixel_offset", True), return_rois_num=True,
    )  # fmt: skip


@paddle_op(
    "distribute_fpn_proposals", inputs="FpnRois RoisNum",
    outputs="MultiFpnRois* RestoreIndex MultiLevelRoIsNum*",
)  # fmt: skip
def distribute_fpn_proposals(call: Call, boxes: Any, counts: Any = None) -> Any:
    levels, restore, numbers = proa.vision.ops.distribute_fpn_proposals(
        boxes, call.get("min_level"), call.get("max_level"), call.get("refer_level"),
        call.get("refer_scale"), call.flag("pixel_offset", True), counts,
    )  # fmt: skip
    return levels, restore, numbers or []
