"""Recurrent layers and cells."""

from __future__ import annotations

from typing import Any

import proa
import proa.nn.functional as F
from proa._core import ops
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.table import paddle_op

_CELLS: dict[str, Any] = {
    "LSTM": "lstm", "GRU": "gru", "RNN_TANH": "tanh", "RNN_RELU": "relu",
}  # fmt: skip
#: Activations by the numbers of `gru_unit`.
_NUMBERED = [lambda x: x, F.sigmoid, proa.tanh, F.relu]


def _part(v: Any, i: int) -> Any:
    return proa.squeeze(proa.slice(v, [0], [i], [i + 1]), [0])


@paddle_op(
    "rnn", inputs="Input PreState* WeightList* SequenceLength", outputs="Out State*",
    weights="WeightList",
)  # fmt: skip
def rnn(
    call: Call, x: Any, states: list[Any], weights: list[Any], length: Any = None
) -> Any:
    """Layers of one or both directions; x is (time, batch, size).

    Weights come first, of the input and of the state for each direction of each layer,
    then biases in the same order.
    """
    directions = 2 if call.flag("is_bidirec") else 1
    layers, mode = call.get("num_layers", 1), call.get("mode", "LSTM")
    biases = weights[len(weights) // 2 :]
    length = None if length is None else length.astype("int32")
    hs, cs = [], []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            w, r, wb, rb = *weights[2 * k : 2 * k + 2], *biases[2 * k : 2 * k + 2]
            gates = F.linear(x, proa.transpose(w, [1, 0]), wb)
            cell = _part(states[1], k) if mode == "LSTM" else None
            y, h, c, _ = ops.recurrent(
                gates, r, _part(states[0], k), cell, rb, length, cell=_CELLS[mode],
                reverse=direction == 1,
            )  # fmt: skip
            outputs.append(y)
            hs.append(h)
            cs.append(c)
        x = outputs[0] if directions == 1 else proa.concat(outputs, -1)
        if call.training and layer < layers - 1:
            x = F.dropout(x, call.get("dropout_prob", 0.0))
    state = [proa.stack(hs, 0)]
    return x, [*state, proa.stack(cs, 0)] if mode == "LSTM" else state


@paddle_op(
    "gru_unit", inputs="Input HiddenPrev Weight Bias", weights="Weight Bias",
    outputs="Gate ResetHiddenPrev Hidden",
)  # fmt: skip
def gru_unit(call: Call, x: Any, h: Any, w: Any, bias: Any = None) -> Any:
    """One step: w (size, 3 * size) has update and reset first, then the candidate."""
    size = h.shape[-1]
    gate = _NUMBERED[call.get("gate_activation", 1)]
    candidate = _NUMBERED[call.get("activation", 2)]
    x = x if bias is None else x + bias
    two = gate(
        proa.slice(x, [1], [0], [2 * size])
        + proa.matmul(h, proa.slice(proa.reshape(w, [-1]), [0], [0], [2 * size * size])
                      .reshape([size, 2 * size]))
    )  # fmt: skip
    u, r = proa.split(two, 2, -1)
    reset = r * h
    last = proa.slice(
        proa.reshape(w, [-1]), [0], [2 * size * size], [3 * size * size]
    ).reshape([size, size])
    c = candidate(proa.slice(x, [1], [2 * size], [3 * size]) + proa.matmul(reset, last))
    if call.flag("origin_mode"):
        found = u * h + (1.0 - u) * c
    else:
        found = u * c + (1.0 - u) * h
    return proa.concat([two, c], -1), reset, found


@paddle_op("lstm_unit", inputs="X C_prev", outputs="C H")
def lstm_unit(call: Call, x: Any, c: Any) -> Any:
    i, f, o, g = proa.split(x, 4, -1)
    forget = F.sigmoid(f + call.get("forget_bias", 0.0))
    c = forget * c + F.sigmoid(i) * proa.tanh(g)
    return c, F.sigmoid(o) * proa.tanh(c)
