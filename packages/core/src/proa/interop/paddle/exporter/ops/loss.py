"""Rows of labels and of masked scores."""

from __future__ import annotations

import numpy as np

from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.ops.elementwise import scaled
from proa.interop.paddle.exporter.table import export_row


def _hits(c: Call, label: Ref, classes: int | Ref, dtype: str, ignore: int) -> Ref:
    """(.., classes): 1 at a label that is not ignored, else 0."""
    if not isinstance(classes, int):
        c.refuse("a symbolic number of classes")
    numbers = c.const(np.arange(classes), label.dtype)
    found = c.binary("equal", c.unsqueeze(label, [label.rank]), numbers, dtype="bool")
    hits = c.cast(found, "float32")
    if 0 <= ignore < classes:
        is_class = c.const(np.arange(classes) != ignore, "float32")
        hits = c.binary("elementwise_mul", hits, is_class)
    return c.cast(hits, dtype)


@export_row("softmax_cross_entropy")
def softmax_cross_entropy(
    c: Call, label: Ref, logits: Ref, *, ignore_index: int
) -> Ref:
    label = c.unsqueeze(label, [label.rank])
    loss = c.op(
        "softmax_with_cross_entropy", {"Logits": logits, "Label": label}, label.shape,
        out="Loss", more=["Softmax"], soft_label=False, use_softmax=True,
        numeric_stable_mode=True, ignore_index=ignore_index, axis=-1,
    )  # fmt: skip
    axes = [label.rank - 1]
    return c.op("squeeze2", {"X": loss}, c.outputs[0].shape, more=["XShape"], axes=axes)


@export_row("label_mask")
def label_mask(c: Call, label: Ref, like: Ref, *, ignore_index: int) -> Ref:
    number = c.number(ignore_index, label)
    is_label = c.binary("not_equal", label, number, dtype="bool")
    return c.cast(c.unsqueeze(is_label, [label.rank]), like.dtype)


@export_row("label_scatter")
def label_scatter(c: Call, label: Ref, dy: Ref, like: Ref, *, ignore_index: int) -> Ref:
    hits = _hits(c, label, c.size(like, -1), dy.dtype, ignore_index)
    return c.binary("elementwise_mul", c.unsqueeze(dy, [dy.rank]), hits)


@export_row("label_gather")
def label_gather(c: Call, label: Ref, x: Ref, *, ignore_index: int) -> Ref:
    hits = _hits(c, label, c.size(x, -1), x.dtype, ignore_index)
    products = c.binary("elementwise_mul", x, hits)
    return c.op(
        "reduce_sum", {"X": products}, label.shape, dim=[x.rank - 1], keep_dim=False,
        reduce_all=x.rank == 1, in_dtype=-1, out_dtype=-1,
    )  # fmt: skip


# -- scores of attention ---------------------------------------------------------------
def masked(c: Call, x: Ref, mask: Ref | None, causal: bool) -> Ref:
    """Scores (.., queries, keys) under a mask."""
    if mask is not None and mask.dtype == "bool":
        # what is masked gets -1e9, whatever its score
        attended = c.cast(mask, x.dtype)
        x = c.binary("elementwise_mul", x, attended)
        mask = scaled(c, attended, 1e9, -1e9)
    if mask is not None:
        x = c.binary("elementwise_add", x, c.cast(mask, x.dtype))
    if causal:  # zeros, and minus infinity
        later = c.unary("log", _before(c, x, "float32"))
        x = c.binary("elementwise_add", x, c.cast(later, x.dtype))
    return x


def _before(c: Call, x: Ref, dtype: str) -> Ref:
    """(queries, keys): 1 for keys that do not come after the query, else 0."""
    ones = c.filled([c.size(x, -2), c.size(x, -1)], 1.0, "float32")
    return c.cast(c.unary("tril_triu", ones, diagonal=0, lower=True), dtype)


@export_row("mask_scores")
def mask_scores(c: Call, x: Ref, mask: Ref | None = None, *, causal: bool) -> Ref:
    return masked(c, x, mask, causal)


@export_row("keep_scores")
def keep_scores(c: Call, x: Ref, mask: Ref | None = None, *, causal: bool) -> Ref:
    if mask is not None and mask.dtype == "bool":
        x = c.binary("elementwise_mul", x, c.cast(mask, x.dtype))
    if causal:
        x = c.binary("elementwise_mul", x, _before(c, x, x.dtype))
    return x
