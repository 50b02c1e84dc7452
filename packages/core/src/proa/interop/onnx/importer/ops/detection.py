"""Suppression of boxes that overlap."""

from __future__ import annotations

from typing import Any

import proa
from proa._core import ops
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.table import onnx_op
from proa.nn.functional.geometry import split_axis
from proa.nn.nms import descending_order, true_indices
from proa.tensor.creation import as_tensor


def _corners(boxes: Any, center_point: bool) -> Any:
    """(N, M, 4): the lower corner, then the higher one."""
    one, other = proa.split(boxes, 2, -1)
    if center_point:
        one, other = one - other / 2, one + other / 2
    return proa.concat([proa.minimum(one, other), proa.maximum(one, other)], -1)


@onnx_op("NonMaxSuppression")
def non_max_suppression(
    call: Call, boxes: Any, scores: Any, limit: Any = None, overlap: Any = None,
    lowest: Any = None,
) -> Any:  # fmt: skip
    """Rows (image, class, box), those of a class by falling score."""
    corners = _corners(boxes, bool(call.get("center_point_box", 0)))
    order = descending_order(scores)  # (N, C, M)
    index = ops.unsqueeze(ops.flatten(order, start_axis=1, stop_axis=2), axis=[2])
    lists = ops.take_along_axis(corners, index, axis=1)
    lists = split_axis(lists, 1, [scores.shape[1], -1])
    ranked = ops.take_along_axis(scores, order, axis=2)
    valid = ops.full_like(ranked, value=1, dtype="bool")
    if lowest is not None:
        valid = ranked > lowest
    selected = ops.box_suppress(
        ops.flatten(lists, start_axis=0, stop_axis=1),
        ops.flatten(valid, start_axis=0, stop_axis=1),
        threshold=float(call.number(overlap, 0.0)),
    )
    rank = ops.cumsum(ops.cast(selected, dtype="int64"), axis=1)
    selected = ops.logical_and(selected, rank <= (0 if limit is None else limit))
    rows = true_indices(ops.flatten(selected))
    classes, count = (as_tensor(n) for n in scores.shape[1:])
    group = rows // count
    box = ops.gather(ops.flatten(order), rows, axis=0)
    return ops.stack(group // classes, group % classes, box, axis=1)
