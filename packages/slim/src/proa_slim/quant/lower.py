"""From fake quantization to integers: the passes that make an int8 program.

A quantized program is an ordinary one in which the input of each product (convolution
or matrix product) goes through ``fake_quant``, and perhaps its weight. These passes
replace them by the integer product, and let integers flow on between products.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

import proa
from proa.ir.builder import make_node
from proa.ir.narrow import narrow_weights
from proa.ir.passes import apply, optimize
from proa.ir.passes.match import produced_by, rewrite
from proa.ir.program import Array, Node, Program, Value
from proa.runtime import call_operator
from proa_slim.config import QuantConfig
from proa_slim.quant.layer_paths import is_in
from proa_slim.quant.pairs import pair_to_integers
from proa_slim.quant.scales import weight_scale

#: Integer form of each product, and the axis of its weight that counts output channels.
PRODUCTS = {
    "conv2d": ("conv2d_int8", 0),
    "conv2d_act": ("conv2d_int8", 0),
    "linear": ("linear_int8", 1),
    "linear_act": ("linear_int8", 1),
}
#: Passes that let integers flow on between integer products.
_FLOW = (
    "move_quantize_up",
    "fuse_integer_epilogue",
    "fuse_integer_gate",
    "fuse_integer_mean",
    "eliminate_common_subexpressions",
    "remove_dead_code",
)


def narrow_layers(program: Program, paths: Iterable[object], where: str) -> None:
    """Store the weights of the layers of these paths in float16.

    Raises:
        InvalidArgumentError: If a weight is too large for it; the text names `where`.
    """
    layers = list(paths)
    narrow_weights(program, "float16", where, chosen=lambda name: is_in(name, layers))


def quantizable(node: Node) -> bool:
    """True of a float32 product with a constant weight."""
    if node.op not in PRODUCTS:
        return False
    weight = _constant_weight(node)
    return (
        weight is not None
        and weight.dtype == "float32"
        and all(v is None or v.is_constant for v in node.inputs[2:3])
    )


def _constant_weight(node: Node) -> Value | None:
    """The product's weight before its own fake quantization, if it is constant."""
    fake = produced_by(node.inputs[1], "fake_quant")
    weight = node.inputs[1] if fake is None else fake.inputs[0]
    return weight if weight is not None and weight.is_constant else None


class RoundedInput(NamedTuple):
    """A product's input before its fake quantization, and the constants of that."""

    x: Value | None
    scale: Value
    offset: Value | None


def rounded_input(node: Node) -> RoundedInput | None:
    """How the product's input is fake-quantized, if it is.

    1. fake_quant(x, scale), the range symmetric.
    2. add(fake_quant(sub(x, offset), scale), offset).
    """
    shifted = produced_by(node.inputs[0], "add")
    value = node.inputs[0] if shifted is None else shifted.inputs[0]
    fake = produced_by(value, "fake_quant")
    scale = None if fake is None else fake.inputs[1]
    if fake is None or scale is None or not _is_number(scale):
        return None
    if shifted is None:
        return RoundedInput(fake.inputs[0], scale, None)
    before, offset = produced_by(fake.inputs[0], "sub"), shifted.inputs[1]
    if before is None or offset is not before.inputs[1] or not _is_number(offset):
        return None
    return RoundedInput(before.inputs[0], scale, offset)


def _is_number(value: Value | None) -> bool:
    return value is not None and value.data is not None and value.data.size == 1


def _number(value: Value) -> float:
    assert value.data is not None
    return float(value.data.reshape(()))


def quantize_array(array: Array, scale: Array, axis: int) -> Array:
    """clamp(round(x / scale), -127, 127) by the op itself."""
    whole = np.ascontiguousarray(array, np.float32)
    x, step = proa.to_tensor(whole), proa.to_tensor(np.ascontiguousarray(scale))
    (integers,) = call_operator("quantize", x, step, axis=axis)
    return np.array(integers.numpy())


def lower(program: Program, config: QuantConfig) -> int:
    """Rewrite every ``product(fake_quant(x, s), w)`` to integers; returns how many.

    1. The product becomes quantize -> integer product with float32 result, its weight
       int8 with one scale per output channel. It adds the residual, and applies the
       activation.
    2. Any other fake_quant with one scale becomes dequantize(quantize(x)).
    3. Integers flow on between products, by the passes of `proa.ir.passes.integers`.

    Requires constant scales. Ensures that results equal those of the fake-quantized
    program up to float32 rounding, and are the same integers in every runtime.
    """
    count = to_integers(program, config)
    connect_integers(program)
    return count


