"""From the recorded graph of a trained network to its integer program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa.ir.passes import PIPELINE, apply
from proa.ir.passes.match import made_by, rewrite
from proa.ir.program import Block, Node, Program, Value
from proa.jit.save_load import export
from proa.nn import Layer
from proa_slim.config import QuantConfig
from proa_slim.quant.lower import PRODUCTS, lower

#: Norms stay what they are until products are integers: folded into a weight before,
#: they would change what was rounded in training.
_PASSES = [
    p.name
    for p in PIPELINE
    if p.level <= 3 and p.name not in ("fold_batch_norm", "fuse_batch_norm")
]
_INTEGER = ("conv2d_int8", "linear_int8")


def recorded(network: Layer, input_spec: Sequence[Any]) -> Program:
    """The network's graph in evaluation mode, as it was called."""
    program: Program = export(network, input_spec).program
    return program


def lower_trained(program: Program, config: QuantConfig) -> int:
    """Lower a program with fake-quantized products, which keep the scales of their
    weights; returns how many products became integer ones.

    1. Products are fused with what follows, then lowered (`lower`).
    2. A batch norm that was not folded in training goes into the multiplier and the
       bias of the integer product before it.
    """
    hidden = _hide_weights(program)
    apply(program, _PASSES)
    for value in hidden:
        value.kind = "param"
    count = lower(program, config)
    changed = False
    for block in program.blocks:
        changed |= _absorb_norms(program, block)
    if changed:
        lower(program, config)  # integers may flow on where the norms were
    return count


def _hide_weights(program: Program) -> list[Value]:
    """Constant weights that are fake-quantized, which now count as no constants: or
    constant folding would leave rounded numbers without their scale.
    """
    found: dict[Value, None] = {}
    for block in program.blocks:
        for node in block.nodes:
            fake = (
                made_by(node.inputs[1], "fake_quant") if node.op in PRODUCTS else None
            )
            weight = None if fake is None else fake.inputs[0]
            if weight is not None and weight.is_constant:
                found[weight] = None
    for value in found:
        value.kind = "input"
    return list(found)


def _absorb_norms(program: Program, block: Block) -> bool:
    changed = False
    for norm in [n for n in block.nodes if n.op == "batch_norm_infer"]:
        product = _plain_product(norm)
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
        changed = True
    return changed


def _constant(program: Program, array: Any, name: str) -> Value:
    return program.constant(array.astype(np.float32), name=name)


def _plain_product(node: Node) -> Node | None:
    """The integer product that only the node reads, with float32 result."""
    product = made_by(node.inputs[0], *_INTEGER)
    if product is None or product.outputs[0].only_user is not node:
        return None
    attrs = product.attrs
    plain = attrs.get("act", "none") == "none" and attrs["dtype"] == "float32"
    adds = any(v is not None for v in product.inputs[4:])
    return product if plain and not adds else None
