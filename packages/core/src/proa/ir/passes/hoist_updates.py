from __future__ import annotations

from proa.ir.attributes import row_of
from proa.ir.program import Block, Node, Program, Value


def storage_owners(block: Block) -> dict[Value, Value]:
    """The value whose memory each view shares."""
    owner: dict[Value, Value] = {}
    for node in block.nodes:
        source = node.inputs[0] if node.inputs else None
        if source is None:
            continue
        row = row_of(node.op)
        if row.kind == "view":
            for v in node.outputs:
                owner[v] = owner.get(source, source)
        elif row.mutates:
            names = [a.name for a in row.arrays]
            for v, target in zip(node.outputs, row.inplace, strict=True):
                changed = node.inputs[names.index(target)]
                assert changed is not None
                owner[v] = owner.get(changed, changed)
    return owner


def _order(block: Block) -> list[Node]:
    owner = storage_owners(block)
    # An update placed after node k is at k * step + its own number: after k and, of
    # the updates there, in their own order.
    step = len(block.nodes) + 1
    place: dict[Node, int] = {}
    used: dict[Value, int] = {}  # where memory is read or written last
    for i, node in enumerate(block.nodes):
        held = [owner.get(v, v) for v in node.inputs if v is not None]
        at = i * step
        if row_of(node.op).mutates and node.part == 0:
            results = [place[v.producer] for v in node.inputs if v and v.producer]
            at = max([*results, *(used[v] for v in held if v in used)], default=-step)
            at += i + 1 - at % step
        place[node] = at
        for v in held:
            if used.get(v, at) <= at:
                used[v] = at
    return sorted(block.nodes, key=place.__getitem__)


def hoist_updates(program: Program) -> bool:
    """Let optimizers step a parameter as soon as its gradient is there.

    1. A node of the first part that changes an array moves up, next to what makes its
       inputs and after everything before it that reads or changes the same memory.

    Ensures that a gradient's memory is free for the next one, and that the gradient is
    still in the cache when it is used.
    """
    changed = False
    for block in program.blocks:
        nodes = _order(block)
        changed |= any(a is not b for a, b in zip(nodes, block.nodes, strict=True))
        block.nodes = nodes
    return changed
