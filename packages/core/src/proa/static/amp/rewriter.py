"""Casts between the nodes of a graph, by the classes of its operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from proa import _core
from proa.ir import Program
from proa.ir.attributes import row_of
from proa.ir.builder import make_node
from proa.ir.flow import bodies_of, is_flow
from proa.ir.program import Block, Node, Value
from proa.ir.record import to_array
from proa.ir.shapes import infer
from proa.static.amp.lists import AutoMixedPrecisionLists

LOW = ("float16", "bfloat16")


def converted(value: Value, dtype: str) -> Any:
    """The elements of a float32 constant in that dtype, as the graph holds them."""
    tensor = _core.from_numpy(np.asarray(value.data), True)
    return to_array(_core.ops.cast(tensor, dtype=dtype))


class Rewriter:
    """Puts casts between nodes of one program.

    Args:
        program: What is rewritten.
        lists: The classes of operators.
        low: The 16-bit dtype.
        level: "O1" or "O2".
        guarded: Whether nodes without the mark of `fp16_guard` stay float32.
    """

    def __init__(
        self,
        program: Program,
        lists: AutoMixedPrecisionLists,
        low: str,
        level: str,
        guarded: bool,
    ) -> None:
        self.program, self.lists, self.low = program, lists, low
        self.classes = lists.classes(level)
        self.guarded = guarded
        #: The bodies that are rewritten.
        self.bodies: set[int] = set()
        self.nodes: list[Node] = []
        self.casts: dict[tuple[Value, str], Value] = {}

    def run(self) -> None:
        self._rewrite(self.program.main)

    def _rewrite(self, block: Block) -> None:
        """Rewrite a block and the bodies in it, which give float32 where they did."""
        outer, self.nodes, self.casts = (self.nodes, self.casts), [], {}
        wide = {v for v in block.outputs if v.dtype == "float32"}
        for node in block.nodes:
            if is_flow(node):
                self._convert_flow(node)
            else:
                self._convert(node, self._kind(node))
            self.nodes.append(node)
        block.outputs = [
            self._cast(v, "float32") if v in wide and v.dtype in LOW else v
            for v in block.outputs
        ]
        block.nodes = self.nodes
        self.nodes, self.casts = outer

    def _convert_flow(self, node: Node) -> None:
        """A branch or loop takes and gives float32; its bodies cast within."""
        for index in bodies_of(node).values():
            if index not in self.bodies:
                self.bodies.add(index)
                self._rewrite(self.program.blocks[index])
        self._widen_inputs(node)

    def _widen_inputs(self, node: Node) -> None:
        """Give a branch or loop float32 where its bodies take it."""
        given = self.program.blocks[next(iter(bodies_of(node).values()))].inputs
        first = len(node.inputs) - len(given)  # a branch's condition
        wanted = [None] * first + [v.dtype for v in given]
        node.inputs = [
            self._cast(v, "float32")
            if v is not None and v.dtype in LOW and dtype == "float32"
            else v
            for v, dtype in zip(node.inputs, wanted, strict=True)
        ]

    def _kind(self, node: Node) -> str:
        row = row_of(node.op)
        names = {v.name for v in (*node.inputs, *node.outputs) if v is not None}
        if (self.guarded and not node.low) or names & self.lists.black_varnames:
            return "black"
        kind = self.classes.get(node.op, "gray")
        if "float32" in row.dtypes and self.low not in row.dtypes:
            return "black"
        dtypes = {v.dtype for v in node.inputs if v is not None and not _weak(v)}
        narrow = self.low in dtypes
        if kind == "gray" and narrow and "float32" in dtypes:
            return "black"  # they meet in the wider
        if kind == "gray" and narrow:
            return "white"  # for numbers combined with 16-bit tensors
        return kind

    def _convert(self, node: Node, kind: str) -> None:
        if kind in ("white", "black"):
            old, new = (
                ("float32", self.low) if kind == "white" else (self.low, "float32")
            )
            node.inputs = [
                self._cast(v, new) if v is not None and v.dtype == old else v
                for v in node.inputs
            ]
        specs = infer(node.op, node.inputs, node.attrs)
        for value, (dtype, _) in zip(node.outputs, specs, strict=True):
            value.dtype = dtype

    def _cast(self, value: Value, dtype: str) -> Value:
        found = self.casts.get((value, dtype))
        if found is None:
            if value.kind == "const" and value.data is not None:
                found = self.program.constant(converted(value, dtype), dtype)
            else:
                node = make_node(self.program, "cast", [value], {"dtype": dtype})
                self.nodes.append(node)
                (found,) = node.outputs
            self.casts[value, dtype] = found
        return found


def _weak(value: Value) -> bool:
    """A number combined with a tensor, which takes the tensor's dtype."""
    return value.kind == "const" and int(np.prod(value.shape)) == 1


def narrows(node: Node) -> bool:
    """Whether a node is a cast to 16 bits."""
    return node.op == "cast" and node.outputs[0].dtype in LOW
