from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from proa.ir.builder import make_node
from proa.ir.passes.match import produced_by, rewrite
from proa.ir.program import Array, Node, Program, Value

_TYPES = ("float32", "float64")


def _number(value: Value | None) -> float | None:
    """The constant's value, if it is one number."""
    if value is None or value.data is None or math.prod(value.shape) != 1:
        return None
    return float(np.asarray(value.data).reshape(()))


def _operand(value: Value | None, op: str, number: float) -> Value | None:
    """x, if the value is made by op(x, number) or op(number, x)."""
    node = produced_by(value, op)
    if node is None:
        return None
    for x, constant in (node.inputs[:2], node.inputs[1::-1]):
        if _number(constant) == number:
            return x
    return None


def _clipped(value: Value | None) -> Value | None:
    """x of min(max(x + 3, 0), 6), in either order."""
    for outer, inner, high, low in (
        ("minimum", "maximum", 6.0, 0.0),
        ("maximum", "minimum", 0.0, 6.0),
    ):
        x = _operand(_operand(value, outer, high), inner, low)
        x = _operand(x, "add", 3.0)
        if x is not None:
            return x
    return None


def _gated(node: Node | None, gate: Any) -> Value | None:
    """x of mul(x, y) where gate(y) is x."""
    if node is None or node.op != "mul":
        return None
    for x, y in (node.inputs[:2], node.inputs[1::-1]):
        if x is not None and gate(y) is x:
            return x
    return None


def _sigmoid(value: Value | None) -> Value | None:
    """x of sigmoid(x), or of sigmoid(1 * x)."""
    node = produced_by(value, "sigmoid")
    if node is None:
        return None
    return _operand(node.inputs[0], "mul", 1.0) or node.inputs[0]


def fuse_gated_activation(program: Program) -> bool:
    """Replace decomposed activations by one operator.

    1. x * min(max(x + 3, 0), 6) / 6 -> hard_swish(x).
    2. x * sigmoid(x), and x * sigmoid(1 * x) -> silu(x).

    Requires numbers that are constants, and that the result has the shape of x.
    Composite: the nodes as they were.
    """
    changed = False
    for block in program.blocks:
        for node in block.nodes:
            y = node.outputs[0]
            x, op = None, "hard_swish"
            if node.op == "div" and _number(node.inputs[1]) == 6.0:
                x = _gated(produced_by(node.inputs[0], "mul"), _clipped)
            elif node.op == "mul":
                x, op = _gated(node, _sigmoid), "silu"
            if x is not None and x.shape == y.shape and x.dtype == y.dtype:
                rewrite(node, op, [x], {})
                changed = True
    return changed


def _per_channel(value: Value | None, channels: int) -> Array | None:
    """A number, or one for each channel of an image, as an array of all channels."""
    if value is None or value.data is None or value.dtype not in _TYPES:
        return None
    number = np.asarray(value.data)
    if number.size == 1:
        return np.full(channels, number.reshape(()), number.dtype)
    if value.shape[-3:] == (channels, 1, 1) and number.size == channels:
        return number.reshape(-1)
    return None


def _scaled(add: Node, *ops: str) -> tuple[Node, Array, Array] | None:
    """The convolution, factor and shift of add(mul(convolution, factor), shift)."""
    channels = add.outputs[0].shape[1] if len(add.outputs[0].shape) == 4 else -1
    if add.op != "add" or channels < 0 or add.outputs[0].dtype not in _TYPES:
        return None
    for product, shift in (add.inputs[:2], add.inputs[1::-1]):
        mul = produced_by(product, "mul")
        if mul is None or mul.outputs[0].only_user is not add:
            continue
        for value, factor in (mul.inputs[:2], mul.inputs[1::-1]):
            found = produced_by(value, *ops)
            a, b = _per_channel(factor, channels), _per_channel(shift, channels)
            if found is None or a is None or b is None:
                continue
            y = found.outputs[0]
            if y.only_user is mul and y.shape == add.outputs[0].shape:
                return found, a, b
    return None


def fold_scale(program: Program) -> bool:
    """Take a factor and a shift of a convolution's results into its weights.

    For quantization, which rounds the weights anyway: results change in the last bits.

    1. add(mul(conv2d(x, w, b?), c), d) -> conv2d(x, w * c, b * c + d); c and d are
       numbers, or one for each channel.

    Requires constant w, b, c and d, and that nothing else reads what is replaced. Its
    composite is the nodes as they were.
    """
    changed = False
    for block in program.blocks:
        for add in block.nodes:
            found = _scaled(add, "conv2d")
            if found is None:
                continue
            conv, factor, shift = found
            w = conv.inputs[1]
            b = conv.inputs[2] if len(conv.inputs) > 2 else None
            if w is None or w.data is None or (b is not None and b.data is None):
                continue
            wide = factor.astype(np.float64)
            old = 0.0 if b is None else np.asarray(b.data, np.float64)
            weight = np.asarray(w.data, np.float64) * wide.reshape(-1, 1, 1, 1)
            bias, kind = old * wide + shift, np.asarray(w.data).dtype
            inputs: list[Value | None] = [
                conv.inputs[0],
                program.constant(weight.astype(kind), name=w.name),
                program.constant(bias.astype(kind), name=f"{w.name}.shift"),
            ]
            rewrite(add, "conv2d", inputs, conv.attrs)
            changed = True
    return changed


