from __future__ import annotations

import numpy as np

from proa.ir.passes.match import number, plain_linear, produced_by, rewrite
from proa.ir.program import Array, Node, Program, Value

#: Members of a group of a weight with one scale for a column; divides no more than it
#: must.
_GROUP = 128


def fuse_weight_only(program: Program) -> bool:
    """Multiply with the bits of a weight that is stored in 8 or 4.

    1. linear(x, dequantize(w, scale), bias) with a constant w of int8, and scale for a
       column or for all -> linear_weight_only of 8 bits.
    2. linear(x, v, bias) with v unpacked from constant bytes of two integers each,
       (concat(bytes & 15, bytes // 16) - 8) * scale in groups along the input ->
       linear_weight_only of 4 bits, of groups with an even number of members.

    linear_act without a residual is a linear, too.

    Requires float32. Ensures the same floats for the weight, which is no longer stored
    as such; leaves what made them as dead code. Composite: the nodes as they were.
    """
    changed = False
    for block in program.blocks:
        for node in block.nodes:
            if plain_linear(node) is not None:
                changed |= _fuse_bytes(program, node) or _fuse_half_bytes(program, node)
    return changed


def _name(value: Value | None, ending: str) -> str:
    base = "weight" if value is None else value.name
    return f"{base}.{ending}"


def _rewrite(
    program: Program, node: Node, bits: int, group: int, weight: Array, scale: Array
) -> None:
    """Let the node multiply with integers (out, bytes) of groups along a row."""
    source = node.inputs[1]
    kind = str(scale.dtype)
    constants = [
        program.constant(weight, "uint8", _name(source, f"rows{bits}")),
        program.constant(scale, kind, _name(source, "steps")),
    ]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    inputs = [node.inputs[0], *constants, None, bias]
    act = node.attrs.get("act", "none")
    attrs = {"bits": bits, "group": group, "act": act}
    rewrite(node, "linear_weight_only", inputs, attrs)


def _fuse_bytes(program: Program, node: Node) -> bool:
    """Case 1."""
    wide = produced_by(node.inputs[1], "dequantize")
    w, steps = (None, None) if wide is None else wide.inputs[:2]
    if wide is None or w is None or steps is None or w.dtype != "int8":
        return False
    if w.data is None or steps.data is None or len(w.shape) != 2:
        return False
    if steps.data.size > 1 and wide.attrs["axis"] % 2 != 1:
        return False
    whole, scale = np.asarray(w.data), np.asarray(steps.data, np.float32).reshape(-1)
    depth, outs = whole.shape
    group = min(_GROUP, depth)
    groups = -(-depth // group)
    rows = np.full((outs, groups * group), 128, np.uint8)
    rows[:, :depth] = whole.T.view(np.uint8) ^ np.uint8(128)
    by_group = (
        np.broadcast_to(scale[:, None], (outs, groups)) if scale.size > 1 else None
    )
    if by_group is None:
        by_group = np.full((outs, groups), scale[0], np.float32)
    _rewrite(program, node, 8, group, rows, np.ascontiguousarray(by_group))
    return True


def _fuse_half_bytes(program: Program, node: Node) -> bool:
    """Case 2."""
    shaped = produced_by(node.inputs[1], "reshape")
    product = None if shaped is None else produced_by(shaped.inputs[0], "mul")
    grouped = None if product is None else product.inputs[0]
    flat = produced_by(grouped, "reshape")  # of an odd number of groups
    centred = produced_by(grouped if flat is None else flat.inputs[0], "sub")
    wide = None if product is None else produced_by(product.inputs[1], "cast")
    cast = None if centred is None else produced_by(centred.inputs[0], "cast")
    joined = None if cast is None else produced_by(cast.inputs[0], "concat")
    if shaped is None or grouped is None or centred is None or wide is None:
        return False
    stored = None if joined is None else _stored(joined)
    scale = wide.inputs[0]
    if stored is None or number(centred.inputs[1]) != 8.0 or scale is None:
        return False
    shape = grouped.shape
    weight = shaped.outputs[0].shape
    if scale.data is None or scale.dtype != "float16" or len(shape) != 3:
        return False
    groups, members, outs = shape
    if weight != (groups * members, outs) or scale.shape != (groups, 1, outs):
        return False
    if members % 2 != 0 or -1 in shape:
        return False
    whole = np.concatenate([stored & 15, stored >> 4]).reshape(shape)
    rows = whole.transpose(2, 0, 1).reshape(outs, -1)
    packed = rows[:, ::2] | (rows[:, 1::2] << 4)
    steps = np.ascontiguousarray(np.asarray(scale.data)[:, 0].T)
    _rewrite(program, node, 4, members, np.ascontiguousarray(packed), steps)
    return True


def _stored(joined: Node) -> Array | None:
    """The bytes whose low and high halves a concat joins."""
    if len(joined.inputs) != 2 or joined.attrs.get("axis", 0) != 0:
        return None
    low = produced_by(joined.inputs[0], "bitwise_and")
    high = produced_by(joined.inputs[1], "floor_div")
    if low is None or high is None or low.inputs[0] is not high.inputs[0]:
        return None
    source = low.inputs[0]
    if number(low.inputs[1]) != 15.0 or number(high.inputs[1]) != 16.0:
        return None
    if source is None or source.data is None or source.dtype != "uint8":
        return None
    return np.asarray(source.data)
