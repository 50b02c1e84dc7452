"""What patterns ask of a graph, and how they replace nodes."""

from __future__ import annotations

from typing import Any

from proa.ir.builder import make_node
from proa.ir.program import Block, Node, Program, Value


def only_user(block: Block, value: Value) -> Node | None:
    """The one node that reads the value, if none else and no output does."""
    users = block.users().get(value, [])
    if len(users) != 1 or value in block.outputs:
        return None
    return users[0]


def made_by(value: Value | None, *ops: str) -> Node | None:
    """The node that makes the value, if its op is one of these."""
    if value is None or value.producer is None or value.producer.op not in ops:
        return None
    return value.producer


def substitute(
    program: Program,
    block: Block,
    last: Node,
    op: str,
    inputs: list[Value | None],
    attrs: dict[str, Any],
) -> Node:
    """Put a node in the place of `last`, whose output it takes over.

    What `last` alone used becomes dead code.
    """
    node = make_node(program, op, inputs, attrs)
    kept = last.outputs[0]
    kept.producer = node
    node.outputs = [kept]
    block.nodes[block.nodes.index(last)] = node
    return node


def same_shape(a: Value, b: Value) -> bool:
    """Whether the shapes agree. An unknown batch (axis 0) is taken to be the same."""
    return a.shape == b.shape and -1 not in a.shape[1:]
