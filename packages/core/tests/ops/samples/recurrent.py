"""Records of the recurrent steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..sample import Sample, case


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _cell(cell: str, x: Any, y: Any, h: Any, c: Any) -> tuple[Any, Any, list[Any]]:
    """New states and what is saved, from the two parts of one sample's gates."""
    if cell == "lstm":
        i, f, g, o = np.split(x + y, 4)
        i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
        c = f * c + i * g
        return o * np.tanh(c), c, [i, f, g, o, c]
    if cell == "gru":
        (a, b, d), (p, q, s) = np.split(x, 3), np.split(y, 3)
        r, z = _sigmoid(a + p), _sigmoid(b + q)
        n = np.tanh(d + r * s)
        return z * h + (1 - z) * n, c, [r, z, n, s]
    h = np.tanh(x + y) if cell == "tanh" else np.maximum(x + y, 0)
    return h, c, []


_RESERVED = {"tanh": 0, "relu": 0, "lstm": 5, "gru": 4}


def _recurrent(
    xg: Any,
    w: Any,
    h0: Any,
    c0: Any,
    bias: Any,
    length: Any,
    *,
    cell: str,
    reverse: bool = False,
) -> Any:
    time, batch, _ = xg.shape
    hidden = w.shape[1]
    y = np.zeros((time, batch, hidden))
    reserve = np.zeros((time, batch, _RESERVED[cell] * hidden))
    h = np.array(h0)
    c = np.zeros((batch, 0)) if c0 is None else np.array(c0)
    for b in range(batch):
        steps = range(time if length is None else min(length[b], time))
        for t in reversed(steps) if reverse else steps:
            part = w @ h[b] + (0 if bias is None else bias)
            h[b], c[b], saved = _cell(cell, xg[t, b], part, h[b], c[b])
            y[t, b] = h[b]
            if saved:
                reserve[t, b] = np.concatenate(saved)
    return y, h, c, reserve


_GATES = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}


def _case(
    cell: str, time: int, batch: int, hidden: int, length: Any = None, **attrs: Any
) -> Any:
    n = _GATES[cell] * hidden
    state = (batch, hidden)
    if length is not None:
        length = np.array(length)
    return case(
        (time, batch, n), (n, hidden), state, state if cell == "lstm" else None,
        (n,), length, cell=cell, **attrs,
    )  # fmt: skip


_loose = {"float16": 2e-2, "bfloat16": 1e-1}

Sample(
    "recurrent",
    ref=_recurrent,
    cases=[
        *(_case(cell, 4, 3, 5) for cell in _GATES),
        *(_case(cell, 4, 3, 17, [4, 0, 2], reverse=True) for cell in _GATES),
        *(_case(cell, 3, 9, 20, [1, 3, 2] * 3) for cell in _GATES),
        _case("lstm", 0, 2, 3),
        _case("gru", 2, 0, 3),
    ],
    rtol=_loose,
    atol=_loose,
    grad_cases=[
        *(_case(cell, 3, 2, 3) for cell in ("tanh", "lstm", "gru")),
        *(
            _case(cell, 3, 3, 2, [2, 3, 0], reverse=reverse)
            for cell in ("tanh", "lstm", "gru")
            for reverse in (False, True)
        ),
    ],
    second=False,
)


def _gradient_case(cell: str, length: Any, reverse: bool) -> Any:
    """Inputs of the gradient at a consistent point."""
    rng = np.random.default_rng(len(cell))
    time, batch, hidden = 3, 3, 4
    n = _GATES[cell] * hidden
    draw = rng.uniform
    xg, w = draw(-1, 1, (time, batch, n)), draw(-1, 1, (n, hidden))
    h0 = draw(-1, 1, (batch, hidden))
    c0 = draw(-1, 1, (batch, hidden)) if cell == "lstm" else None
    y, _, c, reserve = _recurrent(
        xg, w, h0, c0, None, length, cell=cell, reverse=reverse
    )
    dc = draw(-1, 1, c.shape)
    return case(
        y.shape, h0.shape, dc, y, reserve, w, h0, c0, length, cell=cell, reverse=reverse
    )  # fmt: skip


