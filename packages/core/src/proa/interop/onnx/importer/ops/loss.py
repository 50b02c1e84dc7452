"""Losses."""

from __future__ import annotations

from typing import Any

import proa
import proa.nn.functional as F
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.table import onnx_op


def _negative_log_likelihood(call: Call, x: Any, label: Any, weight: Any) -> Any:
    ignored = call.get("ignore_index")
    label = label.astype("int64")
    is_valid = proa.ones_like(label).astype("bool")
    if ignored is not None:
        is_valid = proa.not_equal(label, proa.full_like(label, ignored))
        label = proa.where(is_valid, label, proa.zeros_like(label))
    loss = -proa.squeeze(
        proa.take_along_axis(x, proa.unsqueeze(label, [1]), 1, False), [1]
    )
    each = is_valid.astype(x.dtype)
    if weight is not None:
        flat = proa.gather(weight, proa.reshape(label, [-1]), 0)
        each = each * proa.reshape(flat, label.shape)
    loss = loss * each
    how = call.get("reduction", "mean")
    if how == "none":
        return loss
    if how == "sum":
        return proa.sum(loss)
    plain = weight is None and ignored is None
    return proa.mean(loss) if plain else proa.sum(loss) / proa.sum(each)


@onnx_op("NegativeLogLikelihoodLoss")
def negative_log_likelihood(call: Call, x: Any, label: Any, weight: Any = None) -> Any:
    return _negative_log_likelihood(call, x, label, weight)


@onnx_op("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(call: Call, x: Any, label: Any, weight: Any = None) -> Any:
    logs = F.log_softmax(x, 1)
    loss = _negative_log_likelihood(call, logs, label, weight)
    return (loss, logs) if len(call.node.outputs) > 1 else loss
