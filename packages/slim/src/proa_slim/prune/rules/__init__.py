"""For each operator, which indices of its arrays go together.

An operator without a rule keeps all that it reads whole, and is reported.
"""

from __future__ import annotations

from proa.ir.program import Node
from proa_slim.prune.flow import Rule, is_elementwise
from proa_slim.prune.rules import layers, movement, products, reductions

_RULES: dict[str, Rule] = {
    **products.RULES,
    **layers.RULES,
    **movement.RULES,
    **reductions.RULES,
}


def rule_of(node: Node) -> Rule | None:
    """The rule of a node's operator, if there is one."""
    found = _RULES.get(node.op)
    if found is None and is_elementwise(node):
        return reductions.elementwise
    return found
