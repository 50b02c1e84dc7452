"""Softmax and the losses that have kernels of their own."""

from __future__ import annotations

from typing import Any

from proa.schema.dtypes import FLOATING
from proa.schema.row import op


def _softmax_grad_composite(g: Any, dy: Any, y: Any, *, axis: Any) -> Any:
    total = g.sum_axis(g.mul(dy, y), axis=axis)
    return g.mul(y, g.sub(dy, total))


op(
    "softmax(x, *, axis: int = -1)",
    shape="along_axis",
    layout="follow",
    dtypes=FLOATING,
    grad=lambda g, dy, y, *, axis: g.softmax_grad(dy, y, axis=axis),
    autocast="black",
    scratch=True,
    doc="exp(x) / sum(exp(x)) along axis, the maximum taken out first.",
)
op(
    "softmax_grad(dy, y, *, axis: int)",
    shape="along_axis",
    layout="follow",
    dtypes=FLOATING,
    outputs=("dx",),
    grad="composite",
    composite=_softmax_grad_composite,
    scratch=True,
    lite=False,
    doc="y * (dy - sum(dy * y)) along axis.",
)
op(
    "sum_axis(x, *, axis: int)",
    shape="reduce_keep",
    dtypes=FLOATING,
    grad=lambda g, dy, x: g.broadcast_like(dy, x),
    lite=False,
    doc="Sum along one axis, kept with size 1.",
)


def _log_softmax_grad_composite(g: Any, dy: Any, y: Any, *, axis: Any) -> Any:
    return g.sub(dy, g.mul(g.exp(y), g.sum_axis(dy, axis=axis)))


op(
    "log_softmax(x, *, axis: int = -1)",
    shape="along_axis",
    layout="follow",
    dtypes=FLOATING,
    grad=lambda g, dy, y, *, axis: g.log_softmax_grad(dy, y, axis=axis),
    autocast="black",
    scratch=True,
    doc="x - log(sum(exp(x))) along axis.",
)
op(
    "log_softmax_grad(dy, y, *, axis: int)",
    shape="along_axis",
    layout="follow",
    dtypes=FLOATING,
    outputs=("dx",),
    grad="composite",
    composite=_log_softmax_grad_composite,
    scratch=True,
    lite=False,
    doc="dy - exp(y) * sum(dy) along axis.",
)


def _nll_grad_composite(
    g: Any, dy: Any, label: Any, logits: Any, *, ignore_index: Any
) -> Any:
    # d loss / d logits = softmax - one_hot(label), 0 where the label is ignored.
    p = g.softmax(logits)
    keep = g.unsqueeze(dy, axis=[-1])
    return g.sub(
        g.mul(p, g.mul(keep, g.label_mask(label, dy, ignore_index=ignore_index))),
        g.label_scatter(label, dy, logits, ignore_index=ignore_index),
    )


op(
    "softmax_cross_entropy(label, logits, *, ignore_index: int = -100)",
    shape="softmax_cross_entropy",
    dtypes=("int32", "int64"),
    out="last",
    outputs=("loss",),
    grad=lambda g, dloss, label, logits, *, ignore_index: (
        None,
        g.softmax_cross_entropy_grad(label, dloss, logits, ignore_index=ignore_index),
    ),
    autocast="black",
    lite=False,
    doc="-log(softmax(logits)[label]) over the last axis: (..,) integer labels and "
    "(.., classes) logits -> (..,). 0 where label == ignore_index; another label "
    "outside [0, classes) is an error.",
)
op(
    "softmax_cross_entropy_grad(label, dloss, logits, *, ignore_index: int)",
    shape="label_scatter",
    dtypes=("int32", "int64"),
    out="last",
    outputs=("dlogits",),
    grad="composite",
    composite=lambda g, label, dloss, logits, *, ignore_index: _nll_grad_composite(
        g, dloss, label, logits, ignore_index=ignore_index
    ),
    lite=False,
    doc="(softmax(logits) - one_hot(label)) * dloss, 0 where the label is ignored.",
)
op(
    "label_mask(label, like: shape, *, ignore_index: int)",
    shape="label_mask",
    dtypes=("int32", "int64"),
    out="last",
    grad=None,
    lite=False,
    doc="(..,) -> (.., 1): 1 where label != ignore_index, else 0; dtype of like.",
)
op(
    "label_scatter(label, dy, like: shape, *, ignore_index: int)",
    shape="label_scatter",
    dtypes=("int32", "int64"),
    out="last",
    outputs=("z",),
    grad=lambda g, dz, label, *, ignore_index: (
        None,
        g.label_gather(label, dz, ignore_index=ignore_index),
    ),
    lite=False,
    doc="Zeros shaped as like (.., classes), dy (..,) at the label, if not ignored.",
)
op(
    "label_gather(label, x, *, ignore_index: int)",
    shape="label_gather",
    dtypes=("int32", "int64"),
    out="last",
    grad=lambda g, dy, label, x, *, ignore_index: (
        None,
        g.label_scatter(label, dy, x, ignore_index=ignore_index),
    ),
    lite=False,
    doc="x (.., classes) at the label -> (..,); 0 where the label is ignored.",
)
