"""Products of two activations in static programs: rounded in training, of integers in
tests.

Steps are values of the scope, which an attribute cannot be: integer products of a test
program have the scale 1, and what follows multiplies. Conversion, which knows the
steps, puts them into the products (`fold_scales`), and no bit of the results changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import proa
from proa.errors import UnimplementedError
from proa.ir.passes.match import number, produced_by, rewrite
from proa.ir.program import Node, Value
from proa.ir.program import Program as Graph
from proa.ir.record import to_tensor
from proa.nn import functional as F
from proa.runtime import call_operator
from proa_slim.config import QuantConfig
from proa_slim.quant.pair_layers import rounded_weights
from proa_slim.quant.pairs import PAIRS, operands_of
from proa_slim.static_graph import call_node

#: One of the 255 steps of the weights of softmax.
_WEIGHT_STEP = np.array([1 / 255], np.float32)
_NOTHING = -1e9


def is_pair(node: Node, config: QuantConfig, parameters: object) -> bool:
    """Whether the node is a product of two activations of a chosen kind.

    Args:
        node: Of a static program.
        config: Names the kinds.
        parameters: Names of what is no activation.

    Raises:
        UnimplementedError: If it is causal attention, for which there are no integers
            that training could simulate.
    """
    if node.op not in PAIRS or node.op not in config.ops:
        return False
    operands = operands_of(node)
    known: Any = parameters
    if any(value.users for value in node.outputs[1:]) or not all(
        v is not None
        and not v.is_constant
        and v.name not in known
        and v.dtype == "float32"
        for v in operands
    ):
        return False
    if node.attrs.get("causal"):
        raise UnimplementedError(
            "[quant_aware] expected attention with a mask or none, got "
            f"{node.outputs[0].name!r} with is_causal=True"
        )
    return True


def product_of_rounded(node: Node, arrays: Sequence[Any]) -> Sequence[Any]:
    """The node's results, of operands that are rounded already."""
    if node.op != "attention":
        return call_node(node, list(arrays))
    q, k, v = (_heads_first(x) for x in arrays[:3])
    scores = proa.matmul(q * node.attrs["scale"], k, transpose_y=True)
    mask = _added(arrays)
    weights = rounded_weights(F.softmax(scores if mask is None else scores + mask))
    if node.attrs["p"]:
        weights = F.dropout(weights, node.attrs["p"])
    return _results(proa.matmul(weights, v))


def product_of_integers(
    node: Node, arrays: Sequence[Any], steps: Sequence[Any]
) -> Sequence[Any]:
    """The node's results by integer operators.

    Args:
        node: The product.
        arrays: What it reads, in float32.
        steps: Real values of one integer step of each operand, (1,).
    """
    whole = [
        call_operator("quantize", x.detach(), step)[0]
        for x, step in zip(arrays, steps, strict=False)
    ]
    if node.op != "attention":
        return [_product(whole[0], whole[1], steps[0] * steps[1])]
    q, v = _heads_first(whole[0]), _heads_first(whole[2])
    keys = proa.transpose(whole[1], [0, 2, 3, 1])  # (b, heads, width, m)
    scores = _product(q, keys, steps[0] * steps[1] * node.attrs["scale"])
    mask = _added(arrays)
    weights = F.softmax(scores if mask is None else scores + mask)
    step = to_tensor(_WEIGHT_STEP, "float32")  # a constant of the graph
    (rounded,) = call_operator(
        "quantize_affine", weights, step, zero_point=-128, low=-128
    )
    return _results(_product(rounded, v, steps[2] * step, x_zero=-128))


def _heads_first(x: Any) -> Any:
    return proa.transpose(x, [0, 2, 1, 3])  # (b, n, heads, d) -> (b, heads, n, d)


def _added(arrays: Sequence[Any]) -> Any:
    """Attention's mask as numbers that are added to scores, if there is one."""
    mask = arrays[3] if len(arrays) > 3 else None
    if mask is None or mask.dtype != "bool":
        return mask
    return (1.0 - mask.astype("float32")) * _NOTHING


def _results(joined: Any) -> Sequence[Any]:
    # Nothing reads the statistics, attention's second result.
    return [_heads_first(joined), proa.zeros([1])]


def _product(x: Any, y: Any, scale: Any, x_zero: int = 0) -> Any:
    (sums,) = call_operator(
        "matmul_int8", x, y, scale=1.0, x_zero=x_zero, dtype="float32"
    )
    return sums * scale


def fold_scales(graph: Graph) -> None:
    """mul(matmul_int8(x, y), s) with the scale 1 and a constant s becomes one product
    with the scale s, which multiplies the same numbers.
    """
    for node in graph.main.nodes:
        if node.op != "mul":
            continue
        product = produced_by(node.inputs[0], "matmul_int8")
        scale = number(node.inputs[1])
        if product is None or scale is None or not _is_plain(product, node):
            continue
        attrs = {**product.attrs, "scale": scale}
        rewrite(node, "matmul_int8", list(product.inputs), attrs)


def _is_plain(product: Node, reader: Node) -> bool:
    value: Value = product.outputs[0]
    attrs = product.attrs
    unscaled = attrs["scale"] == 1.0 and attrs["dtype"] == "float32"
    return unscaled and value.only_user is reader
