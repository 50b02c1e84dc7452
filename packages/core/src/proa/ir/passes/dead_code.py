from __future__ import annotations

from proa.ir.flow import has_effect
from proa.ir.program import Program


def remove_dead_code(program: Program) -> bool:
    """Remove nodes that nobody needs.

    1. A node none of whose outputs is read by a kept node or is an output goes, unless
       it, or one in the blocks that it names, is there for its effect.

    Ensures that every node has a use.
    """
    changed = False
    for block in program.blocks:
        needed = set(block.outputs)
        needed_nodes = []
        for node in reversed(block.nodes):
            used = not needed.isdisjoint(node.outputs)
            if not used and not has_effect(program, node):
                continue
            needed_nodes.append(node)
            needed.update(v for v in node.inputs if v is not None)
        changed |= len(needed_nodes) != len(block.nodes)
        block.nodes = needed_nodes[::-1]
    return changed
