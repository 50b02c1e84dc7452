"""Attention in several heads, and the caches of its keys and values."""

from __future__ import annotations

from typing import NamedTuple, overload

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.nn.attr import ParamAttrLike
from proa.nn.functional.attention import add_mask
from proa.nn.layer.base import Layer
from proa.nn.layer.linear import Linear
from proa.tensor.creation import full

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(Layer):
    """softmax(q k^T / sqrt(d) + mask) v in several heads side by side.

    Args:
        embed_dim: Length of the last axis of query and output.
        num_heads: Heads; they divide embed_dim.
        dropout: Probability with which weights are dropped.
        kdim: Length of the last axis of key; None is embed_dim. Likewise vdim.
        need_weights: Whether to return the weights too.

    Shape:
        query (batch, n, embed_dim), key (batch, m, kdim), value (batch, m, vdim);
        attn_mask broadcasts to (batch, heads, n, m): bools say what to keep, floats are
        added. Returns (batch, n, embed_dim).
    """

    class Cache(NamedTuple):
        """Keys and values of earlier steps, to which each call adds its own."""

        k: Tensor
        v: Tensor

    class StaticCache(NamedTuple):
        """Keys and values that stay the same."""

        k: Tensor
        v: Tensor

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        kdim: int | None = None,
        vdim: int | None = None,
        need_weights: bool = False,
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise InvalidArgumentError(
                "[MultiHeadAttention] num_heads must divide embed_dim, "
                f"got {num_heads} and {embed_dim}"
            )
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout, self.need_weights = dropout, need_weights
        #: Called with q, k, v and the mask for the result of the heads, in place of
        #: `scaled_dot_product_attention`; not if weights are returned.
        self.attend: Layer | None = None
        attrs = (weight_attr, bias_attr)
        self.q_proj = Linear(embed_dim, embed_dim, *attrs)
        self.k_proj = Linear(kdim or embed_dim, embed_dim, *attrs)
        self.v_proj = Linear(vdim or embed_dim, embed_dim, *attrs)
        self.out_proj = Linear(embed_dim, embed_dim, *attrs)

    def _split(self, x: Tensor) -> Tensor:
        # (b, n, heads * d) -> (b, n, heads, d)
        return ops.reshape(x, shape=[0, 0, self.num_heads, self.head_dim])

    def _heads(self, x: Tensor) -> Tensor:
        return _swap_heads(self._split(x))

    def compute_kv(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values as heads."""
        return self._heads(self.k_proj(key)), self._heads(self.v_proj(value))

    @overload
    def gen_cache(
        self, key: Tensor, value: Tensor | None = ..., type: type[Cache] = ...
    ) -> Cache: ...
    @overload
    def gen_cache(
        self, key: Tensor, value: Tensor | None = ..., *, type: type[StaticCache]
    ) -> StaticCache: ...
    @overload
    def gen_cache(
        self, key: Tensor, value: Tensor | None, type: type[StaticCache]
    ) -> StaticCache: ...
    def gen_cache(
        self,
        key: Tensor,
        value: Tensor | None = None,
        type: type[Cache] | type[StaticCache] = Cache,
    ) -> Cache | StaticCache:
        """A cache: static of key and value, or one that begins empty (or with them)."""
        if type is MultiHeadAttention.StaticCache:
            return self.StaticCache(
                *self.compute_kv(key, key if value is None else value)
            )
        if value is None:
            shape = [key.shape[0], self.num_heads, 0, self.head_dim]
            empty = full(shape, 0, key.dtype)
            return self.Cache(empty, empty)
        return self.Cache(key, value)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        attn_mask: Tensor | None = None,
        cache: Cache | StaticCache | None = None,
    ) -> Tensor | tuple[Tensor | Cache | StaticCache, ...]:
        key = query if key is None else key
        value = key if value is None else value
        q = self._split(self.q_proj(query))
        if cache is None:
            k, v = self._split(self.k_proj(key)), self._split(self.v_proj(value))
        else:
            if isinstance(cache, self.StaticCache):
                k, v = cache
            else:
                k, v = self.compute_kv(key, value)
                k = ops.concat(cache.k, k, axis=2)
                v = ops.concat(cache.v, v, axis=2)
                cache = self.Cache(k, v)
            k, v = _swap_heads(k), _swap_heads(v)
        weights = None
        if self.need_weights:
            joined, weights = self._attend_plainly(q, k, v, attn_mask)
        elif self.attend is not None:
            joined = self.attend(q, k, v, attn_mask)
        else:
            joined = F.scaled_dot_product_attention(
                q, k, v, attn_mask, self.dropout, training=self.training
            )
        out = self.out_proj(ops.reshape(joined, shape=[0, 0, self.embed_dim]))
        extra = [x for x in (weights, cache) if x is not None]
        return (out, *extra) if extra else out

    def _attend_plainly(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """What scaled_dot_product_attention does, and its weights."""
        q, k, v = (_swap_heads(x) for x in (q, k, v))
        scores = ops.matmul(ops.scale(q, scale=self.head_dim**-0.5), ops.swap_last(k))
        if mask is not None:
            scores = add_mask(scores, mask)
        weights = ops.softmax(scores)
        if self.dropout:
            weights = F.dropout(weights, self.dropout, training=self.training)
        return _swap_heads(ops.matmul(weights, v)), weights


def _swap_heads(x: Tensor) -> Tensor:
    """(b, n, heads, d) as (b, heads, n, d), and back."""
    swapped: Tensor = ops.transpose(x, perm=[0, 2, 1, 3])
    return swapped
