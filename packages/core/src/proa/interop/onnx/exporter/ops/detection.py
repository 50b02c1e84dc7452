"""Rows of detection."""

from __future__ import annotations

from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.standard import concat, full, slice_, unsqueeze, where
from proa.interop.onnx.exporter.table import export_row


@export_row("box_suppress", since=11)
def box_suppress(c: Call, boxes: Ref, valid: Ref, *, threshold: float, eta: float
                 ) -> Ref:  # fmt: skip
    if eta < 1.0 and threshold > 0.5:
        c.refuse("a threshold that falls")
    if not 0.0 <= threshold <= 1.0:
        c.refuse("a threshold outside [0, 1]")
    boxes = c.cast(boxes, "float32")
    low, high = (slice_(c, boxes, [2], [at], [at + 2]) for at in (0, 2))
    # The standard takes corners in any order; here a box without a size stays one.
    boxes = concat(c, [low, c.op("Max", low, high)], 2)
    # The order stands for scores: k, .., 1, but 0 where a box is not valid.
    size = c.size(valid, 1)
    count = c.ints([size]) if isinstance(size, int) else size
    ones = full(c, c.shape(valid), 1, "float32")
    rank = c.op("CumSum", ones, c.const(1, "int64"))
    scores = c.op("Sub", c.op("Add", c.cast(count, "float32"), c.number(1, ones)), rank)
    scores = where(c, valid, scores, c.number(0, ones))
    scores = unsqueeze(c, scores, [1])
    found = c.op(
        "NonMaxSuppression", boxes, scores, c.op("Reshape", count, c.ints([1])),
        c.const([threshold], "float32"), c.const([0.5], "float32"), dtype="int64",
    )  # fmt: skip
    places = c.op("Gather", found, c.ints([0, 2]), axis=1)  # (k, 2): list, box
    shape = c.op("Shape", places)
    hits = full(c, c.op("Gather", shape, c.ints([0]), axis=0), 1, "float32")
    none = full(c, c.shape(valid), 0, "float32")
    return c.cast(c.op("ScatterND", none, places, hits), "bool")
