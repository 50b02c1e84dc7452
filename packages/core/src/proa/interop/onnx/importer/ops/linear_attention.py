"""Attention whose keys and values are summed up in a state (LinearAttention)."""

from __future__ import annotations

import math
from typing import Any

import proa
from proa.interop.graph.values import without_axis
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.table import onnx_op

#: Update rules: whether the state decays, and whether values are corrected by what the
#: state has for their key.
_RULES = {
    "linear": (False, False), "gated": (True, False), "delta": (False, True),
    "gated_delta": (True, True),
}  # fmt: skip


def _unpacked(x: Any, heads: int) -> Any:
    """(batch, time, heads * size) -> (batch, heads, time, size)."""
    batch, steps, width = x.shape
    x = proa.reshape(x, [batch, steps, heads, width // heads])
    return proa.transpose(x, [0, 2, 1, 3])


def _at(x: Any, step: int) -> Any:
    """(batch, heads, time, size) -> (batch, heads, size), at a time."""
    return without_axis(proa.slice(x, [2], [step], [step + 1]), 2)


@onnx_op("LinearAttention", since=27)
def linear_attention(
    call: Call, q: Any, k: Any, v: Any, past: Any = None, decay: Any = None,
    beta: Any = None,
) -> Any:  # fmt: skip
    """For each time S = exp(g) S + b k (v - exp(g) S^T k)^T and o = scale S^T q.

    Products are of float32 at least.
    """
    rule = call.get("update_rule", "gated_delta")
    if rule not in _RULES:
        raise call.refuse(f"update_rule {rule}")
    decays, corrects = _RULES[rule]
    if (decays and decay is None) or (corrects and beta is None):
        raise call.refuse(f"update_rule {rule} without decay or beta")
    dtype, heads = q.dtype, call.get("kv_num_heads")
    shared = call.get("q_num_heads") // heads
    wide = dtype if dtype == "float64" else "float32"
    q, k, v = (x.astype(wide) for x in (q, k, v))
    q, k, v = _unpacked(q, heads * shared), _unpacked(k, heads), _unpacked(v, heads)
    batch, size = k.shape[0], k.shape[3]
    scale = call.get("scale", 0.0) or 1.0 / math.sqrt(size)
    (steps,) = call.known([k.shape[2]])
    state = proa.zeros([batch, heads, size, v.shape[3]], wide)
    if past is not None:
        state = past.astype(wide)
    gates = proa.exp(_unpacked(decay.astype(wide), heads)) if decays else None
    rates = _rates(beta.astype(wide), heads) if corrects else None
    found = []
    for step in range(steps):
        key, value = _at(k, step), _at(v, step)
        if gates is not None:  # for a head, or for each of its elements of keys
            state = state * proa.unsqueeze(_at(gates, step), [3])
        if rates is not None:
            known = proa.squeeze(proa.matmul(proa.unsqueeze(key, [2]), state), [2])
            value = (value - known) * _at(rates, step)
        state = state + proa.unsqueeze(key, [3]) * proa.unsqueeze(value, [2])
        query = proa.reshape(_at(q, step), [batch, heads, shared, size])
        found.append(proa.flatten(proa.matmul(query, state), 1, 3))
    y = proa.stack(found, 1) * scale
    return y.astype(dtype), state.astype(dtype if past is None else past.dtype)


def _rates(beta: Any, heads: int) -> Any:
    """(batch, time, heads), or one for all heads, as (batch, heads or 1, time, 1)."""
    return _unpacked(beta, heads if beta.shape[2] == heads else 1)
