"""Attention and rotary position embedding."""

from __future__ import annotations

import math
from typing import Any

import proa
import proa.nn.functional as F
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.ops.elementwise import dtype_of
from proa.interop.onnx.importer.table import onnx_op

_MASKED = float("-inf")


def _heads(x: Any, count: Any) -> Any:
    """(batch, time, heads * size) -> (batch, heads, time, size)."""
    if x.ndim == 4:
        return x
    batch, steps, width = x.shape
    size = width // count
    return proa.transpose(proa.reshape(x, [batch, steps, count, size]), [0, 2, 1, 3])


def repeated(x: Any, count: int) -> Any:
    """Heads of keys or values, each as often as heads of queries share it."""
    batch, heads, steps, size = x.shape
    if heads == count:
        return x
    groups = proa.expand(
        proa.unsqueeze(x, [2]), [batch, heads, count // heads, steps, size]
    )
    return proa.reshape(groups, [batch, count, steps, size])


def _bias_of(mask: Any, dtype: Any, steps: int) -> Any:
    """A mask as what is added to scores; keys that it does not reach are masked."""
    if mask.dtype.name == "bool":
        zero = proa.zeros(mask.shape, dtype)
        mask = proa.where(mask, zero, proa.full_like(zero, _MASKED))
    short = steps - mask.shape[-1]
    if short > 0:
        rest = proa.full([*mask.shape[:-1], short], _MASKED, mask.dtype)
        mask = proa.concat([mask, rest], -1)
    return mask


def _allowed(call: Call, queries: int, keys: int, offset: Any, lengths: Any) -> Any:
    """Which keys a query may see; None if all. Query i is at i + offset."""
    before = call.get("left_window_size", -1)
    after = call.get("right_window_size", -1)
    if call.get("is_causal", 0):
        after = 0 if after < 0 else min(after, 0)
    i = proa.reshape(proa.arange(queries), [-1, 1])
    j = proa.reshape(proa.arange(keys), [1, -1])
    found = []
    if lengths is not None:
        lengths = proa.reshape(lengths.astype("int64"), [-1, 1, 1, 1])
        found.append(proa.less_than(j, lengths))
        offset = lengths - queries
    if after >= 0:
        found.append(proa.less_equal(j, i + offset + after))
    if before >= 0:
        found.append(proa.greater_equal(j, i + offset - before))
    if not found:
        return None
    allowed = found[0]
    for more in found[1:]:
        allowed = proa.logical_and(allowed, more)
    return allowed


@onnx_op("Attention", since=23)
def attention(
    call: Call, q: Any, k: Any, v: Any, mask: Any = None, past_k: Any = None,
    past_v: Any = None, lengths: Any = None,
) -> Any:  # fmt: skip
    is_flat, dtype = q.ndim == 3, q.dtype
    key_heads = call.get("kv_num_heads")
    q = _heads(q, call.get("q_num_heads"))
    k, v = _heads(k, key_heads), _heads(v, key_heads)
    offset = 0
    if past_k is not None:
        offset = past_k.shape[2]
        k, v = proa.concat([past_k, k], 2), proa.concat([past_v, v], 2)
    present = k, v
    count, queries, keys = q.shape[1], q.shape[2], k.shape[2]
    # Half of the scale on each side keeps float16 in range.
    scale = math.sqrt(call.get("scale") or 1.0 / math.sqrt(q.shape[3]))
    k = proa.transpose(repeated(k, count), [0, 1, 3, 2])
    scores = proa.matmul(q * scale, k * scale)
    stages = [scores]
    softcap = call.get("softcap", 0.0)
    if softcap:
        scores = proa.tanh(scores / softcap) * softcap
    stages.append(scores)
    if mask is not None:
        scores = scores + _bias_of(mask, dtype, keys)
    allowed = _allowed(call, queries, keys, offset, lengths)
    if allowed is not None:
        scores = proa.where(allowed, scores, proa.full_like(scores, _MASKED))
    stages.append(scores)
    precision = call.get("softmax_precision")
    wide = scores if precision is None else scores.astype(dtype_of(call, precision))
    best = proa.max(wide, -1, True)
    nothing = proa.equal(best, proa.full_like(best, _MASKED))
    safe = proa.where(nothing, proa.zeros_like(wide), wide)
    weights = F.softmax(safe, -1)
    weights = proa.where(nothing, proa.zeros_like(weights), weights).astype(dtype)
    stages.append(weights)
    y = proa.matmul(weights, repeated(v, count))
    if is_flat:
        y = proa.flatten(proa.transpose(y, [0, 2, 1, 3]), 2, 3)
    return (y, *present, stages[call.get("qk_matmul_output_mode", 0)])


@onnx_op("FlexAttention", domain="ai.onnx.preview")
def flex_attention(call: Call, q: Any, k: Any, v: Any) -> Any:
    """Attention whose scores and probabilities graphs among the attributes change."""
    dtype = q.dtype
    precision = call.get("softmax_precision")
    wide = "float64" if dtype == "float64" else "float32"
    wide = wide if precision is None else dtype_of(call, precision)
    count, size = q.shape[1], q.shape[3]
    k, v = repeated(k, count), repeated(v, count)
    scale = call.get("scale") or 1.0 / math.sqrt(size)
    scores = proa.matmul(q.astype(wide), k.astype(wide), transpose_y=True) * scale
    for name in ("score_mod", "prob_mod"):
        if (graph := call.get(name)) is not None:
            (scores,) = call.run(graph, [scores])
        if name == "score_mod":
            scores = F.softmax(scores, -1)
    return proa.matmul(scores.astype(dtype), v)


@onnx_op("RotaryEmbedding", since=23)
def rotary_embedding(call: Call, x: Any, cos: Any, sin: Any, at: Any = None) -> Any:
    shape, is_flat = x.shape, x.ndim == 3
    x = _heads(x, call.get("num_heads"))
    size = call.get("rotary_embedding_dim", 0) or x.shape[-1]
    found = rotated(x, cos, sin, at, size, bool(call.get("interleaved", 0)))
    if is_flat:
        return proa.reshape(proa.transpose(found, [0, 2, 1, 3]), shape)
    return found


def rotated(x: Any, cos: Any, sin: Any, at: Any, size: int, interleaved: bool) -> Any:
    """Rotary position embedding of the first `size` elements (Su et al., 2021).

    Args:
        x: (batch, heads, time, width).
        cos, sin: (positions, size / 2), or (batch, time, size / 2) without `at`.
        at: Positions, (batch, time).
        interleaved: Whether pairs are neighbours; else they are in two halves.
    """
    last, rest = x.ndim - 1, None
    if size < x.shape[-1]:
        rest = proa.slice(x, [last], [size], [2**31 - 1])
        x = proa.slice(x, [last], [0], [size])
    if at is not None:
        flat = proa.reshape(at, [-1])
        cos, sin = (
            proa.reshape(proa.gather(t, flat, 0), [*at.shape, size // 2])
            for t in (cos, sin)
        )
    cos, sin = proa.unsqueeze(cos, [1]), proa.unsqueeze(sin, [1])
    if interleaved:
        a, b = (proa.strided_slice(x, [last], [i], [2**31 - 1], [2]) for i in (0, 1))
    else:
        a, b = proa.split(x, 2, -1)
    real, imaginary = cos * a - sin * b, sin * a + cos * b
    if interleaved:
        found = proa.flatten(proa.stack([real, imaginary], -1), last, last + 1)
    else:
        found = proa.concat([real, imaginary], -1)
    return found if rest is None else proa.concat([found, rest], -1)
