from __future__ import annotations

from typing import Any

import numpy as np

from proa.ir.passes.attention_heads import (
    have_same_heads,
    replace_by_attention,
    step_before,
)
from proa.ir.passes.match import number
from proa.ir.program import Block, Node, Program, Value


def fuse_integer_attention(program: Program) -> bool:
    """Replace attention of integers by one operator.

    1. matmul_int8(quantize_affine(softmax(s)), v) -> attention_int8(q, k, v, mask),
       with s a matmul_int8 of float32 results of q and the transposed k, plus a float32
       mask, if there is one.

    Requires four axes (batch, heads, length, width), nothing broadcast but the mask,
    one softmax over the last axis, weights from -128 on, and that each step is read by
    the next alone. Ensures the same bits.
    """
    changed = False
    for block in program.blocks:
        for node in list(block.nodes):
            if node.op == "matmul_int8":
                changed |= _fuse(program, block, node)
    return changed


def _scores(softmax: Node) -> tuple[Node, Value | None] | None:
    """The product whose softmax it is, and the mask."""
    x = softmax.inputs[0]
    product, mask = step_before(x, softmax, "matmul_int8"), None
    add = step_before(x, softmax, "add")
    if add is not None:
        for scores, other in (add.inputs[:2], add.inputs[1::-1]):
            product = step_before(scores, add, "matmul_int8")
            if product is not None:
                mask = other
                break
    if product is None or product.attrs["dtype"] != "float32":
        return None
    shape = product.outputs[0].shape
    if mask is None:
        return product, None
    fits = mask.dtype == "float32" and len(mask.shape) <= 4
    return (product, mask) if fits and x is not None and x.shape == shape else None


def _fuse(program: Program, block: Block, node: Node) -> bool:
    whole = step_before(node.inputs[0], node, "quantize_affine")
    softmax = None if whole is None else step_before(whole.inputs[0], whole, "softmax")
    step = None if whole is None else number(whole.inputs[1])
    found = None if softmax is None else _scores(softmax)
    if whole is None or softmax is None or found is None or not step:
        return False
    if whole.attrs["zero_point"] != -128 or whole.attrs["low"] != -128:
        return False
    product, mask = found
    q, keys, v = *product.inputs[:2], node.inputs[1]
    if softmax.attrs["axis"] not in (-1, 3) or node.attrs["x_zero"] != -128:
        return False
    if q is None or keys is None or v is None or not have_same_heads(q, keys, v):
        return False
    attrs = _attributes(product, node, step)
    if attrs is None:
        return False
    operands = (q, keys, v)
    replace_by_attention(program, block, node, "attention_int8", operands, mask, attrs)
    return True


def _attributes(product: Node, node: Node, step: float) -> dict[str, Any] | None:
    """Those of the operator, if its factor of the second product is the node's."""
    scale = np.float32(node.attrs["scale"])
    v_scale = scale / np.float32(step)
    for near in (v_scale, np.nextafter(v_scale, 0), np.nextafter(v_scale, 2 * v_scale)):
        if np.float32(step) * np.float32(near) == scale:
            ending = ("out_scale", "dtype", "out_zero", "low")
            return {
                "scale": product.attrs["scale"], "q_zero": product.attrs["x_zero"],
                "k_zero": product.attrs["y_zero"], "v_zero": node.attrs["y_zero"],
                "v_scale": float(near), "weight_scale": step,
                **{name: node.attrs[name] for name in ending},
            }  # fmt: skip
    return None
