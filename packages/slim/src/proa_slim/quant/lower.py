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
        for node in list(block.nodes):
            if quantizable(node) and made_by(node.inputs[0], "fake_quant"):
                count += _to_integers(program, block, node, config)
    optimize(program, 1)
    changed = True
    while changed:
        changed = any(
            _move_up(program, b) or _fuse_requantize(program, b) for b in program.blocks
        )
        apply(program, ["eliminate_common_subexpressions", "remove_dead_code"])
    return count


def _insert_before(block: Block, node: Node, new: Node) -> Value:
    block.nodes.insert(block.nodes.index(node), new)
    return new.outputs[0]


def _to_integers(
    program: Program, block: Block, node: Node, config: QuantConfig
) -> int:
    fake = made_by(node.inputs[0], "fake_quant")
    weight = node.inputs[1]
    assert fake is not None and weight is not None and weight.data is not None
    scale = fake.inputs[1]
    if scale is None or scale.data is None or scale.data.size != 1:
        return 0
    op, axis = PRODUCTS[node.op]
    w_scale = weight_scale(np.asarray(weight.data), axis, config)
    integers = quantize_array(
        np.asarray(weight.data), w_scale, axis if w_scale.size > 1 else -1
    )
    x_scale = np.float32(scale.data.reshape(()))
    channels = weight.shape[axis]
    multiplier = np.broadcast_to(x_scale * w_scale, (channels,)).astype(np.float32)
    x = _insert_before(
        block, node, make_node(program, "quantize", [fake.inputs[0], scale], {})
    )
    inputs = [*node.inputs, None, None][:4]
    act, residual = node.attrs.get("act", "none"), inputs[3]
    attrs = {k: v for k, v in node.attrs.items() if k != "act"}
    arguments: list[Value | None] = [
        x,
        program.constant(integers, "int8", f"{weight.name}.int8"),
        program.constant(multiplier, name=f"{weight.name}.multiplier"),
        inputs[2],
    ]
    inside = act if residual is None else "none"
    attrs |= {"act": inside, "dtype": "float32"}
    if residual is None:
        rewrite(node, op, arguments, attrs)
        return 1
    product = _insert_before(block, node, make_node(program, op, arguments, attrs))
    if act == "none":
        rewrite(node, "add", [product, residual], {})
    else:
        total = make_node(program, "add", [product, residual], {})
        rewrite(node, act, [_insert_before(block, node, total)], {})
    return 1


def _quantizes(block: Block) -> list[Node]:
    return [n for n in block.nodes if n.op == "quantize" and n.inputs[1] is not None]


def _move_up(program: Program, block: Block) -> bool:
    for node in _quantizes(block):
        before = made_by(node.inputs[0], *_COMMUTES)
        scale = node.inputs[1]
        if before is None or scale is None or int(np.prod(scale.shape)) != 1:
            continue
        if before.outputs[0].only_user is not node:
            continue

        early = make_node(
            program, "quantize", [before.inputs[0], scale], dict(node.attrs)
        )
        moved = _insert_before(block, before, early)
        block.nodes.remove(before)
        position = block.nodes.index(node)
        late = make_node(program, before.op, [moved, *before.inputs[1:]], before.attrs)
        kept = node.outputs[0]
        kept.producer = late
        late.outputs = [kept]
        block.nodes[position] = late
        return True
    return False


def _fuse_requantize(program: Program, block: Block) -> bool:
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
        return True
    return False
