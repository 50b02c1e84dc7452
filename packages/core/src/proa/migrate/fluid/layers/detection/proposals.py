"""Regions that a detector proposes, and what it is to learn of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import proa
from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.migrate.fluid.host_calls import Array, Like, Rows, on_host
from proa.migrate.fluid.layers.detection.anchors import counts_of
from proa.migrate.fluid.layers.detection.boxes import (
    clipped,
    decoded,
    encoded,
    overlaps,
    suppressed,
)
from proa.vision import ops as vision_ops

__all__ = [
    "collect_fpn_proposals", "distribute_fpn_proposals", "generate_proposal_labels",
    "generate_proposals", "prroi_pool", "psroi_pool", "retinanet_target_assign",
    "rpn_target_assign",
]  # fmt: skip

Floats = Sequence[float]


def generate_proposals(
    scores: Tensor,
    bbox_deltas: Tensor,
    im_info: Tensor,
    anchors: Tensor,
    variances: Tensor,
    pre_nms_top_n: int = 6000,
    post_nms_top_n: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
    name: str | None = None,
    return_rois_num: bool = False,
) -> Any:
    """The regions of Faster R-CNN (Ren et al., 2015): boxes (n, 4) and their scores
    (n, 1), a sequence for each image.

    Args:
        scores: (images, A, H, W).
        bbox_deltas: (images, 4 * A, H, W).
        im_info: Height, width and scale of each image, (images, 3).
        anchors: (H, W, A, 4).
        variances: (H, W, A, 4).
        pre_nms_top_n: How many boxes of an image are looked at.
        post_nms_top_n: How many are kept.
        nms_thresh: Boxes that overlap by more are dropped.
        min_size: The smallest side, in pixels of the image before it was scaled.
        eta: A factor on the threshold after each box, as long as it is over 0.5.
        name: Has no meaning here.
        return_rois_num: Whether the number of each image's boxes is given, too.
    """
    smallest = max(min_size, 1.0)

    def of_image(score: Array, code: Array, info: Array, box: Array,
                 spread: Array) -> tuple[Array, Array]:  # fmt: skip
        order = np.argsort(-score, kind="stable")
        order = order[:pre_nms_top_n] if pre_nms_top_n > 0 else order
        result = clipped(decoded(box[order], code[order], spread[order]), *info[:2])
        size = result[:, 2:] - result[:, :2]
        middle = result[:, :2] + (size + 1) / 2
        large = (size / info[2] + 1 >= smallest).all(1)
        (valid,) = np.nonzero(large & (middle <= info[1::-1]).all(1))
        if not len(valid):
            return np.zeros((1, 4), box.dtype), np.zeros(1, box.dtype)
        result, own = result[valid], score[order][valid]
        if nms_thresh > 0:
            chosen = suppressed(result, nms_thresh, eta, 1.0)
            chosen = chosen[:post_nms_top_n] if post_nms_top_n > 0 else chosen
            result, own = result[chosen], own[chosen]
        return result, own

    def propose(score: Array, code: Array, info: Array, box: Array,
                spread: Array) -> list[Any]:  # fmt: skip
        count = len(score)
        flat = score.transpose(0, 2, 3, 1).reshape(count, -1)
        codes = code.transpose(0, 2, 3, 1).reshape(count, -1, 4)
        box, spread = box.reshape(-1, 4), spread.reshape(-1, 4)
        found = [
            of_image(flat[i], codes[i], info[i], box, spread) for i in range(count)
        ]
        lengths = [len(own) for own, _ in found]
        boxes = np.concatenate([own for own, _ in found])
        rates = np.concatenate([own for _, own in found]).reshape(-1, 1)
        return [Rows(boxes, [lengths]), Rows(rates, [lengths])]

    kind = scores.dtype.name
    given = [scores, bbox_deltas, im_info, anchors, variances]
    boxes, rates = on_host(
        propose, given, [Like(kind, (None, 4), 1), Like(kind, (None, 1), 1)]
    )
    return (boxes, rates, counts_of(boxes)) if return_rois_num else (boxes, rates)


def distribute_fpn_proposals(
    fpn_rois: Tensor,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    name: str | None = None,
) -> tuple[list[Tensor], Tensor]:
    """Boxes by levels of a feature pyramid (Lin et al., 2017), and where each box is
    among these lists (n, 1), int32.

    Args:
        fpn_rois: Boxes (n, 4), a sequence for each image.
        min_level: The first level.
        max_level: The last one.
        refer_level: The level of boxes whose area is refer_scale squared.
        refer_scale: See there.
        name: Has no meaning here.
    """
    levels = range(min_level, max_level + 1)

    def distribute(given: Rows) -> list[Any]:
        boxes = given.array
        size = np.sqrt((boxes[:, 2:] - boxes[:, :2] + 1).prod(1))
        level = np.floor(np.log2(size / refer_scale + 1e-6)) + refer_level
        level = np.clip(level, min_level, max_level)
        image = np.repeat(np.arange(len(given.lengths[-1])), given.lengths[-1])
        order, result = [], []
        for each in levels:
            (own,) = np.nonzero(level == each)
            lengths = np.bincount(image[own], minlength=len(given.lengths[-1]))
            result.append(Rows(boxes[own], [lengths.tolist()]))
            order.append(own)
        place = np.argsort(np.concatenate(order), kind="stable")
        return [*result, place.reshape(-1, 1)]

    likes = [Like(fpn_rois.dtype.name, (None, 4), 1)] * len(levels)
    *found, place = on_host(distribute, [fpn_rois], [*likes, Like("int32", (None, 1))])
    return found, place


def collect_fpn_proposals(
    multi_rois: Sequence[Tensor],
    multi_scores: Sequence[Tensor],
    min_level: int,
    max_level: int,
    post_nms_top_n: int,
    name: str | None = None,
) -> Tensor:
    """The best boxes of all levels (n, 4), a sequence for each image.

    Args:
        multi_rois: For each level boxes (n, 4), a sequence for each image.
        multi_scores: For each level their scores (n, 1).
        min_level: The first level.
        max_level: The last one.
        post_nms_top_n: How many boxes of all images are kept.
        name: Has no meaning here.
    """
    count = max_level - min_level + 1

    def collect(*parts: Rows) -> Rows:
        boxes = np.concatenate([part.array for part in parts[:count]])
        scores = np.concatenate([part.array.reshape(-1) for part in parts[count:]])
        images = len(parts[0].lengths[-1])
        image = np.concatenate(
            [np.repeat(np.arange(images), part.lengths[-1]) for part in parts[:count]]
        )
        best = np.argsort(-scores, kind="stable")[:post_nms_top_n]
        best = best[np.argsort(image[best], kind="stable")]
        lengths = np.bincount(image[best], minlength=images).tolist()
        return Rows(boxes[best], [lengths])

    given = [*multi_rois[:count], *multi_scores[:count]]
    like = Like(multi_rois[0].dtype.name, (None, 4), 1)
    return on_host(collect, given, [like])[0]


def _sampled(indices: Array, count: int, by_chance: bool) -> Array:
    """So many of the indices, the first ones or any."""
    if len(indices) <= count:
        return indices
    if not by_chance:
        return indices[:count]
    return np.sort(np.random.permutation(indices)[:count])


def _anchor_labels(score: Array, positive: float, negative: float) -> Array:
    """Of each anchor: 1 for an object, 0 for none, -1 for neither.

    Args:
        score: Overlaps (anchors, boxes).
        positive: The overlap of an object.
        negative: The overlap below which there is none.
    """
    label = np.full(len(score), -1)
    if not score.shape[1]:
        return np.zeros_like(label)
    best = score.max(1)
    top = score.max(0)
    label[best < negative] = 0
    label[(np.abs(score - top) < 1e-5).any(1)] = 1
    label[best >= positive] = 1
    return label


def rpn_target_assign(
    bbox_pred: Tensor,
    cls_logits: Tensor,
    anchor_box: Tensor,
    anchor_var: Tensor,
    gt_boxes: Tensor,
    is_crowd: Tensor,
    im_info: Tensor,
    rpn_batch_size_per_im: int = 256,
    rpn_straddle_thresh: float = 0.0,
    rpn_fg_fraction: float = 0.5,
    rpn_positive_overlap: float = 0.7,
    rpn_negative_overlap: float = 0.3,
    use_random: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Anchors from which a network of proposals learns.

    Args:
        bbox_pred: Codes (images, anchors, 4).
        cls_logits: Scores (images, anchors, 1).
        anchor_box: (anchors, 4).
        anchor_var: Kept for callers.
        gt_boxes: The boxes to find (n, 4), a sequence for each image.
        is_crowd: Which of them are crowds (n, 1), a sequence for each image.
        im_info: Height, width and scale of each image, (images, 3).
        rpn_batch_size_per_im: How many anchors of an image are taken.
        rpn_straddle_thresh: By how much anchors may exceed the image; any if negative.
        rpn_fg_fraction: Which share of them are to have an object.
        rpn_positive_overlap: The overlap of an object.
        rpn_negative_overlap: The overlap below which there is none.
        use_random: Whether anchors are taken by chance.

    Returns:
        Scores and codes of the anchors taken, labels (n, 1) int32, codes to learn
        (m, 4), and weights of these.
    """

    def of_image(anchors: Array, boxes: Array, crowd: Array, info: Array) -> Any:
        inside = np.arange(len(anchors))
        if rpn_straddle_thresh >= 0:
            limit = info[1::-1] + rpn_straddle_thresh
            low = (anchors[:, :2] >= -rpn_straddle_thresh).all(1)
            (inside,) = np.nonzero(low & (anchors[:, 2:] < limit).all(1))
        own = boxes[crowd.reshape(-1) == 0] * info[2]
        score = overlaps(anchors[inside], own, 1.0)
        label = _anchor_labels(score, rpn_positive_overlap, rpn_negative_overlap)
        wanted = int(rpn_batch_size_per_im * rpn_fg_fraction)
        yes = _sampled(np.nonzero(label == 1)[0], wanted, use_random)
        no = np.nonzero((score.max(1) if score.size else label * 0.0)
                        < rpn_negative_overlap)[0]  # fmt: skip
        no = _sampled(no, rpn_batch_size_per_im - len(yes), use_random)
        # An anchor may be the best of a box that it hardly overlaps with, too: it is
        # then one without an object, and its code has no weight.
        false = np.intersect1d(yes, no)
        true = np.setdiff1d(yes, no)
        code = np.concatenate([np.full(len(false), yes[0] if len(yes) else 0), true])
        code = code.astype("int64")
        best = score.argmax(1) if score.size else np.zeros(len(label), "int64")
        goal = encoded(anchors[inside[code]], own[best[code]]) if len(code) else (
            np.zeros((0, 4), anchors.dtype))  # fmt: skip
        weight = np.repeat([[0.0], [1.0]], [len(false), len(true)], 0)
        labels = np.repeat([1, 0], [len(true), len(no)])
        taken = np.concatenate([inside[true], inside[no]])
        return taken, inside[code], labels, goal, weight.repeat(4, 1)

    given = [anchor_box, gt_boxes, is_crowd, im_info]
    found = _targets_of_anchors(of_image, bbox_pred, cls_logits, given, 1)
    return found[0], found[1], found[2], found[3], found[4]


