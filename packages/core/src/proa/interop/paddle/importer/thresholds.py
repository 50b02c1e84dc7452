"""Rounding by the ranges of outputs that quantized programs state.

PaddleSlim writes the largest absolute value of an operator's output as its attribute
``out_threshold``. The program does not round by it: that is left to an engine, which
may round what a product with a quantized weight reads.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proa.interop.graph.node import Graph, Node
from proa.interop.paddle.importer.table import PADDLE, SlotRow, place

#: The slots of a product's image and weight.
_PRODUCTS = {
    "conv2d": ("Input", "Filter"),
    "depthwise_conv2d": ("Input", "Filter"),
    "fc": ("Input", "W"),
    "matmul": ("X", "Y"),
    "matmul_v2": ("X", "Y"),
    "mul": ("X", "Y"),
}
#: Operators whose output has the elements of their first input.
_VIEWS = (
    "flatten", "flatten2", "flatten_contiguous_range", "reshape", "reshape2",
    "squeeze2", "transpose", "transpose2", "unsqueeze2",
)  # fmt: skip
_THRESHOLD = "out_threshold"


def round_by_thresholds(graph: Graph) -> int:
    """Let products with quantized weights round what they read by the range that the
    operator before them states, if nothing rounds it so far.

    Returns:
        How many arrays are rounded.
    """
    return sum(_Rounding(each).run() for each in list(graph.walk()))


class _Rounding:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers = {name: n for n in graph.nodes for name in n.outputs if name}
        self.rounded: dict[str, str] = {}

    def run(self) -> int:
        nodes: list[Node] = []
        for node in self.graph.nodes:
            if node.op in _PRODUCTS:
                nodes += self.before(node)
            nodes.append(node)
        self.graph.nodes = nodes
        return len(self.rounded)

    def before(self, product: Node) -> Iterator[Node]:
        """The nodes that round the product's image, which it then reads."""
        image, weight = (_position(product, slot) for slot in _PRODUCTS[product.op])
        name = product.inputs[image]
        if not _rounds(self.makers.get(product.inputs[weight])):
            return
        limit = self.threshold(name)
        if limit is None:
            return
        if name not in self.rounded:
            yield from self.rounding(name, limit)
        product.inputs[image] = self.rounded[name]

    def threshold(self, name: str) -> float | None:
        """The range that is stated of a value, or of what it is a view of."""
        maker = self.makers.get(name)
        while maker is not None and not _rounds(maker):
            limit = float(maker.attributes.get(_THRESHOLD, 0.0))
            if limit > 0 and np.isfinite(limit):
                return limit
            is_view = maker.op in _VIEWS
            maker = self.makers.get(maker.inputs[0]) if is_view else None
        return None

    def rounding(self, name: str, limit: float) -> Iterator[Node]:
        scale, whole, real = (f"{name}@{part}" for part in ("scale", "int8", "rounded"))
        self.graph.initializers[scale] = np.array([limit], np.float32)
        self.rounded[name] = real
        yield _node("quantize_linear", name, scale, whole)
        yield _node("dequantize_linear", whole, scale, real)


def _rounds(maker: Node | None) -> bool:
    """Whether an operator makes numbers of a grid."""
    return maker is not None and "quantize" in maker.op


def _position(node: Node, slot: str) -> int:
    """Of a slot among a product's inputs, of which each is one variable."""
    row = PADDLE.find(node.op)
    assert isinstance(row, SlotRow)
    return [s.name for s in row.inputs].index(slot)


def _node(op: str, x: str, scale: str, y: str) -> Node:
    row = PADDLE.find(op)
    assert isinstance(row, SlotRow)
    node = Node(op, "", y, 1, [], [], {"quant_axis": -1, "bit_length": 8})
    place(node, row, {"X": [x], "Scale": [scale]}, {"Y": [y]})
    return node
