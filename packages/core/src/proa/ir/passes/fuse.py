from __future__ import annotations

from typing import Any

from proa.ir.passes.match import produced_by, rewrite, same_shape
from proa.ir.passes.scaled_convolution import is_scaled
from proa.ir.program import Node, Program, Value
from proa.schema import ROWS

_FUSED = {"conv2d": "conv2d_act", "linear": "linear_act"}
_PRODUCTS = (*_FUSED, *_FUSED.values(), "conv2d_norm")
#: Other products that end with an activation.
_ENDING = ("linear_weight_only", "linear_dynamic")
_ACTS = [a for a in ROWS["conv2d_act"].attribute("act").choices if a != "none"]


def _padded(node: Node, count: int) -> list[Value | None]:
    return [*node.inputs, *[None] * (count - len(node.inputs))]


def _arguments(product: Node) -> list[Value | None]:
    """The inputs of its fused form, of which the residual is the last."""
    return _padded(product, 7 if product.op == "conv2d_norm" else 4)


def _product(value: Value | None, reader: Node, *ops: str) -> Node | None:
    """The product that makes the value, if `reader` alone reads it and it has no scale
    as its last step.
    """
    node = produced_by(value, *ops)
    if node is None or node.outputs[0].only_user is not reader or is_scaled(node):
        return None
    return node


def _is_bias(product: Node, value: Value) -> bool:
    """Whether adding the value is adding a number per output channel or column."""
    if not value.is_constant or value.dtype != product.outputs[0].dtype:
        return False
    weight = product.inputs[1]
    assert weight is not None
    size = weight.shape[0] if product.op == "conv2d" else weight.shape[-1]
    tail = (size, 1, 1) if product.op == "conv2d" else (size,)
    rank = len(product.outputs[0].shape)
    shape = value.shape
    while len(shape) > len(tail) and shape[0] == 1 and len(shape) <= rank:
        shape = shape[1:]
    return shape == tail


def fuse_bias(program: Program) -> bool:
    """Give a product the constant that is added to it.

    1. add(conv2d(x, w), c) with c of (C, 1, 1) or (1, C, 1, 1) -> conv2d(x, w, c).
    2. add(linear(x, w), c) with c of (out,) -> linear(x, w, c).
    3. matmul(x, w) with a constant w of rank 2 -> linear(x, w), which 2 then takes up.

    Requires that the add alone reads the product. Composite: the nodes as they were.
    """
    changed = False
    for block in program.blocks:
        for node in block.nodes:
            if node.op == "matmul":
                w = node.inputs[1]
                fits = w is not None and w.is_constant and len(w.shape) == 2
                if fits and w is not None and w.dtype in ROWS["linear"].dtypes:
                    rewrite(node, "linear", [node.inputs[0], w], {})
                    changed = True
            elif node.op == "add":
                changed |= _fuse_bias_add(program, node)
    return changed


def _fuse_bias_add(program: Program, add: Node) -> bool:
    for value, other in (add.inputs[:2], add.inputs[1::-1]):
        product = _product(value, add, "conv2d", "linear")
        if product is None or other is None or not _is_bias(product, other):
            continue
        x, w, bias = _padded(product, 3)
        if bias is not None:
            continue
        assert other.data is not None
        flat = program.constant(other.data.reshape(-1), other.dtype, other.name)
        rewrite(add, product.op, [x, w, flat], product.attrs)
        return True
    return False


def _activation(node: Node) -> str | None:
    if node.op not in _ACTS:
        return None
    defaults = {a.name: a.default for a in ROWS[node.op].attributes}
    return node.op if node.attrs == defaults else None


def _attrs(product: Node, act: str) -> dict[str, Any]:
    return {**product.attrs, "act": act}


def fuse_epilogue(program: Program) -> bool:
    """Let a product add a residual and apply an activation to what is in registers.

    1. add(product, r) with r of the product's shape -> product with residual r; product
       is conv2d, linear, or their _act form or conv2d_norm, without activation and
       residual.
    2. act(product) -> product with that act, if it has none; act is a choice of
       conv2d_act with default attributes, and product also linear_weight_only or
       linear_dynamic.

    Requires that the add or act alone reads the product. A batch of unknown size is
    taken to be the same for r and the product; where it is not, the run reports the
    shape. Composite: the nodes as they were.
    """
    changed = False
    for block in program.blocks:
        for node in block.nodes:
            act = _activation(node)
            if act is not None:
                changed |= _fuse_act(node, act)
            elif node.op == "add":
                changed |= _fuse_residual(node)
    return changed


def fuse_relu(program: Program) -> bool:
    """Let a product end with the relu that follows it, as its registers are stored.

    1. relu(product) -> product with act="relu"; product is a conv2d or linear of
       float32.

    Requires that the relu alone reads the product. Ensures the same bits, so that
    recorded training may use it: the gradient of relu follows from its result.
    """
    changed = False
    for block in program.blocks:
        for node in block.nodes:
            if node.op != "relu" or node.outputs[0].dtype != "float32":
                continue
            product = _product(node.inputs[0], node, *_FUSED)
            if product is not None:
                changed |= _fuse_act(node, "relu")
    return changed


def _fuse_act(node: Node, act: str) -> bool:
    product = _product(node.inputs[0], node, *_PRODUCTS, *_ENDING)
    if product is None or product.attrs.get("act", "none") != "none":
        return False
    if product.op in _ENDING:
        rewrite(node, product.op, list(product.inputs), {**product.attrs, "act": act})
        return True
    op = _FUSED.get(product.op, product.op)
    rewrite(node, op, _arguments(product), _attrs(product, act))
    return True


def _fuse_residual(add: Node) -> bool:
    for value, other in (add.inputs[:2], add.inputs[1::-1]):
        product = _product(value, add, *_PRODUCTS)
        if product is None or other is None or product.outputs[0] is other:
            continue
        result = product.outputs[0]
        if not same_shape(result, other) or result.dtype != other.dtype:
            continue
        inputs = _arguments(product)
        if product.attrs.get("act", "none") != "none" or inputs[-1] is not None:
            continue
        inputs[-1] = other
        op = _FUSED.get(product.op, product.op)
        rewrite(add, op, inputs, _attrs(product, "none"))
        return True
    return False
