"""Recurrent networks: the part of a layer that goes step by step.

The product of all inputs with the input weight is one `linear` before it.
"""

from __future__ import annotations

from typing import Any

from proa.schema.dtypes import FLOATING
from proa.schema.row import REFUSED, op

_CELL = '"tanh"|"relu"|"lstm"|"gru"'


def _recurrent_grad(
    g: Any,
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
    cell: Any,
    reverse: Any,
) -> Any:
    dxg, dw, dbias, dh0, dc0 = g.recurrent_grad(
        dy, dh, dc, y, reserve, w, h0, c0, length, cell=cell, reverse=reverse
    )
    return dxg, dw, dh0, dc0, dbias, None


op(
    f"recurrent(xg, w, h0, c0?, bias?, length?, *, cell: {_CELL}, "
    "reverse: bool = False)",
    shape="recurrent",
    dtypes=FLOATING,
    outputs=("y", "h", "c", "reserve"),
    grad=_recurrent_grad,
    autocast="black",
    scratch=True,
    pack="w",
    doc="A recurrent cell along a sequence. xg (time, batch, gates * hidden) is the "
    "input's part of the gates, w (gates * hidden, hidden) the recurrent weight, "
    "bias (gates * hidden,) is added to its product, h0 and c0 (batch, hidden) are "
    "the first states, c0 of lstm alone. Gates in order: lstm i f g o, gru r z n. y "
    "(time, batch, hidden) is 0 and the states stay from step length[b] on; reverse "
    "runs from the end. h and c are the final states (c (batch, 0) without c0). "
    "reserve is kept for the gradient: lstm i f g o c, gru r z n and the recurrent "
    "part of n, else nothing.",
)
op(
    "recurrent_grad(dy, dh, dc, y, reserve, w, h0, c0?, length?, *, "
    f"cell: {_CELL}, reverse: bool)",
    shape="recurrent_grad",
    dtypes=FLOATING,
    outputs=("dxg", "dw", "dbias", "dh0", "dc0"),
    grad=REFUSED,
    lite=False,
    scratch=True,
    doc="Gradient of recurrent; dbias is of the recurrent bias.",
)
op(
    "recurrent_int8(xg, w, multiplier, h0, c0?, bias?, length?, *, "
    f"cell: {_CELL}, h_scale: float, reverse: bool = False)",
    shape="recurrent_int8",
    dtypes=("float32",),
    outputs=("y", "h", "c"),
    grad=REFUSED,
    autocast="black",
    scratch=True,
    pack="w",
    doc="As recurrent, with the product of the states in int8: at each step h becomes "
    "clamp(round(h / h_scale), -127, 127), whose exact product with w (gates * hidden, "
    "hidden) in int8 is multiplied by multiplier (gates * hidden,), h_scale times the "
    "scale of w's row. States, gates and results are float32. Inference only.",
)
