from __future__ import annotations

from typing import Any

import numpy as np

from proa.ir.builder import make_node
from proa.ir.passes.match import number, produced_by, rewrite, same_shape
from proa.ir.program import Node, Program, Value
from proa.schema import ROWS

_PRODUCTS = ("conv2d_int8", "linear_int8")
#: These end with rounding alone.
_PAIRS = ("matmul_int8", "attention_int8")
_ACTS = ROWS["conv2d_int8"].attribute("act").choices
#: Ops that give the same elements elsewhere, or the greatest of some: rounding to a
#: grid before or after them is the same.
_ROUNDING = ("quantize", "quantize_affine")
_COMMUTES = (
    "max_pool2d",
    "relu",
    "reshape",
    "flatten",
    "squeeze",
    "unsqueeze",
    "transpose",
    "slice",
)


def move_quantize_up(program: Program) -> bool:
    """Let integers flow from where numbers are made.

    1. quantize(f(x), s) -> f(quantize(x, s)), where f gives elements of x elsewhere, or
       the greatest of some.
       quantize_affine likewise, but for relu, whose 0 is its zero point.
    2. quantize(concat(x, y, ..), s) -> concat(quantize(x, s), quantize(y, s), ..).
    3. quantize(dequantize(q, s), s) -> q.

    Requires one scale, and that the quantize alone reads what it reads, but in 3.
    Leaves nodes of 2 and 3 as dead code.
    """
    changed = False
    for block in program.blocks:
        nodes: list[Node] = []
        for node in block.nodes:
            if node.op in _ROUNDING and number(node.inputs[1]) is not None:
                above: Node | None = node
                while above is not None:
                    above = _moved(program, above)
                    changed |= above is not None
                early = _quantized_parts(program, node)
                nodes += early
                changed |= bool(early)
            nodes.append(node)
        block.nodes = nodes
        for node in block.nodes:
            known = _known_integers(node)
            if known is not None and not node.outputs[0].is_output:
                changed |= bool(node.outputs[0].users)
                block.replace(node.outputs[0], known)
    return changed


def _moved(program: Program, node: Node) -> Node | None:
    """Let a quantize and the node that makes its input compute each other's op, if they
    commute; returns the node that is now the quantize.
    """
    before = produced_by(node.inputs[0], *_COMMUTES)
    if before is None or before.outputs[0].only_user is not node:
        return None
    if _shrinks_by_half(before) or (before.op == "relu" and node.op != "quantize"):
        return None
    early = make_node(program, node.op, [before.inputs[0], node.inputs[1]], node.attrs)
    integers = early.outputs[0]
    node.op, node.attrs = before.op, before.attrs
    node.inputs = [integers, *before.inputs[1:]]
    before.op, before.attrs, before.inputs = early.op, early.attrs, early.inputs
    before.outputs, integers.producer = [integers], before
    return before


def _shrinks_by_half(node: Node) -> bool:
    """Whether rounding before the node would round twice as many elements or more."""
    x, y = node.inputs[0], node.outputs[0]
    if node.op != "slice" or x is None:
        return False
    before, after = (abs(int(np.prod(v.shape))) for v in (x, y))
    return before >= 2 * after


def _quantized_parts(program: Program, node: Node) -> list[Node]:
    """Let a quantize of a concat be a concat of what the returned nodes quantize."""
    joined = produced_by(node.inputs[0], "concat")
    if node.op != "quantize" or joined is None:
        return []
    if joined.outputs[0].only_user is not node:
        return []
    scale = node.inputs[1]
    parts = [make_node(program, "quantize", [x, scale], {}) for x in joined.inputs]
    rewrite(node, "concat", [part.outputs[0] for part in parts], joined.attrs)
    return parts


def _known_integers(node: Node) -> Value | None:
    """The integers that a quantize returns."""
    wide = produced_by(node.inputs[0], "dequantize") if node.op == "quantize" else None
    if wide is None or wide.inputs[0] is None or wide.inputs[0].dtype != "int8":
        return None
    scale = number(node.inputs[1])
    return wide.inputs[0] if scale and scale == number(wide.inputs[1]) else None


def fuse_integer_epilogue(program: Program) -> bool:
    """Let an int8 product end with what follows it.

    1. add(product, r) with r of the product's shape -> product with residual r.
    2. product with the residual dequantize(q, s) -> product with q, times s.
    3. act(product) -> product with that act, if it has none.
    4. quantize(product, s) -> product of int8 results.
    5. quantize_affine(product, s) -> the same, with a zero point and a lower bound.

    4 and 5 also of matmul_int8 and attention_int8. Requires float32 results of the
    product (but for relu), read by that node alone, and one scale.
    """
    changed = False
    for block in program.blocks:
        for node in block.nodes:
            if node.op == "add":
                changed |= _fuse_sum(node)
            elif node.op in _ACTS:
                changed |= _fuse_act(node)
            elif node.op in ("quantize", "quantize_affine"):
                changed |= _fuse_rounding(node)
            if node.op in _PRODUCTS:
                changed |= _keep_residual_whole(node)
    return changed


