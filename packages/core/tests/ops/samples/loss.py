"""Records of softmax and the losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..sample import Sample, case


def softmax(x: Any, *, axis: int = -1) -> Any:
    """exp(x) / sum(exp(x)) along axis."""
    if x.size == 0:
        return x
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _one_hot(label: Any, classes: int, ignore: int) -> Any:
    return (np.arange(classes) == np.where(label == ignore, -1, label)[..., None]) * 1.0


def _cross_entropy(label: Any, logits: Any, *, ignore_index: int = -100) -> Any:
    hot = _one_hot(label, logits.shape[-1], ignore_index)
    return -(np.log(softmax(logits)) * hot).sum(-1)


def _cross_entropy_grad(
    label: Any, dloss: Any, logits: Any, *, ignore_index: int
) -> Any:
    hot = _one_hot(label, logits.shape[-1], ignore_index)
    is_label = hot.sum(-1, keepdims=True)
    return (softmax(logits) * is_label - hot) * dloss[..., None]


def _softmax_grad(dy: Any, y: Any, *, axis: int) -> Any:
    return y * (dy - (dy * y).sum(axis, keepdims=True))


def _log_softmax_grad(dy: Any, y: Any, *, axis: int) -> Any:
    return dy - np.exp(y) * dy.sum(axis, keepdims=True)


_LABEL = np.array([2, 0, -100, 1], np.int64)
_TABLE = np.array([[1, 4, 0], [3, -1, 2]], np.int64)
_SHAPES = [
    ((3, 5), -1),
    ((2, 3, 4), 1),
    ((4, 3), 0),
    ((2, 300), 1),
    ((0, 3), 1),
    ((5,), 0),
]

Sample("softmax", ref=softmax, cases=[case(s, axis=a) for s, a in _SHAPES])
Sample(
    "softmax_grad",
    ref=_softmax_grad,
    cases=[case(s, s, axis=a) for s, a in _SHAPES],
)
Sample(
    "sum_axis",
    ref=lambda x, *, axis: x.sum(axis, keepdims=True),
    cases=[case(s, axis=a) for s, a in _SHAPES],
)
Sample(
    "log_softmax",
    ref=lambda x, *, axis=-1: np.log(softmax(x, axis=axis)) if x.size else x,
    cases=[case(s, axis=a) for s, a in _SHAPES],
)
Sample(
    "log_softmax_grad",
    ref=_log_softmax_grad,
    cases=[case(s, s, axis=a) for s, a in _SHAPES],
    rtol={"float16": 2e-2, "bfloat16": 1e-1},
    atol={"float16": 3e-2, "bfloat16": 3e-1},
    grad_cases=[case((3, 4), (3, 4), axis=-1)],
)
Sample(
    "softmax_cross_entropy",
    ref=_cross_entropy,
    cases=[case(_LABEL, (4, 3)), case(_TABLE, (2, 3, 5), ignore_index=-1)],
)
Sample(
    "softmax_cross_entropy_grad",
    ref=_cross_entropy_grad,
    cases=[
        case(_LABEL, (4,), (4, 3), ignore_index=-100),
        case(_TABLE, (2, 3), (2, 3, 17), ignore_index=-1),
    ],
)
Sample(
    "label_mask",
    ref=lambda label, like, *, ignore_index: (label != ignore_index)[..., None] * 1.0,
    cases=[
        case(_LABEL, (4,), ignore_index=-100),
        case(_TABLE, (2, 3), ignore_index=-1),
    ],
)
Sample(
    "label_scatter",
    ref=lambda label, dy, like, *, ignore_index: (
        _one_hot(label, like.shape[-1], ignore_index) * dy[..., None]
    ),
    cases=[
        case(_LABEL, (4,), (4, 3), ignore_index=-100),
        case(_TABLE, (2, 3), (2, 3, 5), ignore_index=-1),
    ],
)
Sample(
    "label_gather",
    ref=lambda label, x, *, ignore_index: (
        _one_hot(label, x.shape[-1], ignore_index) * x
    ).sum(-1),
    cases=[
        case(_LABEL, (4, 3), ignore_index=-100),
        case(_TABLE, (2, 3, 5), ignore_index=-1),
    ],
)
