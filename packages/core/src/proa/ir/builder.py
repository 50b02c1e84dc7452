"""Builds programs by hand: for tests, converters and passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa.ir.attributes import complete, row_of
from proa.ir.flow import outputs_of
from proa.ir.program import Array, Block, Node, Program, Value
from proa.ir.shapes import infer


class Builder:
    """Appends to a block of a program.

    ``b.relu(x)`` (any op's name) appends a node and returns its output, or a tuple of
    outputs.
    """

    def __init__(
        self, program: Program | None = None, block: Block | None = None
    ) -> None:
        self.program = program or Program()
        self.block = block or self.program.main

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> Value:
        """Another input of the block."""
        value = Value(name, dtype, tuple(shape), "input")
        self.block.inputs.append(value)
        return value

    def parameter(self, name: str, data: Array, dtype: str | None = None) -> Value:
        """A named weight."""
        array = np.ascontiguousarray(data)
        array = array.reshape(np.shape(data))
        return Value(name, dtype or str(array.dtype), array.shape, "param", array)

    def constant(self, data: Any, dtype: str | None = None) -> Value:
        """An array or number that is no weight."""
        return self.program.constant(np.asarray(data), dtype)

    def node(
        self, op: str, inputs: Sequence[Value | None], attrs: dict[str, Any]
    ) -> Node:
        """Append any op."""
        result = make_node(self.program, op, inputs, attrs)
        self.block.nodes.append(result)
        return result

    def output(self, *values: Value) -> None:
        """Further outputs of the block."""
        self.block.outputs.extend(values)

    def __getattr__(self, op: str) -> Any:
        if op.startswith("_"):
            raise AttributeError(op)
        row_of(op)

        def append(*inputs: Value | None, **attrs: Any) -> Any:
            outputs = self.node(op, inputs, attrs).outputs
            return outputs[0] if len(outputs) == 1 else tuple(outputs)

        return append


def make_node(
    program: Program, op: str, inputs: Sequence[Value | None], attrs: dict[str, Any]
) -> Node:
    """A node with inferred outputs, not yet in any block.

    Blocks that the node names must be whole.
    """
    whole = complete(op, attrs)
    node = Node(op, list(inputs), [], whole)
    is_flow = row_of(op).kind == "flow"
    specs = outputs_of(program, node) if is_flow else infer(op, inputs, whole)
    for i, (dtype, shape) in enumerate(specs):
        stem = op if i == 0 or is_flow else f"{op}_{row_of(op).outputs[i]}"
        node.outputs.append(
            Value(program.new_name(stem), dtype, shape, "node", producer=node)
        )
    return node