def _product(
    value: Value | None,
    reader: Node,
    dtypes: tuple[str, ...] = ("float32",),
    ops: tuple[str, ...] = _PRODUCTS,
) -> Node | None:
    product = produced_by(value, *ops)
    if product is None or product.attrs["dtype"] not in dtypes:
        return None
    return product if product.outputs[0].only_user is reader else None


def _inputs(product: Node) -> list[Value | None]:
    return [*product.inputs, None, None][:5]


def _fuse_sum(add: Node) -> bool:
    for value, other in (add.inputs[:2], add.inputs[1::-1]):
        product = _product(value, add)
        if product is None or other is None or other.dtype != "float32":
            continue
        inputs = _inputs(product)
        if inputs[4] is not None or product.attrs.get("act", "none") != "none":
            continue
        if same_shape(product.outputs[0], other):
            rewrite(add, product.op, [*inputs[:4], other], product.attrs)
            return True
    return False


def _keep_residual_whole(product: Node) -> bool:
    inputs = _inputs(product)
    wide = produced_by(inputs[4], "dequantize")
    scale = None if wide is None else number(wide.inputs[1])
    if wide is None or scale is None or wide.inputs[0] is None:
        return False
    if wide.inputs[0].dtype != "int8":
        return False
    attrs = {**product.attrs, "residual_scale": scale}
    rewrite(product, product.op, [*inputs[:4], wide.inputs[0]], attrs)
    return True


def _fuse_act(node: Node) -> bool:
    dtypes = ("float32", "int8") if node.op == "relu" else ("float32",)
    product = _product(node.inputs[0], node, dtypes)
    defaults = {a.name: a.default for a in ROWS[node.op].attributes}
    if product is None or node.attrs != defaults:
        return False
    if product.attrs.get("act", "none") != "none" or product.attrs.get("out_zero"):
        return False
    attrs: dict[str, Any] = {**product.attrs, "act": node.op}
    rewrite(node, product.op, list(product.inputs), attrs)
    return True


def _fuse_rounding(node: Node) -> bool:
    product = _product(node.inputs[0], node, ops=(*_PRODUCTS, *_PAIRS))
    scale = number(node.inputs[1])
    if product is None or scale is None:
        return False
    attrs = {**product.attrs, "dtype": "int8", "out_scale": scale}
    if node.op == "quantize_affine":
        attrs |= {"out_zero": node.attrs["zero_point"], "low": node.attrs["low"]}
    rewrite(node, product.op, list(product.inputs), attrs)
    return True


def _dequantized(value: Value | None) -> tuple[Value, float] | None:
    """The int8 array and the scale that a value is made of."""
    wide = produced_by(value, "dequantize")
    scale = None if wide is None else number(wide.inputs[1])
    x = None if wide is None else wide.inputs[0]
    return (x, scale) if x is not None and scale and x.dtype == "int8" else None


def fuse_integer_gate(program: Program) -> bool:
    """Weight the channels of an image as integers.

    1. quantize(mul(dequantize(x, s), gate), t) -> gate_int8(x, gate), with gate of
       shape (n, c, 1, 1), in any order.

    Requires one scale each, and that the quantize alone reads the product.
    """
    changed = False
    for block in program.blocks:
        for node in block.nodes:
            product = (
                produced_by(node.inputs[0], "mul") if node.op == "quantize" else None
            )
            step = None if product is None else number(node.inputs[1])
            if product is None or not step:
                continue
            if product.outputs[0].only_user is node:
                changed |= _fuse_gate(node, product, step)
    return changed


def _fuse_gate(node: Node, product: Node, step: float) -> bool:
    for value, gate in (product.inputs[:2], product.inputs[1::-1]):
        image = _dequantized(value)
        if image is None or gate is None or gate.dtype != "float32":
            continue
        x, scale = image
        shape = (*x.shape[:2], 1, 1)
        if len(x.shape) == 4 and gate.shape == shape:
            attrs = {"x_scale": scale, "out_scale": step}
            rewrite(node, "gate_int8", [x, gate], attrs)
            return True
    return False


def fuse_integer_mean(program: Program) -> bool:
    """Take the mean of an image as integers.

    1. adaptive_avg_pool2d(dequantize(x, s)) to one pixel -> mean_int8(x).

    Requires one scale. Rounds once, where the sum of floats rounds at every step.
    """
    changed = False
    for block in program.blocks:
        for node in block.nodes:
            if node.op != "adaptive_avg_pool2d" or list(node.attrs["size"]) != [1, 1]:
                continue
            image = _dequantized(node.inputs[0])
            if image is not None:
                rewrite(node, "mean_int8", [image[0]], {"scale": image[1]})
                changed = True
    return changed
