"""Rows of softmax, losses and attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.standard import (
    full,
    reduce,
    softmax,
    transpose,
    unsqueeze,
    where,
)
from proa.interop.onnx.exporter.table import export_row

_MASKED = -1e9
_HEADS_FIRST = (0, 2, 1, 3)


@export_row("softmax", "log_softmax")
def softmax_(c: Call, x: Ref, *, axis: int) -> Ref:
    return softmax(c, "Softmax" if c.name == "softmax" else "LogSoftmax", x, axis)


@export_row("sum_axis")
def sum_axis(c: Call, x: Ref, *, axis: int) -> Ref:
    return reduce(c, "ReduceSum", x, [axis % x.rank])


# -- labels ----------------------------------------------------------------------------
def _hits(
    c: Call, label: Ref, classes: int | Ref, dtype: str, ignore_index: int
) -> Ref:
    """(.., classes): 1 at a label that is not ignored, else 0."""
    if not isinstance(classes, int):
        c.refuse("a symbolic number of classes")
    numbers = c.const(np.arange(classes), label.dtype)
    hit = c.op("Equal", unsqueeze(c, label, [label.rank]), numbers)
    if 0 <= ignore_index < classes:
        ignored = c.const(np.arange(classes) == ignore_index, "bool")
        hit = c.op("And", hit, c.op("Not", ignored))
    return c.cast(hit, dtype)


@export_row("softmax_cross_entropy")
def softmax_cross_entropy(
    c: Call, label: Ref, logits: Ref, *, ignore_index: int
) -> Ref:
    last = logits.rank - 1
    hits = _hits(c, label, c.size(logits, -1), logits.dtype, ignore_index)
    chosen = c.op("Mul", softmax(c, "LogSoftmax", logits, -1), hits)
    return c.op("Neg", reduce(c, "ReduceSum", chosen, [last], keepdim=False))


@export_row("label_mask")
def label_mask(c: Call, label: Ref, like: Ref, *, ignore_index: int) -> Ref:
    is_label = c.op("Not", c.op("Equal", label, c.number(ignore_index, label)))
    return c.cast(unsqueeze(c, is_label, [label.rank]), like.dtype)


@export_row("label_scatter")
def label_scatter(c: Call, label: Ref, dy: Ref, like: Ref, *, ignore_index: int) -> Ref:
    hits = _hits(c, label, c.size(like, -1), dy.dtype, ignore_index)
    return c.op("Mul", unsqueeze(c, dy, [dy.rank]), hits)


@export_row("label_gather")
def label_gather(c: Call, label: Ref, x: Ref, *, ignore_index: int) -> Ref:
    hits = _hits(c, label, c.size(x, -1), x.dtype, ignore_index)
    last = x.rank - 1
    return reduce(c, "ReduceSum", c.op("Mul", x, hits), [last], keepdim=False)


# -- attention -------------------------------------------------------------------------
def _before(c: Call, x: Ref) -> Ref:
    """Which keys (last axis) do not come after the query (the axis before it)."""
    assert x.shape is not None
    queries, keys = x.shape[-2:]
    if min(queries, keys) >= 0:
        return c.const(np.tril(np.ones((queries, keys), bool)), "bool")
    if c.opset < 14:
        c.refuse("causal attention of symbolic lengths needs opset 14")
    ones = full(c, c.vector([c.size(x, -2), c.size(x, -1)]), 1.0, "float32")
    return c.cast(c.op("Trilu", ones, upper=0), "bool")


def masked(c: Call, x: Ref, mask: Ref | None, causal: bool) -> Ref:
    """Scores under a mask, as attention takes it."""
    shape = x.shape
    if mask is not None and mask.dtype == "bool":
        x = where(c, mask, x, c.number(_MASKED, x))
    elif mask is not None:
        x = c.op("Add", x, c.cast(mask, x.dtype))
    if causal:
        before = _before(c, Ref(x.name, x.dtype, shape))
        x = where(c, before, x, c.number(-np.inf, x))
    return Ref(x.name, x.dtype, shape)


@export_row("mask_scores")
def mask_scores(c: Call, x: Ref, mask: Ref | None = None, *, causal: bool) -> Ref:
    return masked(c, x, mask, causal)


@export_row("keep_scores")
def keep_scores(c: Call, x: Ref, mask: Ref | None = None, *, causal: bool) -> Ref:
    zero, shape = c.number(0.0, x), x.shape
    if mask is not None and mask.dtype == "bool":
        x = where(c, mask, x, zero)
    if causal:
        x = where(c, _before(c, Ref(x.name, x.dtype, shape)), x, zero)
    return x


@export_row("attention")
def attention(
    c: Call, q: Ref, k: Ref, v: Ref, mask: Ref | None = None, *, scale: float,
    causal: bool, p: float, seed: int, offset: int,
) -> Any:  # fmt: skip
    assert q.shape is not None and k.shape is not None
    shape = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
    given = q.dtype
    q, v = (transpose(c, x, _HEADS_FIRST) for x in (q, v))
    q = c.op("Mul", q, c.number(scale, q))
    scores = c.op("MatMul", q, transpose(c, k, (0, 2, 3, 1)))
    scores = Ref(scores.name, given, shape)
    if -1 in shape[2:] and causal:
        lengths = (c.size(q, 2), c.size(k, 1))
        for axis, size in zip((2, 3), lengths, strict=True):
            if isinstance(size, Ref):
                c.graph.remember(("size", scores.name, axis), size)
    scores = masked(c, scores, mask, causal)
    weights = softmax(c, "Softmax", scores, -1)
    if p:
        weights = Ref(weights.name, given, shape)
        weights = c.row("dropout", weights, p=p, seed=seed, offset=offset)
    y = c.op("Transpose", c.op("MatMul", weights, v), perm=list(_HEADS_FIRST))
    return y, _softmax_statistics(c, scores)


def _softmax_statistics(c: Call, scores: Ref) -> Ref:
    """The peak of each query's scores and the sum of exp(score - peak)."""
    wide = c.cast(scores, c.outputs[1].dtype)
    peak = reduce(c, "ReduceMax", wide, [3])
    total = reduce(c, "ReduceSum", c.op("Exp", c.op("Sub", wide, peak)), [3])
    return c.op("Concat", peak, total, axis=3)
