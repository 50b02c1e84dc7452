from __future__ import annotations

import numpy as np

from proa.ir.passes.match import produced_by, rewrite
from proa.ir.program import Array, Node, Program, Value

_TYPES = ("float32", "float64", "float16")


def _held(value: Value | None) -> Array | None:
    if value is None or value.data is None or value.dtype not in _TYPES:
        return None
    return np.asarray(value.data, np.float64)


def _parts(norm: Node) -> tuple[Node, list[Array]] | None:
    """The node before and [w, mean, variance, scale, bias], if all is constant."""
    before = produced_by(norm.inputs[0], "conv2d", "linear")
    if before is None or before.outputs[0].only_user is not norm:
        return None
    if before.op == "linear" and len(norm.outputs[0].shape) != 2:
        return (
            None  # the norm is over axis 1, the last of linear's output only in rank 2
        )
    if len(before.inputs) > 2 and before.inputs[2] and _held(before.inputs[2]) is None:
        return None
    arrays = [_held(v) for v in (before.inputs[1], *norm.inputs[1:])]
    if any(h is None for h in arrays):
        return None
    return before, [h for h in arrays if h is not None]


def fold_batch_norm(program: Program) -> bool:
    """Take a batch norm with constant statistics into the weights before it.

    For quantization, which rounds the weights anyway: results change in the last bits.

    1. batch_norm_infer(conv2d(x, w, b?)): w and b are scaled per output channel.
    2. batch_norm_infer(linear(x, w, b?)) of rank 2: the same per column of w.

    With k = scale / sqrt(variance + epsilon): w' = w * k, b' = (b - mean) * k + bias,
    computed in float64. Requires constant w, b and statistics, and that the norm alone
    reads the product. Its composite is the two nodes as they were.
    """
    return _fold(program, _TYPES)


def fuse_batch_norm(program: Program) -> bool:
    """Let a convolution apply the batch norm with constant statistics that follows it.

    1. batch_norm_infer(conv2d(x, w, b?)) of float32 or float64 ->
       conv2d_norm(x, w, mean, scale / sqrt(variance + epsilon), bias, b?), which gives
       the bits of the two nodes.
    2. The same of float16 is folded as by fold_batch_norm: results are rounded once
       instead of twice whichever way they are joined.

    Requires constant statistics, and that the norm alone reads the product. Composite:
    the nodes as they were.
    """
    changed = False
    for block in program.blocks:
        for norm in [n for n in block.nodes if n.op == "batch_norm_infer"]:
            conv = produced_by(norm.inputs[0], "conv2d")
            if conv is None or conv.outputs[0].only_user is not norm:
                continue
            kind = conv.outputs[0].dtype
            numbers = [v.data for v in norm.inputs[1:] if v is not None]
            if kind not in ("float32", "float64") or any(n is None for n in numbers):
                continue
            if any(v is None or v.dtype != kind for v in norm.inputs):
                continue
            mean, variance, scale, shift = (np.asarray(n) for n in numbers)
            # As the kernel of batch_norm_infer does it.
            root = np.sqrt(variance.astype(np.float64) + norm.attrs["epsilon"])
            factor = scale / root.astype(kind)
            inputs: list[Value | None] = [
                *conv.inputs[:2],
                program.constant(mean, name=f"{conv.outputs[0].name}.center"),
                program.constant(factor, name=f"{conv.outputs[0].name}.factor"),
                program.constant(shift, name=f"{conv.outputs[0].name}.shift"),
                *conv.inputs[2:],
            ]
            rewrite(norm, "conv2d_norm", inputs, conv.attrs)
            changed = True
    return _fold(program, ("float16",)) or changed


def _fold(program: Program, types: tuple[str, ...]) -> bool:
    changed = False
    for block in program.blocks:
        for norm in [n for n in block.nodes if n.op == "batch_norm_infer"]:
            found = _parts(norm)
            if found is None or found[0].outputs[0].dtype not in types:
                continue
            before, (w, mean, variance, scale, bias) = found
            factor = scale / np.sqrt(variance + norm.attrs["epsilon"])
            old = _held(before.inputs[2]) if len(before.inputs) > 2 else None
            shift = ((0.0 if old is None else old) - mean) * factor + bias
            along = (-1, 1, 1, 1) if before.op == "conv2d" else (1, -1)
            weight = before.inputs[1]
            assert weight is not None and weight.data is not None
            kind, stem = weight.data.dtype, weight.name
            inputs: list[Value | None] = [
                before.inputs[0],
                program.constant((w * factor.reshape(along)).astype(kind), name=stem),
                program.constant(shift.astype(kind), name=f"{stem}.shift"),
            ]
            rewrite(norm, before.op, inputs, before.attrs)
            changed = True
    return changed