def _targets_of_anchors(
    of_image: Any, bbox_pred: Tensor, cls_logits: Tensor, given: list[Tensor],
    width: int,
) -> list[Tensor]:  # fmt: skip
    """Predictions and goals of the anchors that a function takes of each image."""

    def assign(anchors: Array, *parts: Any) -> list[Array]:
        *rows, info = parts
        columns = zip(*(part.parts() for part in rows), strict=True)
        found = [of_image(anchors, *own, info[i]) for i, own in enumerate(columns)]
        shift = np.arange(len(found)) * len(anchors)
        taken, codes, labels, goals, weights = zip(*(f[:5] for f in found), strict=True)
        counts = [[f[5]] for f in found if len(f) > 5]
        return [
            np.concatenate([own + s for own, s in zip(taken, shift, strict=True)]),
            np.concatenate([own + s for own, s in zip(codes, shift, strict=True)]),
            np.concatenate(labels).reshape(-1, 1),
            np.concatenate(goals),
            np.concatenate(weights),
            np.asarray(counts).reshape(-1, 1),
        ]

    kind = bbox_pred.dtype.name
    likes = [
        Like("int64", (None,)), Like("int64", (None,)), Like("int32", (None, 1)),
        Like(kind, (None, 4)), Like(kind, (None, 4)), Like("int32", (None, 1)),
    ]  # fmt: skip
    taken, codes, labels, goals, weights, counts = on_host(assign, given, likes)
    scores = ops.gather(proa.reshape(cls_logits, [-1, width]), taken, axis=0)
    places = ops.gather(proa.reshape(bbox_pred, [-1, 4]), codes, axis=0)
    return [scores, places, labels, goals, weights, counts]