def fuse_scale(program: Program) -> bool:
    """Let a convolution scale and shift its results before they are stored.

    1. add(mul(conv2d(x, w, b?), c), d) -> conv2d_norm(x, w, 0, c, d, b?); c and d are
       numbers, or one for each channel.
    2. add(mul(conv2d_norm(..), c), d) with numbers c and d -> that conv2d_norm with
       scale c and offset d, if it has none.

    Requires constant c and d of float32 or float64, and that nothing else reads what is
    replaced. Composite: the nodes as they were.
    """
    changed = False
    for block in program.blocks:
        for add in block.nodes:
            found = _scaled(add, "conv2d", "conv2d_norm")
            if found is not None:
                changed |= _fuse(program, add, *found)
    return changed


def _fuse(program: Program, add: Node, conv: Node, factor: Array, shift: Array) -> bool:
    if conv.op == "conv2d":
        name = conv.outputs[0].name
        inputs: list[Value | None] = [
            *conv.inputs[:2],
            program.constant(np.zeros_like(factor), name=f"{name}.center"),
            program.constant(factor, name=f"{name}.factor"),
            program.constant(shift, name=f"{name}.shift"),
            *conv.inputs[2:],
        ]
        rewrite(add, "conv2d_norm", inputs, conv.attrs)
        return True
    is_number = not np.ptp(factor) and not np.ptp(shift)
    if not is_number or is_scaled(conv):
        return False
    attrs = {**conv.attrs, "scale": float(factor[0]), "offset": float(shift[0])}
    rewrite(add, "conv2d_norm", [*conv.inputs], attrs)
    return True


def is_scaled(product: Node) -> bool:
    """Whether a product ends with a scale, after which nothing can be fused."""
    attrs = product.attrs
    return bool(attrs.get("scale", 1.0) != 1.0 or attrs.get("offset", 0.0) != 0.0)


def unfuse_norm(program: Program, keep: Collection[str] = ()) -> bool:
    """Let convolutions that are followed by a norm have kernels of fewer bits; no pass
    of the pipeline, as results round otherwise.

    1. conv2d_norm(x, w, center, factor, shift, b?, residual?) -> conv2d_act(x, w *
       factor, (b - center) * factor + shift, residual?), and scale(.., scale, offset)
       after it if it has one of them.
    2. conv(scale(x, c, d), w, b?, ..) without padding -> conv(x, w * c, b + d * sum(w),
       ..), if it alone reads that.

    Leaves scales of 2 as dead code. Requires constants of float32. Names in `keep` are
    left alone: "conv2d_norm", or those of results.
    """
    changed = False
    for block in program.blocks:
        nodes: list[Node] = []
        for node in block.nodes:
            folded = _folded_norm(program, node)
            if folded is None or not {node.op, node.outputs[0].name}.isdisjoint(keep):
                nodes.append(node)
                continue
            attrs = dict(node.attrs)
            scale, offset = attrs.pop("scale"), attrs.pop("offset")
            if scale == 1.0 and offset == 0.0:
                rewrite(node, "conv2d_act", folded, attrs)
            else:
                conv = make_node(program, "conv2d_act", folded, attrs)
                nodes.append(conv)
                numbers = {"scale": scale, "bias": offset}
                rewrite(node, "scale", [conv.outputs[0]], numbers)
            nodes.append(node)
            changed = True
        block.nodes = nodes
        for node in nodes:
            changed |= _fold_scaled_input(program, node, keep)
    return changed


def _fold_scaled_input(program: Program, node: Node, keep: Collection[str]) -> bool:
    """Let weights scale what a convolution reads."""
    before = produced_by(node.inputs[0], "scale") if node.inputs else None
    if before is None or node.op not in ("conv2d", "conv2d_act"):
        return False
    if before.outputs[0].only_user is not node or before.outputs[0].name in keep:
        return False
    w, b, residual = (*node.inputs[1:], None, None)[:3]
    if any(v is not None and (v.data is None or v.dtype != "float32") for v in (w, b)):
        return False
    if w is None or any(node.attrs["padding"]):
        return False
    weight = np.asarray(w.data, np.float64)
    bias = before.attrs["bias"] * weight.sum((1, 2, 3))
    bias += 0.0 if b is None else np.asarray(b.data, np.float64)
    weight = weight * before.attrs["scale"]
    node.inputs = [
        before.inputs[0],
        program.constant(weight.astype(np.float32), name=w.name),
        program.constant(bias.astype(np.float32), name=f"{w.name}.shift"),
        *((residual,) if residual is not None else ()),
    ]
    return True


def _folded_norm(program: Program, node: Node) -> list[Value | None] | None:
    """The inputs of conv2d_act that compute what a conv2d_norm does but for scales."""
    if node.op != "conv2d_norm":
        return None
    x, w, center, factor, shift, b, residual = (*node.inputs, None, None)[:7]
    given = [v for v in (w, center, factor, shift, b) if v is not None]
    if any(v.data is None or v.dtype != "float32" for v in given):
        return None
    assert w is not None
    weight, mean, wide, added, *old = (np.asarray(v.data, np.float64) for v in given)
    bias = ((old[0] if old else 0.0) - mean) * wide + added
    weight = weight * wide.reshape(-1, 1, 1, 1)
    return [
        x,
        program.constant(weight.astype(np.float32), name=w.name),
        program.constant(bias.astype(np.float32), name=f"{w.name}.shift"),
        residual,
    ]
