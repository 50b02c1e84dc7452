"""What patterns look for in a graph, and how they rewrite a node."""

from __future__ import annotations

from typing import Any

import numpy as np

from proa.ir.attributes import complete
from proa.ir.program import Node, Value


def produced_by(value: Value | None, *ops: str) -> Node | None:
    """The node that makes the value, if its op is one of these."""
    if value is None or value.producer is None or value.producer.op not in ops:
        return None
    return value.producer


def rewrite(
    node: Node, op: str, inputs: list[Value | None], attrs: dict[str, Any]
) -> None:
    """Let a node of one output compute that output by another op.

    What it alone read before becomes dead code.
    """
    assert len(node.outputs) == 1
    node.op, node.inputs, node.attrs = op, inputs, complete(op, attrs)


def plain_linear(node: Node) -> Node | None:
    """The node, if it is a linear or linear_act of float32 without a residual."""
    if node.op not in ("linear", "linear_act"):
        return None
    x = node.inputs[0]
    if x is None or x.dtype != "float32":
        return None
    return None if len(node.inputs) > 3 and node.inputs[3] is not None else node


def same_shape(a: Value, b: Value) -> bool:
    """Whether the shapes agree. An unknown batch (axis 0) is taken to be the same."""
    return a.shape == b.shape and -1 not in a.shape[1:]


def number(value: Value | None) -> float | None:
    """A constant of one element, as float32 holds it."""
    if value is None or value.data is None or value.data.size != 1:
        return None
    return float(np.float32(value.data.reshape(())))
