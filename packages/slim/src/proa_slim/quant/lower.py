"""From fake quantization to integers: the passes that make an int8 program.

A quantized program is an ordinary one in which the input of each product (convolution
or matrix product) goes through ``fake_quant``. These passes replace the pair by the
integer product, and let integers flow on between products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import proa
from proa.ir.builder import make_node
from proa.ir.passes import apply, optimize
from proa.ir.passes.match import made_by, rewrite
from proa.ir.program import Array, Block, Node, Program, Value
from proa.runtime import call_operator
from proa_slim.config import QuantConfig
from proa_slim.quant.observers import weight_scale

#: Integer form of each product, and the axis of its weight that counts output channels.
PRODUCTS = {
    "conv2d": ("conv2d_int8", 0),
    "conv2d_act": ("conv2d_int8", 0),
    "linear": ("linear_int8", 1),
    "linear_act": ("linear_int8", 1),
}
#: Ops that give the same elements elsewhere, or the greatest of some: rounding to a
#: grid before or after them is the same.
_COMMUTES = (
    "max_pool2d",
    "relu",
    "reshape",
    "flatten",
    "squeeze",
    "unsqueeze",
    "transpose",
)


def quantizable(node: Node) -> bool:
    """True of a float32 product with a constant weight."""
    if node.op not in PRODUCTS:
        return False
    weight = node.inputs[1]
    return (
        weight is not None
        and weight.is_constant
        and weight.dtype == "float32"
        and all(v is None or v.is_constant for v in node.inputs[2:3])
    )


def quantize_array(array: Array, scale: Array, axis: int) -> Array:
    """clamp(round(x / scale), -127, 127) by the op itself."""
    whole = np.ascontiguousarray(array, np.float32)
    x, step = proa.to_tensor(whole), proa.to_tensor(np.ascontiguousarray(scale))
    (integers,) = call_operator("quantize", x, step, axis=axis)
    return np.array(integers.numpy())


def lower(program: Program, config: QuantConfig) -> int:
    """Rewrite every ``product(fake_quant(x, s), w)`` to integers; returns how many.

    1. The product becomes quantize -> integer product with float32 result, its weight
       int8 with one scale per output channel. A residual is added, and the activation
       applied, afterwards.
    2. quantize moves before pools, ReLU and views, which commute with it.
    3. An integer product read by one quantize alone gives its integers itself.

    Requires constant scales. Ensures that results equal those of the fake-quantized
    program up to float32 rounding, and are the same integers in every runtime.
    """
    count = 0
    for block in program.blocks:
        nodes = []
        for node in block.nodes:
            before = _to_integers(program, node, config)
            count += bool(before)
            nodes += [*before, node]
        block.nodes = nodes
    optimize(program, 1)
    changed = True
    while changed:
        changed = False
        for block in program.blocks:
            changed |= _move_up(program, block) or _fuse_requantize(block)
        apply(program, ["eliminate_common_subexpressions", "remove_dead_code"])
    return count


def _to_integers(program: Program, node: Node, config: QuantConfig) -> list[Node]:
    """Rewrite the product to one of integers, if its input is fake-quantized; returns
    the nodes that must be before it.
    """
    if not quantizable(node):
        return []
    fake = made_by(node.inputs[0], "fake_quant")
    if fake is None:
        return []
    weight = node.inputs[1]
    assert weight is not None and weight.data is not None
    scale = fake.inputs[1]
    if scale is None or scale.data is None or scale.data.size != 1:
        return []
    op, axis = PRODUCTS[node.op]
    w_scale = weight_scale(np.asarray(weight.data), axis, config)
    integers = quantize_array(
        np.asarray(weight.data), w_scale, axis if w_scale.size > 1 else -1
    )
    x_scale = np.float32(scale.data.reshape(()))
    channels = weight.shape[axis]
    multiplier = np.broadcast_to(x_scale * w_scale, (channels,)).astype(np.float32)
    nodes = [make_node(program, "quantize", [fake.inputs[0], scale], {})]
    inputs = [*node.inputs, None, None][:4]
    act, residual = node.attrs.get("act", "none"), inputs[3]
    attrs = {k: v for k, v in node.attrs.items() if k != "act"}
    arguments: list[Value | None] = [
        nodes[0].outputs[0],
        program.constant(integers, "int8", f"{weight.name}.int8"),
        program.constant(multiplier, name=f"{weight.name}.multiplier"),
        inputs[2],
    ]
    inside = act if residual is None else "none"
    attrs |= {"act": inside, "dtype": "float32"}
    if residual is None:
        rewrite(node, op, arguments, attrs)
        return nodes
    nodes.append(make_node(program, op, arguments, attrs))
    given: list[Value | None] = [nodes[-1].outputs[0], residual]
    if act == "none":
        rewrite(node, "add", given, {})
    else:
        nodes.append(make_node(program, "add", given, {}))
        rewrite(node, act, [nodes[-1].outputs[0]], {})
    return nodes


def _quantizes(block: Block) -> list[Node]:
    return [n for n in block.nodes if n.op == "quantize" and n.inputs[1] is not None]


def _move_up(program: Program, block: Block) -> bool:
    changed = False
    for node in _quantizes(block):
        above: Node | None = node
        while above is not None:
            above = _moved(program, above)
            changed |= above is not None
    return changed


def _moved(program: Program, node: Node) -> Node | None:
    """Let a quantize and the node that makes its input compute each other's op, if they
    commute; returns the node that is now the quantize.
    """
    before = made_by(node.inputs[0], *_COMMUTES)
    scale = node.inputs[1]
    if before is None or scale is None or int(np.prod(scale.shape)) != 1:
        return None
    if before.outputs[0].only_user is not node:
        return None
    early = make_node(program, "quantize", [before.inputs[0], scale], node.attrs)
    integers = early.outputs[0]
    node.op, node.attrs = before.op, before.attrs
    node.inputs = [integers, *before.inputs[1:]]
    before.op, before.attrs, before.inputs = early.op, early.attrs, early.inputs
    before.outputs, integers.producer = [integers], before
    return before


def _fuse_requantize(block: Block) -> bool:
    changed = False
    for node in _quantizes(block):
        product = made_by(node.inputs[0], "conv2d_int8", "linear_int8")
        if product is None or product.outputs[0].only_user is not node:
            continue
        scale = node.inputs[1]
        if scale is None or scale.data is None or scale.data.size != 1:
            continue
        attrs: dict[str, Any] = {
            **product.attrs,
            "dtype": "int8",
            "out_scale": float(scale.data.reshape(())),
        }
        rewrite(node, product.op, list(product.inputs), attrs)
        changed = True
    return changed
