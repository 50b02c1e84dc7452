"""Attention."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.nn.functional.dropping import dropout
from proa.tensor.arguments import cast_if

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    name: Any = None,
) -> Tensor:
    """softmax(q k^T / sqrt(d) + mask) v over (batch, length, heads, d) tensors."""
    q, k, v = (ops.transpose(t, perm=[0, 2, 1, 3]) for t in (query, key, value))
    width = query.shape[-1]
    scores = ops.matmul(ops.scale(q, scale=width**-0.5), ops.swap_last(k))
    if is_causal:
        size = scores.shape[-2:]
        future = ops.triu(ops.full(shape=size, value=1, dtype=as_dtype("int32")), 1)
        low = ops.full(shape=[], value=-1e9, dtype=scores.dtype)
        scores = ops.where(ops.not_equal(future, 0), low, scores)
    if attn_mask is not None:
        scores = add_mask(scores, attn_mask)
    weights = dropout(ops.softmax(scores), dropout_p, training=training)
    return ops.transpose(ops.matmul(weights, v), perm=[0, 2, 1, 3])


def add_mask(scores: Tensor, mask: Tensor) -> Tensor:
    """Scores with a mask: bools (or ints) say what to keep, floats are added."""
    if mask.dtype.is_floating:
        return ops.add(scores, cast_if(mask, scores.dtype))
    keep = mask if mask.dtype == "bool" else ops.not_equal(mask, 0)
    low = ops.full(shape=[], value=-1e9, dtype=scores.dtype)
    return ops.where(keep, scores, low)
