"""Attention."""

from __future__ import annotations

from proa._core import Tensor, ops
from proa.base.random import next_key
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.arguments import cast_if, check_rank

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    name: str | None = None,
) -> Tensor:
    """softmax(q k^T / sqrt(d) + mask) v, head by head, without the matrix of scores
    (Vaswani et al., 2017).

    Args:
        query: (batch, n, heads, d), floating.
        key: (batch, m, heads, d), of the same dtype.
        value: (batch, m, heads, e), of the same dtype.
        attn_mask: Broadcasts to (batch, heads, n, m): bools (or ints) say which keys to
            keep, floats are added to the scores.
        dropout_p: Probability with which weights are dropped while training, in [0, 1].
        is_causal: Whether query i sees keys 0 .. i alone.
        training: Whether to drop.

    Returns:
        (batch, n, heads, e). Its memory grows with n + m, not n * m, unless the
        gradient of a mask or a second derivative is requested.
    """
    if not 0 <= dropout_p <= 1:
        raise InvalidArgumentError(
            "[scaled_dot_product_attention] dropout_p must be in [0, 1], "
            f"got {dropout_p}"
        )
    for name, array in (("query", query), ("key", key), ("value", value)):
        check_rank("scaled_dot_product_attention", name, array, 4, 4)
    if query.shape[-1] == 0:
        raise ShapeError(
            "scaled_dot_product_attention",
            "expected query with at least 1 feature (the last axis)",
            query.shape,
        )
    p = float(dropout_p) if training else 0.0
    seed, offset = 0, 0
    if p > 0:  # as many numbers as there are weights
        batch, n, heads, _ = query.shape
        seed, offset = next_key(batch * heads * n * key.shape[1])
    mask = None if attn_mask is None else as_mask(attn_mask, query)
    out: Tensor = ops.attention(
        query, key, value, mask,
        scale=query.shape[-1] ** -0.5, causal=is_causal, p=p, seed=seed, offset=offset,
    )[0]  # fmt: skip
    return out


def as_mask(mask: Tensor, like: Tensor) -> Tensor:
    """The mask as the operator takes it: bools, or numbers of the dtype of `like`."""
    if mask.dtype.is_floating:
        return cast_if(mask, like.dtype)
    return mask if mask.dtype == "bool" else ops.not_equal(mask, 0)


def add_mask(scores: Tensor, mask: Tensor) -> Tensor:
    """Scores with a mask: bools (or ints) say what to keep, floats are added."""
    mask = as_mask(mask, scores)
    if mask.dtype.is_floating:
        return ops.add(scores, mask)
    low = ops.full(shape=[], value=-1e9, dtype=scores.dtype)
    return ops.where(mask, scores, low)
