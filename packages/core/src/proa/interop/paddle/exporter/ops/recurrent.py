"""The row of recurrent layers."""

from __future__ import annotations

import numpy as np

from proa.interop.exporter.target import Ref
from proa.interop.paddle.exporter.call import Call
from proa.interop.paddle.exporter.ops.elementwise import scaled
from proa.interop.paddle.exporter.table import export_row

_MODES = {"lstm": "LSTM", "gru": "GRU", "tanh": "RNN_TANH", "relu": "RNN_RELU"}


@export_row("recurrent")
def recurrent(
    c: Call, xg: Ref, w: Ref, h0: Ref, c0: Ref | None = None, bias: Ref | None = None,
    length: Ref | None = None, *, cell: str, reverse: bool,
) -> tuple[Ref, ...]:  # fmt: skip
    if -1 in (w.shape or ()):
        c.refuse("a weight of symbolic sizes")
    x, weight, input_bias = _input(c, xg, w)
    zeros = c.const(np.zeros(weight.shape[0] if weight.shape else 0), w.dtype)
    order = None
    if reverse and length is not None:
        order = _backwards(c, xg, length)
    if reverse:
        x = _reversed(c, x, order)
    states = [c.unsqueeze(h, [0]) for h in (h0, c0) if h is not None]
    y = c.writer.variable(c.writer.stem, x.dtype, c.outputs[0].shape)
    last = [c.writer.variable(c.writer.stem, x.dtype, s.shape) for s in states]
    more = [c.writer.variable(f"{c.writer.stem}.unread", x.dtype, None) for _ in "ab"]
    weights = [weight, w, input_bias or zeros, bias or zeros]
    size = w.shape[1] if w.shape else 0
    c.writer.op(
        "rnn",
        {"Input": [x.name], "PreState": [s.name for s in states],
         "WeightList": [v.name for v in weights],
         "SequenceLength": [] if length is None else [length.name]},
        {"Out": [y.name], "State": [s.name for s in last],
         "Reserve": [more[0].name], "DropoutState": [more[1].name]},
        {"mode": _MODES[cell], "hidden_size": size, "num_layers": 1,
         "input_size": x.shape[-1] if x.shape else 0, "is_bidirec": False,
         "dropout_prob": 0.0, "is_test": True, "seed": 0},
    )  # fmt: skip
    if reverse:
        y = _reversed(c, y, order)
    ends = [
        c.op("squeeze2", {"X": s}, h0.shape, more=["XShape"], axes=[0]) for s in last
    ]
    return (y, *ends)


def _input(c: Call, xg: Ref, w: Ref) -> tuple[Ref, Ref, Ref | None]:
    """The sequence and its weight (gates * size, width), from which xg was made.

    xg itself with an identity, if a linear layer with a known weight made it not.
    """
    node = c.maker_of(c.given(0))
    if node is not None and node.op == "linear":
        x, weight, bias = (c.written(v) for v in (*node.inputs, None)[:3])
        if x is not None and weight is not None and weight.data is not None:
            transposed = np.ascontiguousarray(weight.data.T)
            return x, c.writer.constant(transposed, weight.dtype), bias
    gates = w.shape[0] if w.shape else 0
    return xg, c.const(np.eye(gates), w.dtype), None


def _reversed(c: Call, x: Ref, order: Ref | None) -> Ref:
    """Sequences (time, batch, width) from their ends."""
    if order is None:
        return c.unary("flip", x, axis=[0])
    return c.op("gather_nd", {"X": x, "Index": order}, x.shape)


def _backwards(c: Call, x: Ref, length: Ref) -> Ref:
    """(time, batch, 2): which element of which sequence has a place in the reversed
    sequences; what is after their ends stays.
    """
    assert x.shape is not None
    shape = x.shape[:2]
    ones = c.filled([c.size(x, 0), c.size(x, 1)], 1.0, "int64")
    time, batch = (
        c.unary(
            "cumsum", ones, axis=axis, flatten=False, exclusive=True, reverse=False
        ) for axis in (0, 1)
    )  # fmt: skip
    n = c.cast(length, "int64")
    back = c.binary("elementwise_sub", scaled(c, n, 1.0, -1.0), time)
    inside = c.binary("less_than", time, n, dtype="bool")
    place = c.row("where", inside, back, time)
    return c.op("stack", {"X": [place, batch]}, [*shape, 2], out="Y", axis=2)