def _gradient(
    dy: Any,
    dh: Any,
    dc: Any,
    y: Any,
    reserve: Any,
    w: Any,
    h0: Any,
    c0: Any,
    length: Any,
    *,
    cell: str,
    reverse: bool,
) -> Any:
    time, batch, hidden = y.shape
    dxg = np.zeros((time, batch, w.shape[0]))
    dw, dbias = np.zeros_like(w), np.zeros(w.shape[0])
    dh, dc = np.array(dh), np.array(dc)
    for b in range(batch):
        count = time if length is None else min(length[b], time)
        order = list(range(count))[:: -1 if reverse else 1]
        for place in reversed(range(count)):
            t = order[place]
            past = h0[b] if place == 0 else y[order[place - 1], b]
            d = dh[b] + dy[t, b]
            if cell == "lstm":
                i, f, g, o, c = np.split(reserve[t, b], 5)
                old = (
                    c0[b] if place == 0 else reserve[order[place - 1], b, 4 * hidden :]
                )
                s = dc[b] + d * o * (1 - np.tanh(c) ** 2)
                gates = np.concatenate([
                    s * g * i * (1 - i), s * old * f * (1 - f), s * i * (1 - g**2),
                    d * np.tanh(c) * o * (1 - o),
                ])  # fmt: skip
                dc[b], direct, own = s * f, 0, gates
            elif cell == "gru":
                r, z, n, part = np.split(reserve[t, b], 4)
                dn = d * (1 - z) * (1 - n**2)
                dr, dz = dn * part * r * (1 - r), d * (past - n) * z * (1 - z)
                own = np.concatenate([dr, dz, dn])
                gates, direct = np.concatenate([dr, dz, dn * r]), d * z
            else:
                slope = 1 - y[t, b] ** 2 if cell == "tanh" else y[t, b] > 0
                gates, direct = d * slope, 0
                own = gates
            dxg[t, b] = own
            dw += np.outer(gates, past)
            dbias += gates
            dh[b] = gates @ w + direct
    return dxg, dw, dbias, dh, dc


Sample(
    "recurrent_grad",
    ref=_gradient,
    cases=[
        _gradient_case(cell, length, reverse)
        for cell in _GATES
        for length, reverse in [
            (None, False), (np.array([3, 1, 0]), False), (np.array([2, 3, 0]), True),
        ]
    ],
    rtol=_loose,
    atol=_loose,
    grad=False,
)  # fmt: skip


def _recurrent_int8(
    xg: Any,
    w: Any,
    multiplier: Any,
    h0: Any,
    c0: Any = None,
    bias: Any = None,
    length: Any = None,
    *,
    cell: str,
    h_scale: float,
    reverse: bool = False,
) -> Any:
    time, batch, _ = xg.shape
    hidden = w.shape[1]
    y = np.zeros((time, batch, hidden))
    h = np.array(h0)
    c = np.zeros((batch, 0)) if c0 is None else np.array(c0)
    for b in range(batch):
        steps = range(time if length is None else min(length[b], time))
        for t in reversed(steps) if reverse else steps:
            whole = np.rint(h[b].astype(np.float32) / np.float32(h_scale))
            sums = w.astype(np.int64) @ np.clip(whole, -127, 127).astype(np.int64)
            part = sums * multiplier + (0 if bias is None else bias)
            h[b], c[b], _ = _cell(cell, xg[t, b], part, h[b], c[b])
            y[t, b] = h[b]
    return y, h, c


def _int8_case(
    cell: str, time: int, batch: int, hidden: int, length: Any = None, **attrs: Any
) -> Any:
    """States that a rounding of the last bit does not move to another integer."""
    n = _GATES[cell] * hidden
    state = (batch, hidden)

    def drawn(low: float, high: float, *shape: int) -> Any:
        return lambda rng: rng.uniform(low, high, shape).astype(np.float32)

    return case(
        drawn(-1, 1, time, batch, n),
        lambda rng: rng.integers(-127, 128, (n, hidden)).astype(np.int8),
        drawn(1e-5, 1e-4, n),
        state,
        state if cell == "lstm" else None,
        drawn(-1, 1, n),
        None if length is None else np.array(length),
        cell=cell,
        h_scale=1 / 127,
        **attrs,
    )


Sample(
    "recurrent_int8",
    ref=_recurrent_int8,
    cases=[
        *(_int8_case(cell, 4, 3, 5) for cell in _GATES),
        *(_int8_case(cell, 4, 3, 17, [4, 0, 2], reverse=True) for cell in _GATES),
        *(_int8_case(cell, 3, 9, 40, [1, 3, 2] * 3) for cell in _GATES),
        _int8_case("lstm", 0, 2, 3),
        _int8_case("gru", 2, 0, 3),
    ],
    # A state at the edge of two integers may be rounded to either.
    rtol={"float32": 1e-3},
    atol={"float32": 2e-3},
    grad=False,
)
