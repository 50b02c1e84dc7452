"""Integer products in static programs, of weights and ranges that the scope has.

The arithmetic is that of the converted program, so that a test program evaluates to its
bits: with values of the scope as constants, all but the products folds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from proa.ir.passes.match import produced_by
from proa.ir.program import Node, Value
from proa.ir.program import Program as Graph
from proa.runtime import call_operator
from proa_slim.quant.lower import PRODUCTS

_INTEGER = tuple(dict.fromkeys(op for op, _ in PRODUCTS.values()))


@dataclass(frozen=True)
class IntegerProduct:
    """The arguments of an integer product with a float32 result, as Variables."""

    op: str
    x: Any
    weight: Any
    multiplier: Any
    bias: Any
    attrs: Mapping[str, Any]

    def call(self) -> Sequence[Any]:
        """Record it; returns its result."""
        inputs = self.x, self.weight, self.multiplier, self.bias
        return call_operator(self.op, *inputs, dtype="float32", **self.attrs)

    def followed_by(self, node: Node, parameters: Sequence[Any]) -> IntegerProduct:
        """With the addition of a bias, or with a batch norm after it."""
        if node.op == "add":
            return replace(self, bias=parameters[0].detach())
        return self._normed(parameters, node.attrs["epsilon"])

    def _normed(self, norm: Sequence[Any], epsilon: float) -> IntegerProduct:
        """With a batch norm after it in its multiplier and bias.

        Args:
            norm: Mean, variance, scale and shift, (channels,) each.
            epsilon: Epsilon of the norm.
        """
        mean, variance, scale, shift = (v.detach() for v in norm)
        factor = scale / (variance + epsilon).sqrt()
        moved = -mean if self.bias is None else self.bias - mean
        multiplier = self.multiplier * factor
        return replace(self, multiplier=multiplier, bias=moved * factor + shift)


def integer_product(
    node: Node, arrays: Sequence[Any], steps: tuple[Any, Any], axis: int
) -> IntegerProduct:
    """The integer form of a product.

    Args:
        node: A conv2d or linear.
        arrays: Its input, weight and perhaps bias.
        steps: Real values of one integer step of the input, (1,), and of the weight,
            (1,) or (channels,).
        axis: Axis of the weight's channels; -1 if its step is of (1,).
    """
    x, weight = (v.detach() for v in arrays[:2])
    bias = arrays[2].detach() if len(arrays) > 2 and arrays[2] is not None else None
    op, channels = PRODUCTS[node.op]
    (integers,) = call_operator("quantize", x, steps[0])
    (whole,) = call_operator("quantize", weight, steps[1], axis=axis)
    multiplier = (steps[0] * steps[1]).expand([weight.shape[channels]])
    return IntegerProduct(op, integers, whole, multiplier, bias, dict(node.attrs))


def product_before(node: Node) -> Value | None:
    """The result of a product that the node, a batch norm or the addition of a bias,
    alone reads, if it is one.
    """
    if node.op == "add":
        return _biased(node)
    if node.op != "batch_norm_infer":
        return None
    below = produced_by(node.inputs[0], "add")
    found = node.inputs[0] if below is None else _biased(below)
    product = produced_by(found, "conv2d", "linear")
    if (
        product is None
        or node.inputs[0] is None
        or node.inputs[0].only_user is not node
    ):
        return None
    # The channels of a norm are the second axis, those of a linear product the last.
    per_channel = product.op == "conv2d" or len(node.outputs[0].shape) == 2
    return product.outputs[0] if per_channel else None


def _biased(add: Node) -> Value | None:
    product, bias = produced_by(add.inputs[0], "linear"), add.inputs[1]
    if product is None or product.outputs[0].only_user is not add or bias is None:
        return None
    plain = len(product.inputs) < 3 or product.inputs[2] is None
    columns = product.outputs[0].shape[-1:]
    is_parameter = bias.producer is None and bias.shape == columns
    return product.outputs[0] if plain and is_parameter else None


def name_weights(graph: Graph) -> None:
    """Name integer weights after what they are rounded from, as calibration does."""
    for node in graph.main.nodes:
        source = (
            produced_by(node.inputs[1], "quantize") if node.op in _INTEGER else None
        )
        weight = None if source is None else source.inputs[0]
        if source is not None and weight is not None and weight.is_constant:
            name = f"{weight.name}.int8"
            graph.reserve(name)
            source.outputs[0].name = name
