"""Attention with its projections, padding masks and the keys of past steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import proa
import proa.nn.functional as F
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.ops.attention import rotated
from proa.interop.onnx.importer.ops.microsoft.domain import microsoft_op


def split_heads(x: Any, count: int) -> Any:
    """(batch, time, heads * size) -> (batch, time, heads, size)."""
    batch, steps, width = x.shape
    return proa.reshape(x, [batch, steps, count, width // count])


def heads_first(x: Any) -> Any:
    """(batch, time, heads, size) <-> (batch, heads, time, size)."""
    return proa.transpose(x, [0, 2, 1, 3])


def lowest(dtype: Any) -> float:
    """The number that is added to the scores of keys that must not be seen."""
    limits = np.finfo("float32" if dtype.name == "bfloat16" else dtype.name)
    return float(limits.min)


def places(count: Any, axis: int, offset: Any = 0) -> Any:
    """offset, offset + 1, … along one of two axes."""
    shape = [-1, 1] if axis == 0 else [1, -1]
    return proa.reshape(proa.arange(count), shape) + offset


def attend(call: Call, q: Any, k: Any, v: Any, bias: Any, causal: bool) -> Any:
    """(batch, time, heads, size) of each -> (batch, time, heads * value size).

    The last query sees the last key if `causal`, as one step of a generation does.
    """
    queries, keys, size = q.shape[1], k.shape[1], q.shape[3]
    scale = call.get("scale")
    if scale is not None and scale != 0:
        q = q * (scale * math.sqrt(size))
    if causal:
        seen = proa.less_equal(places(keys, 1), places(queries, 0, keys - queries))
        seen = proa.reshape(seen, [1, 1, queries, keys])
        zero = proa.zeros(seen.shape, q.dtype)
        bias = zero if bias is None else bias + zero
        bias = proa.where(seen, bias, proa.full_like(bias, lowest(q.dtype)))
    return proa.flatten(F.scaled_dot_product_attention(q, k, v, bias), 2, 3)


def padding_bias(call: Call, mask: Any, k: Any) -> Any:
    """A mask of keys as what is added to scores (batch, heads, queries, keys).

    It has one element for each key, for each query and key, or the lengths of the rows
    of a batch: one axis, first ends and then starts if there are two of each.
    """
    filter_value = call.get("mask_filter_value", -10000.0)
    batch, keys, dtype = k.shape[0], k.shape[1], k.dtype
    if mask.ndim == 1:
        at = places(keys, 1)
        limits = [proa.reshape(mask, [-1, 1]).astype("int64")]
        if batch != mask.shape[0]:
            limits = proa.split(limits[0], 2, 0)
        attended = proa.less_than(at, limits[0])
        if len(limits) == 2:
            attended = proa.logical_and(attended, proa.greater_equal(at, limits[1]))
    else:
        attended = proa.not_equal(mask, proa.zeros_like(mask))
    if attended.ndim == 2:
        attended = proa.unsqueeze(attended, [1, 2])
    elif attended.ndim == 3:
        attended = proa.unsqueeze(attended, [1])
    zero = proa.zeros(attended.shape, dtype)
    return proa.where(attended, zero, proa.full_like(zero, filter_value))


def total(*biases: Any) -> Any:
    """The sum of those that are there."""
    found = None
    for bias in biases:
        if bias is not None:
            found = bias if found is None else found + bias
    return found


def refuse_shared_buffer(call: Call, *given: Any) -> None:
    """Refuse a cache that has room for later steps and is written in place."""
    if call.get("past_present_share_buffer", 0) or any(v is not None for v in given):
        raise call.refuse("a buffer that past and present share")


def projected_attention(
    call: Call, qkv: Any, mask: Any, past: Any, more_bias: Any
) -> tuple[Any, ...]:
    """Attention of queries, keys and values that are stored side by side."""
    count = call.get("num_heads")
    widths = call.get("qkv_hidden_sizes") or [qkv.shape[-1] // 3] * 3
    q, k, v = (split_heads(t, count) for t in proa.split(qkv, widths, 2))
    if call.get("do_rotary", 0):
        raise call.refuse("do_rotary")
    if past is not None:
        old_k, old_v = (proa.squeeze(t, [0]) for t in proa.split(past, 2, 0))
        k = proa.concat([heads_first(old_k), k], 1)
        v = proa.concat([heads_first(old_v), v], 1)
    bias = None if mask is None else padding_bias(call, mask, k)
    causal = bool(call.get("unidirectional", 0))
    y = attend(call, q, k, v, total(bias, more_bias), causal)
    if len(call.node.outputs) == 1:
        return (y,)
    return y, proa.stack([heads_first(k), heads_first(v)], 0)


@microsoft_op("Attention", weights=(1, 2))
def attention(
    call: Call, x: Any, weights: Any, bias: Any = None, mask: Any = None,
    past: Any = None, more_bias: Any = None, past_length: Any = None,
) -> Any:  # fmt: skip
    refuse_shared_buffer(call, past_length)
    qkv = F.linear(x, weights, bias)
    return projected_attention(call, qkv, mask, past, more_bias)


def _unpacked(q: Any, k: Any, v: Any, count: int) -> list[Any]:
    """Queries, keys and values as (batch, time, heads, size)."""
    if q.ndim == 5:  # (batch, time, heads, 3, size)
        return [proa.squeeze(t, [3]) for t in proa.split(q, 3, 3)]
    q = split_heads(q, count)
    if k.ndim == 5:
        return [q, *(proa.squeeze(t, [3]) for t in proa.split(k, 2, 3))]
    if k.ndim == 4:  # keys of cross attention, heads first
        return [q, heads_first(k), heads_first(v)]
    return [q, split_heads(k, count), split_heads(v, count)]


@microsoft_op("MultiHeadAttention", weights=(3,))
def multi_head_attention(
    call: Call, q: Any, k: Any = None, v: Any = None, bias: Any = None,
    mask: Any = None, more_bias: Any = None, past_k: Any = None, past_v: Any = None,
    *more: Any,
) -> Any:  # fmt: skip
    refuse_shared_buffer(call, *more)
    if len(call.node.outputs) > 3 and call.node.outputs[3]:
        raise call.refuse("scores as an output")
    count = call.get("num_heads")
    is_cross = k is not None and k.ndim == 4
    parts = _unpacked(q, k, v, count)
    if bias is not None:
        size, value_size = parts[0].shape[3], parts[2].shape[3]
        widths = [count * size, count * size, count * value_size]
        shifts = proa.split(bias, widths, 0)
        parts = [
            t if is_cross and i else t + proa.reshape(shift, [count, width // count])
            for i, (t, shift, width) in enumerate(
                zip(parts, shifts, widths, strict=True)
            )
        ]
    q, k, v = parts
    if past_k is not None:
        k = proa.concat([heads_first(past_k), k], 1)
        v = proa.concat([heads_first(past_v), v], 1)
    padding = None if mask is None else padding_bias(call, mask, k)
    causal = bool(call.get("unidirectional", 0))
    y = attend(call, q, k, v, total(padding, more_bias), causal)
    if len(call.node.outputs) == 1:
        return y
    return y, heads_first(k), heads_first(v)


def positions(first: Any, steps: Any) -> Any:
    """Indices (batch, steps) that begin with each row's number."""
    return proa.reshape(first, [-1, 1]).astype("int64") + places(steps, 1)


@microsoft_op("RotaryEmbedding", state=(2, 3))
def rotary_embedding(call: Call, x: Any, ids: Any, cos: Any, sin: Any) -> Any:
    if call.get("is_packed_batching", 0) or call.get("scale", 1.0) != 1.0:
        raise call.refuse("is_packed_batching or a scale")
    size = call.get("rotary_embedding_dim", 0) or 2 * cos.shape[1]
    if x.ndim == 4:
        heads, steps = x, x.shape[2]
    else:
        count = call.get("num_heads", 0) or x.shape[2] // size
        heads, steps = heads_first(split_heads(x, count)), x.shape[1]
    at = positions(ids, steps) if ids.ndim == 1 else ids
    found = rotated(heads, cos, sin, at, size, bool(call.get("interleaved", 0)))
    return found if x.ndim == 4 else proa.flatten(heads_first(found), 2, 3)
