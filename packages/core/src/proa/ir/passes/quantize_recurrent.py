from __future__ import annotations

from collections.abc import Callable

import numpy as np

from proa.ir.builder import make_node
from proa.ir.passes.match import produced_by
from proa.ir.program import Array, Node, Program, Value

#: States of these cells are within [-1, 1], if the first ones are.
_BOUNDED = ("tanh", "lstm", "gru")


def quantize_recurrent(
    program: Program, is_chosen: Callable[[Node], bool] | None = None
) -> bool:
    """Multiply the states of recurrent cells in int8, of those nodes that `is_chosen`
    takes, or of all.

    1. recurrent(xg, w, h0, ..) -> recurrent_int8, with a scale for each row of w, and
       1/127 for the states.

    Requires float32, a constant w (or its integers and scales by rows), a cell whose
    states are within [-1, 1], and that nothing reads what is kept for the gradient.
    First states beyond that are taken as -1 or 1 in the first product. Results change
    by the rounding of w and the states.
    """
    changed = False
    for block in program.blocks:
        nodes: list[Node] = []
        for node in block.nodes:
            is_wanted = node.op == "recurrent" and (not is_chosen or is_chosen(node))
            result = _rounded(program, node) if is_wanted else None
            if result is None:
                nodes.append(node)
                continue
            nodes.append(result)
            changed = True
            for old, new in zip(node.outputs, result.outputs, strict=False):
                new.name = old.name
                block.replace(old, new)
        block.nodes = nodes
    return changed


def _rounded(program: Program, node: Node) -> Node | None:
    xg, w, h0, c0, bias, length = [*node.inputs, None, None, None][:6]
    reserve = node.outputs[3]
    found = _integers(w)
    if found is None or w is None or w.dtype != "float32":
        return None
    integers, scale = found
    if node.attrs["cell"] not in _BOUNDED or reserve.users or reserve.is_output:
        return None
    step = 1 / 127
    attrs = {
        "cell": node.attrs["cell"],
        "reverse": node.attrs.get("reverse", False),
        "h_scale": step,
    }
    inputs = [
        xg,
        program.constant(integers, "int8", f"{w.name}.int8"),
        program.constant(scale * np.float32(step), name=f"{w.name}.multiplier"),
        h0,
        c0,
        bias,
        length,
    ]
    return make_node(program, "recurrent_int8", inputs, attrs)


def _integers(w: Value | None) -> tuple[Array, Array] | None:
    """int8 and a scale for each row of a constant matrix."""
    wide = produced_by(w, "dequantize")
    if wide is not None:
        q, steps = wide.inputs[:2]
        if q is None or steps is None or q.data is None or steps.data is None:
            return None
        if q.dtype != "int8" or (steps.data.size > 1 and wide.attrs["axis"] != 0):
            return None
        scale = np.asarray(steps.data, np.float32).reshape(-1)
        rows = np.ascontiguousarray(np.broadcast_to(scale, (q.shape[0],)))
        return np.asarray(q.data), rows
    if w is None or w.data is None:
        return None
    weight = np.asarray(w.data)
    peak = np.abs(weight).max(axis=1)
    scale = np.where(peak > 0, peak / np.float32(127), np.float32(1)).astype(np.float32)
    integers = np.clip(np.rint(weight / scale[:, None]), -127, 127).astype(np.int8)
    return integers, scale
