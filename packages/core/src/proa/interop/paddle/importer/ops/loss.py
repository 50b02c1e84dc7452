"""Losses, which programs saved for training have."""

from __future__ import annotations

from typing import Any

import proa
import proa.nn.functional as F
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op


@paddle_op("softmax_with_cross_entropy", inputs="Logits Label", outputs="Softmax Loss")
def softmax_with_cross_entropy(call: Call, x: Any, label: Any) -> Any:
    axis = call.get("axis", -1)
    if not call.flag("use_softmax", True):
        raise call.refuse("use_softmax False")
    loss = F.cross_entropy(
        x, label, ignore_index=call.get("ignore_index", -100), reduction="none",
        soft_label=call.flag("soft_label"), axis=axis,
    )  # fmt: skip
    if loss.ndim < x.ndim:
        loss = proa.unsqueeze(loss, [axis])
    return F.softmax(x, axis), loss


@paddle_op("cross_entropy", "cross_entropy2", inputs="X Label", outputs="Y")
def cross_entropy(call: Call, x: Any, label: Any) -> Any:
    if call.flag("soft_label"):
        return -proa.sum(label * proa.log(x), [-1], keepdim=True)
    index = label.astype("int64")
    ignored = call.get("ignore_index", -100)
    at = proa.maximum(index, proa.zeros_like(index))
    found = -proa.log(proa.take_along_axis(x, at, x.ndim - 1, False))
    keep = proa.not_equal(index, proa.full_like(index, ignored))
    return proa.where(keep, found, proa.zeros_like(found))


@paddle_op("sigmoid_cross_entropy_with_logits", inputs="X Label")
def sigmoid_cross_entropy(call: Call, x: Any, label: Any) -> Any:
    # max(x, 0) - x * label + log(1 + exp(-|x|))
    loss = F.relu(x) - x * label + proa.log1p(proa.exp(-proa.abs(x)))
    counted = proa.not_equal(
        label, proa.full_like(label, call.get("ignore_index", -100))
    ).astype(x.dtype)
    loss = loss * counted
    return loss / proa.sum(counted) if call.flag("normalize") else loss


@paddle_op("bce_loss", inputs="X Label")
def bce_loss(call: Call, x: Any, label: Any) -> Any:
    return F.binary_cross_entropy(x, label, reduction="none")


@paddle_op("huber_loss", inputs="X Y")
def huber_loss(call: Call, x: Any, y: Any) -> Any:
    delta = call.get("delta", 1.0)
    d = proa.abs(y - x)
    small = proa.less_equal(d, proa.full_like(d, delta))
    return proa.where(small, 0.5 * proa.square(d), delta * (d - 0.5 * delta))


@paddle_op("log_loss", inputs="Predicted Labels", outputs="Loss")
def log_loss(call: Call, x: Any, label: Any) -> Any:
    eps = call.get("epsilon", 1e-4)
    return -label * proa.log(x + eps) - (1.0 - label) * proa.log(1.0 - x + eps)


@paddle_op("cos_sim", inputs="X Y")
def cos_sim(call: Call, x: Any, y: Any) -> Any:
    total = proa.sum(x * y, [-1], keepdim=True)
    norms = [proa.sqrt(proa.sum(proa.square(v), [-1], keepdim=True)) for v in (x, y)]
    return total / (norms[0] * norms[1])


@paddle_op(
    "accuracy", inputs="Out Indices Label", outputs="Accuracy Correct Total",
)  # fmt: skip
def accuracy(call: Call, values: Any, index: Any, label: Any) -> Any:
    hit = proa.any(proa.equal(index, label.astype(index.dtype)), [-1])
    correct = proa.sum(hit.astype("float32"))
    total = proa.sum(proa.ones_like(hit.astype("float32")))
    return correct / total, correct.astype("int32"), total.astype("int32")
