"""The row of recurrent cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.standard import (
    squeeze,
    transpose,
    unsqueeze,
    where,
)
from proa.interop.onnx.exporter.table import export_row

#: Which of our gates is at each place of the standard's.
_GATES = {
    "lstm": (0, 3, 1, 2),  # i f g o -> i o f c
    "gru": (1, 0, 2),  # r z n -> z r h
    "tanh": (0,),
    "relu": (0,),
}


def _in_order(c: Call, v: Ref, gates: Sequence[int]) -> Ref:
    """Rows (or numbers) of each gate in the standard's order."""
    if len(gates) == 1:
        return v
    assert v.shape is not None
    hidden = v.shape[0] // len(gates)
    places = np.concatenate([np.arange(hidden) + g * hidden for g in gates])
    if v.data is not None:
        return c.const(v.data[places], v.dtype)
    found = c.op("Gather", v, c.const(places, "int64"), axis=0)
    return Ref(found.name, v.dtype, v.shape)


def _input_product(c: Call, xg: Ref, size: int) -> tuple[Ref, Ref, Ref]:
    """The arrays of which `linear` made the inputs' part of the gates: the sequence,
    the weight (gates, in) and the bias.
    """
    node = c.maker_of(c.given(0))
    if node is not None and node.op == "linear":
        x, w, bias = (c.written(v) for v in (*node.inputs, None)[:3])
        if x is not None and w is not None and x.rank == 3:
            bias = c.const(np.zeros(size), xg.dtype) if bias is None else bias
            return x, transpose(c, w, [1, 0]), bias
    identity, none = np.eye(size), np.zeros(size)
    return xg, c.const(identity, xg.dtype), c.const(none, xg.dtype)


def _stacked(c: Call, parts: Sequence[Ref]) -> Ref:
    if all(p.data is not None for p in parts):
        data = [p.data for p in parts if p.data is not None]
        return c.const(np.concatenate(data), parts[0].dtype)
    return c.op("Concat", *parts, axis=0)


def _one_direction(c: Call, v: Ref) -> Ref:
    """v with a first axis of size 1."""
    if v.data is not None:
        return c.const(v.data[None], v.dtype)
    return unsqueeze(c, v, [0])


def _lengths(c: Call, length: Ref, time: int | Ref) -> Ref:
    """How many steps each sequence has: at most `time`."""
    limit = c.ints([time]) if isinstance(time, int) else time
    length = c.cast(length, "int64")
    fits = c.op("Less", length, limit)
    return c.cast(where(c, fits, length, limit), "int32")


@export_row("recurrent")
def recurrent(
    c: Call, xg: Ref, w: Ref, h0: Ref, c0: Ref | None = None, bias: Ref | None = None,
    length: Ref | None = None, *, cell: str, reverse: bool,
) -> list[Ref]:  # fmt: skip
    assert w.shape is not None
    gates, (size, hidden) = _GATES[cell], w.shape
    if min(size, hidden) < 0:
        c.refuse("weights of symbolic sizes")
    if 0 in (xg.shape or ())[:2]:
        return [c.const(np.zeros(c.outputs[0].shape), xg.dtype), h0, c0 or h0]
    x, w_in, b_in = _input_product(c, xg, size)
    bias = c.const(np.zeros(size), xg.dtype) if bias is None else bias
    weights = [_one_direction(c, _in_order(c, v, gates)) for v in (w_in, w)]
    biases = _stacked(c, [_in_order(c, v, gates) for v in (b_in, bias)])
    lengths = None if length is None else _lengths(c, length, c.size(xg, 0))
    states = [_one_direction(c, v) for v in (h0, c0) if v is not None]
    attrs: dict[str, Any] = {
        "hidden_size": hidden,
        "direction": "reverse" if reverse else "forward",
        "linear_before_reset": 1 if cell == "gru" else None,
        "activations": ["Relu"] if cell == "relu" else None,
    }
    op = {"lstm": "LSTM", "gru": "GRU"}.get(cell, "RNN")
    count = 3 if cell == "lstm" else 2
    y, *last = c.ops(
        op, count, x, *weights, _one_direction(c, biases), lengths, *states, **attrs
    )
    found = [squeeze(c, y, [1]), *(squeeze(c, v, [0]) for v in last)]
    if lengths is not None:
        # After no step at all the states are the first ones.
        some = unsqueeze(c, c.op("Greater", lengths, c.const(0, "int32")), [1])
        initial = [v for v in (h0, c0) if v is not None]
        found[1:] = [
            where(c, some, v, k) for v, k in zip(found[1:], initial, strict=True)
        ]
    if cell != "lstm" and -1 not in c.outputs[2].shape:
        found.append(c.const(np.zeros(c.outputs[2].shape), xg.dtype))
    return found