def retinanet_target_assign(
    bbox_pred: Tensor,
    cls_logits: Tensor,
    anchor_box: Tensor,
    anchor_var: Tensor,
    gt_boxes: Tensor,
    gt_labels: Tensor,
    is_crowd: Tensor,
    im_info: Tensor,
    num_classes: int = 1,
    positive_overlap: float = 0.5,
    negative_overlap: float = 0.4,
) -> tuple[Tensor, ...]:
    """Anchors from which a RetinaNet learns: all with an object, and all without one.

    Arguments are those of `rpn_target_assign`; `gt_labels` are classes (n, 1) from 1,
    `num_classes` their number.

    Returns:
        What `rpn_target_assign` gives, and how many anchors of each image have an
        object and 1, (images, 1).
    """

    def of_image(anchors: Array, boxes: Array, classes: Array, crowd: Array,
                 info: Array) -> Any:  # fmt: skip
        chosen = crowd.reshape(-1) == 0
        own, kinds = boxes[chosen] * info[2], classes.reshape(-1)[chosen]
        score = overlaps(anchors, own, 1.0)
        label = _anchor_labels(score, positive_overlap, negative_overlap)
        (yes,) = np.nonzero(label == 1)
        (no,) = np.nonzero(label == 0)
        best = score.argmax(1) if score.size else np.zeros(len(label), "int64")
        goal = encoded(anchors[yes], own[best[yes]]) if len(yes) else (
            np.zeros((0, 4), anchors.dtype))  # fmt: skip
        labels = np.concatenate([kinds[best[yes]] if len(yes) else yes, no * 0])
        weight = np.ones_like(goal)
        return np.concatenate([yes, no]), yes, labels, goal, weight, len(yes) + 1

    given = [anchor_box, gt_boxes, gt_labels, is_crowd, im_info]
    return tuple(
        _targets_of_anchors(of_image, bbox_pred, cls_logits, given, num_classes)
    )


