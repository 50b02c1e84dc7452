"""RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import proa
import proa.nn.functional as F
from proa._core import ops
from proa.interop.graph.limits import UNROLLED
from proa.interop.graph.values import is_symbolic
from proa.interop.onnx.importer.call import Call
from proa.interop.onnx.importer.table import onnx_op

#: How many gates each cell has, and the order in which `ops.recurrent` has them.
_GATES = {"RNN": [0], "GRU": [1, 0, 2], "LSTM": [0, 2, 3, 1]}
_CELLS = {"GRU": "gru", "LSTM": "lstm"}
_USUAL = {
    "RNN": ["tanh"], "GRU": ["sigmoid", "tanh"], "LSTM": ["sigmoid", "tanh", "tanh"],
}  # fmt: skip


def _kind(call: Call) -> str:
    """RNN, GRU or LSTM."""
    return call.op.removeprefix("DynamicQuantize")


_FUNCTIONS: dict[str, Callable[[Any, float | None, float | None], Any]] = {
    "relu": lambda x, a, b: F.relu(x),
    "tanh": lambda x, a, b: proa.tanh(x),
    "sigmoid": lambda x, a, b: F.sigmoid(x),
    "affine": lambda x, a, b: x * (1.0 if a is None else a) + (b or 0.0),
    "leakyrelu": lambda x, a, b: F.leaky_relu(x, 0.01 if a is None else a),
    "thresholdedrelu": lambda x, a, b: F.thresholded_relu(x, 1.0 if a is None else a),
    "scaledtanh": lambda x, a, b: (a or 1.0) * proa.tanh(x * (1.0 if b is None else b)),
    "hardsigmoid": lambda x, a, b: F.hardsigmoid(
        x, 0.2 if a is None else a, 0.5 if b is None else b
    ),
    "elu": lambda x, a, b: F.elu(x, 1.0 if a is None else a),
    "softsign": lambda x, a, b: F.softsign(x),
    "softplus": lambda x, a, b: F.softplus(x),
}


@dataclass
class _Direction:
    """One direction's arrays, gates in ONNX's order."""

    w: Any
    r: Any
    wb: Any
    rb: Any
    h: Any
    c: Any
    peephole: Any
    length: Any
    reverse: bool
    functions: list[Callable[[Any], Any]]


def _ordered(v: Any, order: list[int]) -> Any:
    """Rows of the gates in another order."""
    if order == sorted(order):
        return v
    size = v.shape[0] // len(order)
    return proa.concat(
        [proa.slice(v, [0], [g * size], [(g + 1) * size]) for g in order], 0
    )


def _at_once(call: Call, x: Any, d: _Direction) -> Any:
    """By the kernel of the whole sequence."""
    order = _GATES[_kind(call)]
    w, r = _ordered(d.w, order), _ordered(d.r, order)
    gates = F.linear(x, proa.transpose(w, [1, 0]), _ordered(d.wb, order))
    cell: Any = _CELLS.get(_kind(call)) or call.get("activations", ["Tanh"])[0].lower()
    length = None if d.length is None else d.length.astype("int32")
    y, h, c, _ = ops.recurrent(
        gates, r, d.h, d.c, _ordered(d.rb, order), length, cell=cell,
        reverse=d.reverse,
    )  # fmt: skip
    return y, h, c


def _clipped(call: Call, x: Any) -> Any:
    limit = call.get("clip")
    return x if limit is None else proa.clip(x, -limit, limit)


def _rnn_cell(call: Call, d: _Direction, x: Any, h: Any, c: Any) -> Any:
    total = x + F.linear(h, proa.transpose(d.r, [1, 0]), d.rb)
    return d.functions[0](_clipped(call, total)), c


def _gru_cell(call: Call, d: _Direction, x: Any, h: Any, c: Any) -> Any:
    f, g = d.functions
    size = h.shape[-1]
    xs = proa.split(x, 3, -1)
    rows = [proa.slice(d.r, [0], [i * size], [(i + 1) * size]) for i in range(3)]
    biases = proa.split(d.rb, 3, 0)
    rows = [proa.transpose(v, [1, 0]) for v in rows]
    z = f(_clipped(call, xs[0] + F.linear(h, rows[0], biases[0])))
    r = f(_clipped(call, xs[1] + F.linear(h, rows[1], biases[1])))
    if call.get("linear_before_reset", 0):
        n = xs[2] + r * F.linear(h, rows[2], biases[2])
    else:
        n = xs[2] + F.linear(r * h, rows[2], biases[2])
    return (1.0 - z) * g(_clipped(call, n)) + z * h, c


def _lstm_cell(call: Call, d: _Direction, x: Any, h: Any, c: Any) -> Any:
    f, g, out = d.functions
    total = x + F.linear(h, proa.transpose(d.r, [1, 0]), d.rb)
    i, o, forget, new = proa.split(total, 4, -1)
    p = [0.0] * 3 if d.peephole is None else proa.split(d.peephole, 3, 0)
    i = f(_clipped(call, i + p[0] * c))
    forget = (
        1.0 - i if call.get("input_forget", 0) else f(_clipped(call, forget + p[2] * c))
    )
    c = forget * c + i * g(_clipped(call, new))
    return f(_clipped(call, o + p[1] * c)) * out(c), c


_STEPS = {"RNN": _rnn_cell, "GRU": _gru_cell, "LSTM": _lstm_cell}


def _step_by_step(call: Call, x: Any, d: _Direction) -> Any:
    """By single steps, for cells that no kernel has."""
    steps = x.shape[0]
    if type(steps) is not int or (is_symbolic(x) and steps > UNROLLED):
        raise call.refuse("such a cell along a symbolic or long dimension")
    gates = F.linear(x, proa.transpose(d.w, [1, 0]), d.wb)
    h, c, found = d.h, d.c, {}
    for t in reversed(range(steps)) if d.reverse else range(steps):
        now = proa.squeeze(proa.slice(gates, [0], [t], [t + 1]), [0])
        new_h, new_c = _STEPS[_kind(call)](call, d, now, h, c)
        y = new_h
        if d.length is not None:
            alive = proa.unsqueeze(
                proa.greater_than(d.length, proa.full_like(d.length, t)), [1]
            )
            new_h = proa.where(alive, new_h, h)
            new_c = None if c is None else proa.where(alive, new_c, c)
            y = proa.where(alive, y, proa.zeros_like(y))
        h, c = new_h, new_c
        found[t] = y
    return proa.stack([found[t] for t in range(steps)], 0), h, c


def _applied(function: Callable[..., Any], a: Any, b: Any, x: Any) -> Any:
    return function(x, a, b)


def _activations(call: Call, directions: int) -> list[list[Callable[[Any], Any]]]:
    count = len(_USUAL[_kind(call)])
    names = call.get("activations") or _USUAL[_kind(call)] * directions
    alphas, betas = (
        list(call.get("activation_alpha", [])),
        list(call.get("activation_beta", [])),
    )
    results: list[Callable[[Any], Any]] = []
    for name in names:
        function = _FUNCTIONS[name.lower()]
        takes = name.lower() not in ("relu", "tanh", "sigmoid", "softsign", "softplus")
        a = alphas.pop(0) if takes and alphas else None
        two = name.lower() in ("affine", "scaledtanh", "hardsigmoid")
        b = betas.pop(0) if two and betas else None
        results.append(partial(_applied, function, a, b))
    return [results[i * count : (i + 1) * count] for i in range(directions)]


def _has_kernel(call: Call, d: _Direction) -> bool:
    names = [n.lower() for n in call.get("activations", [])]
    usual = _USUAL[_kind(call)]
    count = len(usual)
    plain = all(names[i : i + count] == usual for i in range(0, len(names), count))
    if _kind(call) == "RNN":
        plain = len(set(names)) <= 1 and set(names) <= {"tanh", "relu"}
    if _kind(call) == "GRU" and not call.get("linear_before_reset", 0):
        return False
    extra = call.get("clip") is not None or call.get("input_forget", 0)
    return plain and not extra and d.peephole is None


def _part(v: Any, i: int) -> Any:
    return None if v is None else proa.squeeze(proa.slice(v, [0], [i], [i + 1]), [0])


def _run(
    call: Call, x: Any, w: Any, r: Any, b: Any, length: Any, h: Any, c: Any, p: Any
) -> Sequence[Any]:
    directions, size = w.shape[0], r.shape[-1]
    if directions != (2 if call.get("direction") == "bidirectional" else 1):
        raise call.refuse(f"weights of {directions} directions")
    batch_first = bool(call.get("layout", 0))
    if batch_first:
        x, h, c = (
            None if v is None else proa.transpose(v, [1, 0, 2]) for v in (x, h, c)
        )
    first = proa.zeros([x.shape[1], size], x.dtype)
    width = w.shape[1]
    functions = _activations(call, directions)
    results = []
    for i in range(directions):
        both = _part(b, i)
        if both is None:
            both = proa.zeros([2 * width], x.dtype)
        halves = proa.split(both, 2, 0)
        d = _Direction(
            _part(w, i), _part(r, i), halves[0], halves[1],
            first if h is None else _part(h, i),
            (first if c is None else _part(c, i)) if _kind(call) == "LSTM" else None,
            _part(p, i), length,
            i == 1 or call.get("direction", "forward") == "reverse", functions[i],
        )  # fmt: skip
        run = _at_once if _has_kernel(call, d) else _step_by_step
        results.append(run(call, x, d))
    ys, hs, cs = ([result[k] for result in results] for k in range(3))
    y, last = proa.stack(ys, 1), proa.stack(hs, 0)
    state = proa.stack(cs, 0) if _kind(call) == "LSTM" else None
    if batch_first:
        y = proa.transpose(y, [2, 0, 1, 3])
        last = proa.transpose(last, [1, 0, 2])
        state = None if state is None else proa.transpose(state, [1, 0, 2])
    return y, last, state


@onnx_op("RNN", "GRU", weights=(1, 2, 3))
def rnn(
    call: Call, x: Any, w: Any, r: Any, b: Any = None, length: Any = None, h: Any = None
) -> Any:
    return tuple(_run(call, x, w, r, b, length, h, None, None)[:2])


@onnx_op("LSTM", weights=(1, 2, 3))
def lstm(
    call: Call, x: Any, w: Any, r: Any, b: Any = None, length: Any = None,
    h: Any = None, c: Any = None, p: Any = None,
) -> Any:  # fmt: skip
    return run_lstm(call, x, w, r, b, length, h, c, p)


def run_lstm(
    call: Call, x: Any, w: Any, r: Any, b: Any, length: Any, h: Any, c: Any, p: Any
) -> tuple[Any, ...]:
    """All steps of the last rows and states, by weights of the standard's layout."""
    return tuple(_run(call, x, w, r, b, length, h, c, p))
