"""Recurrent layers over sequences of rows: ``lstm`` and ``gru`` of Paddle 1.x.

Their input has the gates' part of the input already. A loop goes over the steps of all
sequences at once; one that has ended keeps its states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import proa
import proa.nn.functional as F
from proa._core import ops
from proa.interop.paddle.importer.call import Call
from proa.interop.paddle.importer.ops.sequence import sequences_of
from proa.interop.paddle.importer.table import paddle_op
from proa.jit.control_flow import while_loop
from proa.nn.sequence_layouts import reversed_rows
from proa.nn.sequences import RowSequences
from proa.tensor.creation import zeros
from proa.tensor.symbolic_dims import number_of

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "sigmoid": F.sigmoid, "tanh": proa.tanh, "relu": F.relu, "identity": lambda x: x,
}  # fmt: skip
Step = Callable[..., Sequence[Any]]


def _activation(call: Call, name: str, default: str) -> Callable[[Any], Any]:
    kind = call.get(name, default)
    if kind not in _ACTIVATIONS:
        raise call.refuse(f"{name}={kind!r}")
    return _ACTIVATIONS[kind]


def _scanned(
    x: Any, own: RowSequences, states: Sequence[Any], step: Step, backwards: bool
) -> list[Any]:
    """The states after each row.

    Args:
        x: (rows, n).
        states: The first ones, (sequences, size) each.
        step: New states of rows (sequences, n) and states.
        backwards: Whether sequences begin at their ends.
    """
    if backwards:
        x = reversed_rows(x, own)
    steps = own.step_numbers()
    index, inside = own.grid(steps)
    wide = ops.gather(x, ops.transpose(index, perm=[1, 0]), axis=0)
    mask = ops.unsqueeze(ops.transpose(inside, perm=[1, 0]), axis=[2])
    end = ops.cast(number_of(steps.shape[0]), dtype="int64")
    count = len(states)

    def once(t: Any, *held: Any) -> list[Any]:
        now, before = held[:count], held[count:]
        lives = ops.gather(mask, t, axis=0)
        new = step(ops.gather(wide, t, axis=0), *now)
        next_states = [ops.where(lives, a, b) for a, b in zip(new, now, strict=True)]
        grown = [
            ops.concat(rows, ops.unsqueeze(h, axis=[0]), axis=0)
            for rows, h in zip(before, next_states, strict=True)
        ]
        return [ops.add(t, 1), *next_states, *grown]

    none = [zeros([0, own.count, int(h.shape[-1])], h.dtype) for h in states]
    begin = ops.full_like(end, value=0, dtype="int64")
    ended = while_loop(
        lambda t, *_: ops.less_than(t, end), once, [begin, *states, *none]
    )
    owners = own.owners()
    width = ops.cast(number_of(own.count), dtype="int64")
    flat = ops.add(ops.mul(own.places(owners), width), owners)
    found = []
    for rows in ended[1 + count :]:
        result = ops.gather(ops.flatten(rows, start_axis=0, stop_axis=1), flat, axis=0)
        found.append(reversed_rows(result, own) if backwards else result)
    return found


def _first(given: Any, own: RowSequences, size: int, like: Any) -> Any:
    return zeros([own.count, size], like.dtype) if given is None else given


@paddle_op(
    "lstm", inputs="Input Input@LOD* H0 C0 Weight Bias", weights="Weight Bias",
    outputs="Hidden Cell",
)  # fmt: skip
def lstm(
    call: Call, x: Any, levels: list[Any], h: Any, c: Any, w: Any, bias: Any
) -> Any:
    """Gates in order: candidate, input, forget, output. After their biases come the
    peepholes of input, forget and output.
    """
    own, size = sequences_of(call, x, levels), int(w.shape[0])
    gate = _activation(call, "gate_activation", "sigmoid")
    cell = _activation(call, "cell_activation", "tanh")
    candidate = _activation(call, "candidate_activation", "tanh")
    bias = proa.reshape(bias, [-1])
    x = x + proa.slice(bias, [0], [0], [4 * size])
    holes: list[Any] = [0.0, 0.0, 0.0]
    if call.flag("use_peepholes", True):
        holes = proa.split(proa.slice(bias, [0], [4 * size], [7 * size]), 3, 0)

    def step(row: Any, h: Any, c: Any) -> list[Any]:
        g, i, f, o = proa.split(row + proa.matmul(h, w), 4, -1)
        now = candidate(g) * gate(i + c * holes[0]) + c * gate(f + c * holes[1])
        return [gate(o + now * holes[2]) * cell(now), now]

    states = [_first(h, own, size, x), _first(c, own, size, x)]
    return tuple(_scanned(x, own, states, step, call.flag("is_reverse")))


@paddle_op(
    "gru", inputs="Input Input@LOD* H0 Weight Bias", weights="Weight Bias",
    outputs="Hidden",
)  # fmt: skip
def gru(call: Call, x: Any, levels: list[Any], h: Any, w: Any, bias: Any = None) -> Any:
    """Gates in order: update, reset, candidate; the weight has the first two's part as
    one matrix, then the candidate's.
    """
    own, size = sequences_of(call, x, levels), int(w.shape[0])
    gate = _activation(call, "gate_activation", "sigmoid")
    candidate = _activation(call, "activation", "tanh")
    flat = proa.reshape(w, [-1])
    two = proa.reshape(proa.slice(flat, [0], [0], [2 * size * size]), [size, 2 * size])
    last = proa.slice(flat, [0], [2 * size * size], [3 * size * size])
    last = proa.reshape(last, [size, size])
    x = x if bias is None else x + proa.reshape(bias, [-1])
    origin = call.flag("origin_mode")

    def step(row: Any, h: Any) -> list[Any]:
        gates = gate(proa.slice(row, [1], [0], [2 * size]) + proa.matmul(h, two))
        u, r = proa.split(gates, 2, -1)
        c = proa.slice(row, [1], [2 * size], [3 * size]) + proa.matmul(r * h, last)
        old, new = (u, 1.0 - u) if origin else (1.0 - u, u)
        return [old * h + new * candidate(c)]

    states = [_first(h, own, size, x)]
    return _scanned(x, own, states, step, call.flag("is_reverse"))[0]
