"""What the int8 operators of a quantized program mean for products of floats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from proa.interop.exporter.target import NotExpressibleError, Ref

if TYPE_CHECKING:
    from proa.interop.exporter.call import Call

#: Operators whose int8 result has the scale of their first input.
KEEPING = (
    "max_pool2d", "reshape", "reshape_like", "flatten", "squeeze", "unsqueeze",
    "transpose", "swap_last", "slice", "select", "relu", "assign",
    "adaptive_max_pool2d",
)  # fmt: skip
#: Operators that say the scale of their int8 result.
_ENDING = ("conv2d_int8", "linear_int8", "gate_int8", "matmul_int8", "attention_int8")
#: Activations whose results have no lower bound to reach.
NOT_NEGATIVE = ("relu", "relu6", "sigmoid", "hard_sigmoid")


def input_scale(call: Call, index: int = 0) -> float:
    """A scale for an int8 array that a product takes.

    Any will do as long as the other operand has the rest; the one that the array was
    made with, if it is known, makes the pairs of nodes that other tools look for.
    """
    value = call.given(index)
    while (node := call.maker_of(value)) is not None:
        if node.op in ("quantize", "quantize_affine"):
            scale = call.written(node.inputs[1])
            data = None if scale is None else scale.data
            return 1.0 if data is None or data.size != 1 else float(data.reshape(()))
        if node.op in _ENDING:
            return float(np.float32(node.attrs["out_scale"]))
        if node.op not in KEEPING:
            return 1.0
        value = node.inputs[0]
    return 1.0


def real_weight(
    c: Call, x: Ref, w: Ref, scale: Ref, zero: Ref | None, *, bits: int, group: int
) -> Ref:
    """The floats (in, out) of the weight of a linear_weight_only, of the dtype of x."""
    if x.shape is None:
        c.refuse("an unknown number of features")
    if w.data is None or scale.data is None or (zero is not None and zero.data is None):
        raise NotExpressibleError("a weight in 4 or 8 bits that is no constant")
    rows = np.asarray(w.data)
    if bits == 4:
        rows = np.stack([rows & 15, rows >> 4], axis=-1).reshape(len(rows), -1)
    depth = x.shape[-1]
    at = np.arange(depth) // group
    point = np.float32(2 ** (bits - 1))
    if zero is not None:
        point = np.asarray(zero.data, np.float32)[:, at]
    steps = np.asarray(scale.data, np.float32)[:, at]
    real = (rows[:, :depth].astype(np.float32) - point) * steps
    return c.const(np.ascontiguousarray(real.T), x.dtype)