def to_integers(program: Program, config: QuantConfig) -> int:
    """Step 1 of `lower`; returns how many products were rewritten."""
    count = 0
    for block in program.blocks:
        nodes = []
        for node in block.nodes:
            before = _to_integers(program, node, config)
            before = before or pair_to_integers(program, node)
            count += bool(before)
            nodes += [*before, node]
        block.nodes = nodes
    optimize(program, 1)
    return count


def connect_integers(program: Program) -> None:
    """Steps 2 and 3 of `lower`: integers flow on between integer products."""
    for block in program.blocks:
        nodes = []
        for node in block.nodes:
            nodes += [*_to_rounded(program, node), node]
        block.nodes = nodes
    while apply(program, _FLOW):
        pass


def _to_rounded(program: Program, node: Node) -> list[Node]:
    """Rewrite a fake_quant to dequantize; returns the quantize before it."""
    if node.op != "fake_quant" or not _is_number(node.inputs[1]):
        return []
    before = make_node(program, "quantize", node.inputs[:2], {})
    rewrite(node, "dequantize", [before.outputs[0], node.inputs[1]], {})
    return [before]


def _to_integers(program: Program, node: Node, config: QuantConfig) -> list[Node]:
    """Rewrite the product to one of integers, if its input is fake-quantized; returns
    the nodes that must be before it.
    """
    if not quantizable(node):
        return []
    found = rounded_input(node)
    if found is None:
        return []
    x, scale, offset = found
    op, axis = PRODUCTS[node.op]
    integers, w_scale, name = _integer_weight(node, axis, config)
    channels = integers.shape[axis]
    w_scales = np.broadcast_to(w_scale, (channels,))
    inputs = [*node.inputs, None, None][:4]
    attrs = {"act": "none", **node.attrs, "dtype": "float32"}
    nodes: list[Node] = []
    bias = inputs[2]
    if offset is not None:
        nodes, attrs = _shifted_input(program, x, offset, attrs)
        x = nodes[-1].outputs[0]
        sums = _channel_sums(integers, axis) * w_scales
        bias = _shifted_bias(program, bias, _number(offset) * sums, name)
    nodes.append(make_node(program, "quantize", [x, scale], {}))
    multiplier = (np.float32(_number(scale)) * w_scales).astype(np.float32)
    arguments: list[Value | None] = [
        nodes[-1].outputs[0],
        program.constant(integers, "int8", f"{name}.int8"),
        program.constant(multiplier, name=f"{name}.multiplier"),
        bias,
        inputs[3],
    ]
    rewrite(node, op, arguments, attrs)
    return nodes


def _integer_weight(
    node: Node, axis: int, config: QuantConfig
) -> tuple[Array, Array, str]:
    """The product's weight in int8, its scales, and its name."""
    weight, fake = _constant_weight(node), produced_by(node.inputs[1], "fake_quant")
    assert weight is not None and weight.data is not None
    array = np.asarray(weight.data)
    given = None if fake is None or fake.inputs[1] is None else fake.inputs[1].data
    scale = weight_scale(array, axis, config.weight) if given is None else given
    integers = quantize_array(array, scale, axis if scale.size > 1 else -1)
    return integers, scale, weight.name


def _shifted_input(
    program: Program, x: Value | None, offset: Value, attrs: dict[str, Any]
) -> tuple[list[Node], dict[str, Any]]:
    """Nodes of x - offset, and the product's attributes for it.

    A convolution pads with integers 0, which would be `offset`: x is padded before.
    """
    nodes = []
    padding = attrs.get("padding", [0])
    if any(padding):
        top, bottom, left, right = padding
        sides = {"low": [0, 0, top, left], "high": [0, 0, bottom, right]}
        nodes.append(make_node(program, "pad", [x], sides))
        x, attrs = nodes[-1].outputs[0], {**attrs, "padding": [0, 0, 0, 0]}
    nodes.append(make_node(program, "sub", [x, offset], {}))
    return nodes, attrs


def _channel_sums(integers: Array, axis: int) -> Array:
    others = tuple(i for i in range(integers.ndim) if i != axis)
    sums: Array = integers.sum(axis=others, dtype=np.float64)
    return sums


def _shifted_bias(
    program: Program, bias: Value | None, shift: Array, name: str
) -> Value:
    """bias + shift, which is the offset times the sum of each channel's weights."""
    whole = shift if bias is None or bias.data is None else shift + bias.data
    return program.constant(whole.astype(np.float32), name=f"{name}.shifted_bias")
