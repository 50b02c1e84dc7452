"""What the passes that find attention share: its steps, its heads and its operator."""

from __future__ import annotations

from typing import Any

from proa.ir.builder import make_node
from proa.ir.passes.match import produced_by, rewrite
from proa.ir.program import Block, Node, Program, Value

_HEADS_FIRST = {"perm": [0, 2, 1, 3]}  # its own inverse
_KEYS_LAST = {"perm": [0, 3, 1, 2]}  # of (batch, heads, width, keys)


def step_before(value: Value | None, reader: Node, *ops: str) -> Node | None:
    """The node that makes the value, if `reader` alone reads it."""
    node = produced_by(value, *ops)
    return node if node is not None and node.outputs[0].only_user is reader else None


def have_same_heads(q: Value, keys: Value, v: Value) -> bool:
    """Whether all have four axes, with batch and heads the same, as far as known."""
    if {len(value.shape) for value in (q, keys, v)} != {4}:
        return False
    for axis in (0, 1):
        sizes = {value.shape[axis] for value in (q, keys, v)}
        if len(sizes) > 1 or (axis == 1 and -1 in sizes):
            return False
    return True


def replace_by_attention(
    program: Program,
    block: Block,
    node: Node,
    op: str,
    operands: tuple[Value, Value, Value],
    mask: Value | None,
    attrs: dict[str, Any],
) -> None:
    """Let `node`, the last product, be the transposed result of the operator `op`.

    Args:
        program: The graph.
        block: Where the node is.
        node: The product of the weights and v.
        op: ``attention``, or a row whose inputs are shaped as its.
        operands: q (batch, heads, queries, width), the transposed k (batch, heads,
            width, keys) and v (batch, heads, keys, value width).
        mask: The operator's mask.
        attrs: The operator's attributes.
    """
    orders = (_HEADS_FIRST, _KEYS_LAST, _HEADS_FIRST)
    parts = [
        make_node(program, "transpose", [value], order)
        for value, order in zip(operands, orders, strict=True)
    ]
    inputs: list[Value | None] = [part.outputs[0] for part in parts]
    result = make_node(program, op, [*inputs, mask], attrs)
    at = block.nodes.index(node)
    block.nodes[at:at] = [*parts, result]
    rewrite(node, "transpose", [result.outputs[0]], _HEADS_FIRST)