def _in_columns(
    goal: Array, column: Array, count: int, wide: int
) -> tuple[Array, Array]:
    """Codes (count, wide) that are 0 but in the columns of their class, and weights."""
    code = np.zeros((count, wide), goal.dtype)
    weight = np.zeros_like(code)
    for i, own in enumerate(goal):
        at = 4 * int(column[i])
        if at > 0:
            code[i, at : at + 4], weight[i, at : at + 4] = own, 1
    return code, weight


def generate_proposal_labels(
    rpn_rois: Tensor,
    gt_classes: Tensor,
    is_crowd: Tensor,
    gt_boxes: Tensor,
    im_info: Tensor,
    batch_size_per_im: int = 256,
    fg_fraction: float = 0.25,
    fg_thresh: float = 0.25,
    bg_thresh_hi: float = 0.5,
    bg_thresh_lo: float = 0.0,
    bbox_reg_weights: Floats = (0.1, 0.1, 0.2, 0.2),
    class_nums: int | None = None,
    use_random: bool = True,
    is_cls_agnostic: bool = False,
    is_cascade_rcnn: bool = False,
) -> list[Tensor]:
    """Regions from which the heads of Faster R-CNN learn.

    Args:
        rpn_rois: Regions (n, 4), a sequence for each image, as are the following.
        gt_classes: Classes of the boxes to find (m, 1), int32.
        is_crowd: Which of these are crowds (m, 1).
        gt_boxes: These boxes (m, 4), of the image before it was scaled.
        im_info: Height, width and scale of each image, (images, 3).
        batch_size_per_im: How many regions of an image are taken.
        fg_fraction: Which share of them are to have an object.
        fg_thresh: The overlap of an object.
        bg_thresh_hi: The overlap below which there is none.
        bg_thresh_lo: The overlap of those, at the least.
        bbox_reg_weights: What codes are divided by.
        class_nums: How many classes there are, with that of nothing.
        use_random: Whether regions are taken by chance.
        is_cls_agnostic: Whether there are codes for object or none alone.
        is_cascade_rcnn: Whether all regions are taken, but for empty ones.

    Returns:
        Regions (n, 4), classes (n, 1) int32, codes to learn (n, 4 * classes), and two
        weights of these; each a sequence for each image.
    """
    if class_nums is None:
        raise InvalidArgumentError(
            "[generate_proposal_labels] expected class_nums, got None"
        )
    wide = 4 * class_nums

    def of_image(regions: Array, kinds: Array, crowd: Array, own: Array,
                 info: Array) -> list[Array]:  # fmt: skip
        if is_cascade_rcnn:
            size = regions[:, 2:] - regions[:, :2]
            regions = regions[((size > 0).all(1)) | (np.arange(len(regions)) < 0)]
        boxes = np.concatenate([own, regions / info[2]])
        score = overlaps(boxes, own, 1.0)
        top = score.max(1)
        top[: len(own)][crowd.reshape(-1) != 0] = -1
        (yes,) = np.nonzero(top >= fg_thresh)
        (no,) = np.nonzero((top >= bg_thresh_lo) & (top < bg_thresh_hi)
                           & (top < fg_thresh))  # fmt: skip
        if not is_cascade_rcnn:
            yes = _sampled(yes, int(batch_size_per_im * fg_fraction), use_random)
            no = _sampled(no, batch_size_per_im - len(yes), use_random)
        best = (np.abs(score[yes] - top[yes, None]) < 1e-5).argmax(1)
        label = np.concatenate([kinds.reshape(-1)[best], np.zeros(len(no), "int64")])
        taken = boxes[np.concatenate([yes, no])]
        goal = encoded(boxes[yes], own[best], bbox_reg_weights)
        column = np.minimum(label, 1) if is_cls_agnostic else label
        code, weight = _in_columns(goal, column, len(taken), wide)
        return [taken * info[2], label.reshape(-1, 1), code, weight, weight]

    def assign(*parts: Any) -> list[Rows]:
        *rows, info = parts
        columns = zip(*(part.parts() for part in rows), info, strict=True)
        found = [of_image(*own) for own in columns]
        lengths = [[len(each[0]) for each in found]]
        return [
            Rows(np.concatenate(column), lengths) for column in zip(*found, strict=True)
        ]

    kind = rpn_rois.dtype.name
    likes = [Like(kind, (None, 4), 1), Like("int32", (None, 1), 1)]
    likes += [Like(kind, (None, wide), 1)] * 3
    return on_host(assign, [rpn_rois, gt_classes, is_crowd, gt_boxes, im_info], likes)


def psroi_pool(
    input: Tensor,
    rois: Tensor,
    output_channels: int,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    name: str | None = None,
) -> Tensor:
    """`vision.ops.psroi_pool` of boxes that are a sequence for each image."""
    size = (pooled_height, pooled_width)
    return vision_ops.psroi_pool(input, rois, counts_of(rois), size, spatial_scale)


def prroi_pool(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float = 1.0,
    pooled_height: int = 1,
    pooled_width: int = 1,
    batch_roi_nums: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """`vision.ops.prroi_pool` of boxes that are a sequence for each image, or of which
    batch_roi_nums says how many each image has.
    """
    counts = counts_of(rois) if batch_roi_nums is None else batch_roi_nums
    size = (pooled_height, pooled_width)
    return vision_ops.prroi_pool(input, rois, counts, size, spatial_scale)
