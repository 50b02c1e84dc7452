"""From the recorded graph of a trained network to its integer program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa.ir.attributes import row_of
from proa.ir.builder import make_node
from proa.ir.passes import PIPELINE, apply, optimize
from proa.ir.passes.match import produced_by, rewrite
from proa.ir.program import Block, Node, Program, Value
from proa.jit.save_load import export
from proa.nn import Layer
from proa_slim.config import QuantConfig
from proa_slim.quant.lower import PRODUCTS, connect_integers, to_integers
from proa_slim.quant.transposed import transposed_as_convolutions

#: Norms stay what they are until products are integers: folded into a weight before,
#: they would change what was rounded in training.
_PASSES = [
    p.name
    for p in PIPELINE
    if p.level <= 3 and p.name not in ("fold_batch_norm", "fuse_batch_norm")
]
_RECORDED = (*PRODUCTS, "conv2d_transpose")
_INTEGER = ("conv2d_int8", "linear_int8")


def recorded(network: Layer, input_spec: Sequence[Any]) -> Program:
    """The network's graph in evaluation mode, as it was called."""
    program: Program = export(network, input_spec).program
    return program


def lower_trained(program: Program, config: QuantConfig) -> int:
    """Lower a program with fake-quantized products, which keep the scales of their
    weights; returns how many products became integer ones.

    1. Products are fused with what follows and become integer ones (`to_integers`).
    2. A batch norm that was not folded in training goes into the multiplier and the
       bias of the integer product before it.
    3. Rounding that no product reads, of activations, becomes quantize and dequantize.
    4. Integers flow on (`merge_integers`).
    """
    hidden = _hide_weights(program)
    apply(program, _PASSES)
    for value in hidden:
        value.kind = "param"
    transposed_as_convolutions(program)
    count = to_integers(program, config)
    for block in program.blocks:
        _absorb_norms(program, block)
        _lower_rounding(program, block)
    merge_integers(program)
    return count


def merge_integers(program: Program) -> None:
    """Let integer products compute what follows them, and integers flow on.

    1. An activation after an integer product goes into it.
    2. quantize moves up and into integer products (`connect_integers`).

    Ensures that no bit of the results changes.
    """
    for block in program.blocks:
        _absorb_activations(block)
    optimize(program, 1)
    connect_integers(program)


def _hide_weights(program: Program) -> list[Value]:
    """Constant weights that are fake-quantized, which now count as no constants: or
    constant folding would leave rounded numbers without their scale.
    """
    found: dict[Value, None] = {}
    for block in program.blocks:
        for node in block.nodes:
            fake = (
                produced_by(node.inputs[1], "fake_quant")
                if node.op in _RECORDED
                else None
            )
            weight = None if fake is None else fake.inputs[0]
            if weight is not None and weight.is_constant:
                found[weight] = None
    for value in found:
        value.kind = "input"
    return list(found)


def _lower_rounding(program: Program, block: Block) -> None:
    nodes = []
    for node in block.nodes:
        if node.op == "fake_quant":
            nodes.append(make_node(program, "quantize", list(node.inputs), node.attrs))
            integers = nodes[-1].outputs[0]
            rewrite(node, "dequantize", [integers, node.inputs[1]], node.attrs)
        nodes.append(node)
    block.nodes = nodes


def _absorb_norms(program: Program, block: Block) -> None:
    for norm in [n for n in block.nodes if n.op == "batch_norm_infer"]:
        product = _plain_product(norm, norm.inputs[0])
        numbers = [None if v is None else v.data for v in norm.inputs[1:]]
        if product is None or any(n is None for n in numbers):
            continue
        if product.op == "linear_int8" and len(norm.outputs[0].shape) != 2:
            continue
        mean, variance, scale, shift = (np.asarray(n, np.float64) for n in numbers)
        factor = scale / np.sqrt(variance + norm.attrs["epsilon"])
        x, weight, multiplier, bias = product.inputs[:4]
        assert multiplier is not None and multiplier.data is not None
        old = 0.0 if bias is None or bias.data is None else bias.data
        stem = multiplier.name
        inputs: list[Value | None] = [
            x,
            weight,
            _constant(program, multiplier.data * factor, f"{stem}.normed"),
            _constant(program, (old - mean) * factor + shift, f"{stem}.shift"),
        ]
        rewrite(norm, product.op, inputs, product.attrs)


def _constant(program: Program, array: Any, name: str) -> Value:
    return program.constant(array.astype(np.float32), name=name)


def _plain_product(node: Node, value: Value | None) -> Node | None:
    """The integer product of a value that only the node reads, in float32."""
    product = produced_by(value, *_INTEGER)
    if product is None or product.outputs[0].only_user is not node:
        return None
    attrs = product.attrs
    plain = attrs.get("act", "none") == "none" and attrs["dtype"] == "float32"
    adds = any(v is not None for v in product.inputs[4:])
    return product if plain and not adds else None


def _absorb_activations(block: Block) -> None:
    for node in block.nodes:
        if node.op not in row_of(_INTEGER[0]).attribute("act").choices:
            continue
        product = _plain_product(node, node.inputs[0])
        if product is None or len(node.inputs) != 1 or node.attrs:
            continue
        attrs = {**product.attrs, "act": node.op}
        rewrite(node, product.op, list(product.inputs), attrs)
