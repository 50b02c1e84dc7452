"""Multiply-adds of one operator, from shapes alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Shape = tuple[int, ...]
Shapes = Sequence["Shape | None"]


def multiply_adds(op: str, inputs: Shapes, outputs: Shapes) -> int:
    """Multiply-adds of a product with weights or of attention; 0 of other operators.

    A symbolic size counts as 1, so that a symbolic batch means one sample.
    """
    count = _COUNTS.get(op)
    if count is None:
        return 0
    return count([_known(s) for s in inputs], [_known(s) for s in outputs])


def _known(shape: Shape | None) -> Shape:
    return () if shape is None else tuple(1 if n < 0 else n for n in shape)


def _convolution(inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    # Each output element: in / groups * filter; w (out, in / groups, ...).
    return math.prod(outputs[0]) * math.prod(inputs[1][1:])


def _transposed(inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    # Each input element: out / groups * filter; w (in, out / groups, ...).
    return math.prod(inputs[0]) * math.prod(inputs[1][1:])


def _linear(inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    return math.prod(outputs[0]) * inputs[1][0]


def _matmul(inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    return math.prod(outputs[0]) * inputs[0][-1]


def _attention(inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    # q k^T and the product with v: (batch, length, heads, d) each.
    (b, n, heads, d), k, v = inputs[0], inputs[1], inputs[2]
    return b * heads * n * k[1] * (d + v[3])


def _recurrent(inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    time, batch, gates = inputs[0]
    return time * batch * gates * inputs[1][1]


_COUNTS: dict[str, Callable[[Sequence[Shape], Sequence[Shape]], int]] = {
    **dict.fromkeys(
        ("conv2d", "conv3d", "conv2d_act", "conv3d_act", "conv2d_norm", "conv2d_int8"),
        _convolution,
    ),
    **dict.fromkeys(("conv2d_transpose", "conv3d_transpose"), _transposed),
    **dict.fromkeys(("linear", "linear_act", "linear_int8"), _linear),
    "matmul": _matmul,
    "attention": _attention,
    "recurrent": _recurrent,
}
