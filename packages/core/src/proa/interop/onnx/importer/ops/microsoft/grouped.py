"""Grouped-query attention with a cache of keys and values (Ainslie et al., 2023)."""

from __future__ import annotations

import math
from typing import Any

import proa
import proa.nn.functional as F
from proa.interop.graph.values import is_sizes, is_symbolic
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.ops.attention import repeated, rotated
from proa.interop.onnx.importer.ops.microsoft.attention import (
    heads_first,
    lowest,
    places,
    positions,
    split_heads,
    total,
)
from proa.interop.onnx.importer.ops.microsoft.domain import microsoft_op

#: What caches of integers, and windows that evict keys, would need.
_REFUSED = ("kv_cache_bit_width", "sliding_window_cache", "qk_output")


def _cached(past: Any, new: Any, before: Any, length: Any) -> Any:
    """The keys or values of all steps: `before` old ones of each row, then the new.

    Args:
        past: (batch, heads, room, size), of which a row has `before` elements.
        new: (batch, heads, steps, size).
        length: How many steps the result has; later elements are not defined.
    """
    if past is None:
        return new
    both = proa.concat([past, new], 2)
    room, steps = past.shape[2], new.shape[2]
    at = places(length, 1)  # (1, length)
    moved = proa.minimum(at - before + room, proa.zeros_like(at) + (room + steps - 1))
    index = proa.where(proa.less_than(at, before), at + before * 0, moved)
    index = proa.unsqueeze(index, [1, 3])
    batch, heads, _, size = both.shape
    index = proa.expand(index, [batch, heads, length, size])
    return proa.take_along_axis(both, index, 2)


def _room(call: Call, past: Any, steps: Any, given: Any) -> Any:
    """The time axis of the present keys.

    A cache that is as long as the longest sequence stays so if the total length is
    known; otherwise every step makes it longer.
    """
    if past is None:
        return steps
    room = past.shape[2]
    if given is None or is_symbolic(given) or is_sizes(given):
        return room + steps
    return max(room, call.number(given))


def _normalised(call: Call, x: Any, weight: Any, name: str) -> Any:
    if weight is None:
        return x
    epsilon = call.get(name, call.get("qk_norm_epsilon", 1e-6))
    wide = x.astype("float32")
    wide = wide / proa.sqrt(proa.mean(proa.square(wide), [-1], True) + epsilon)
    return wide.astype(x.dtype) * weight


def _weights(call: Call, scores: Any, sink: Any) -> Any:
    """The softmax of scores, with a key that has no value if the model has one."""
    if sink is None and not call.get("smooth_softmax", 0):
        return F.softmax(scores, -1)
    batch, heads, steps, _ = scores.shape
    extra = proa.zeros([batch, heads, steps, 1], scores.dtype)
    if sink is not None:
        extra = extra + proa.reshape(sink, [1, -1, 1, 1])
    found = F.softmax(proa.concat([scores, extra], -1), -1)
    return proa.slice(found, [3], [0], [-1])


@microsoft_op("GroupQueryAttention", state=(7, 8), weights=(14, 15))
def group_query_attention(
    call: Call, q: Any, k: Any, v: Any, past_k: Any, past_v: Any, lengths: Any,
    total_length: Any, cos: Any = None, sin: Any = None, ids: Any = None,
    more_bias: Any = None, sink: Any = None, k_scale: Any = None, v_scale: Any = None,
    q_norm: Any = None, k_norm: Any = None, chunks: Any = None,
) -> Any:  # fmt: skip
    for name in _REFUSED:
        if call.get(name, 0):
            raise call.refuse(name)
    if any(t is not None for t in (k_scale, v_scale, chunks)):
        raise call.refuse("a quantized cache or query_seqlens")
    count, key_count = call.get("num_heads"), call.get("kv_num_heads")
    if k is None:
        size = q.shape[2] // (count + 2 * key_count)
        widths = [count * size, key_count * size, key_count * size]
        q, k, v = proa.split(q, widths, 2)
    q = heads_first(split_heads(q, count))
    k, v = (heads_first(split_heads(t, key_count)) for t in (k, v))
    q = _normalised(call, q, q_norm, "q_norm_epsilon")
    k = _normalised(call, k, k_norm, "k_norm_epsilon")
    steps, size = q.shape[2], q.shape[3]
    # Steps that a row of the batch has seen before; a first prompt may be padded.
    before = proa.reshape(lengths, [-1, 1]).astype("int64") + 1 - steps
    before = proa.maximum(before, proa.zeros_like(before))
    if call.get("do_rotary", 0):
        at, half = positions(before, steps), bool(call.get("rotary_interleaved", 0))
        q, k = (rotated(t, cos, sin, at, 2 * cos.shape[1], half) for t in (q, k))
    room = _room(call, past_k, steps, total_length)
    k, v = _cached(past_k, k, before, room), _cached(past_v, v, before, room)
    scale = call.get("scale", 0.0) or 1.0 / math.sqrt(size)
    keys = proa.transpose(repeated(k, count), [0, 1, 3, 2])
    scores = proa.matmul(q * scale, keys)
    cap = call.get("softcap", 0.0)
    scores = proa.tanh(scores / cap) * cap if cap else scores
    scores = total(scores, more_bias)
    seen = _seen(call, before, steps, room)
    scores = proa.where(seen, scores, proa.full_like(scores, lowest(scores.dtype)))
    y = proa.matmul(_weights(call, scores, sink), repeated(v, count))
    return proa.flatten(heads_first(y), 2, 3), k, v


def _seen(call: Call, before: Any, steps: Any, room: Any) -> Any:
    """Which keys a query sees, (batch, 1, steps, room)."""
    key = proa.reshape(proa.arange(room), [1, 1, 1, -1])
    first = proa.reshape(before, [-1, 1, 1, 1])
    query = proa.reshape(proa.arange(steps), [1, 1, -1, 1]) + first
    last = query if call.get("causal", 1) else first + (steps - 1)
    seen = proa.less_equal(key, last + query * 0)
    window = call.get("local_window_size", -1)
    if window > 0:
        seen = proa.logical_and(seen, proa.greater_than(key, query - window))
    return seen
