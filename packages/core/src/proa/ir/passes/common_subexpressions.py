from __future__ import annotations

from typing import Any

from proa.ir.attributes import attributes_key, row_of
from proa.ir.program import Program, Value


def eliminate_common_subexpressions(program: Program) -> bool:
    """Compute what is computed twice once.

    1. The first of several nodes of one op with the same inputs and attributes is kept
       and the others' readers read it.
    2. Likewise constants of one element, but for parameters: scales of one value, by
       which several products round it.

    Requires ops without effects (a random op carries its key in its attributes); calls
    of Python functions are left alone.
    """
    changed = _share_constants(program)
    for block in program.blocks:
        seen: dict[Any, Any] = {}
        nodes = []
        for node in block.nodes:
            key = (node.op, tuple(node.inputs), attributes_key(node.attrs))
            first = seen.setdefault(key, node)
            if first is node:
                nodes.append(node)
                continue
            calls = row_of(node.op).calls_python
            is_output = calls or any(v.is_output for v in node.outputs)
            if is_output:
                nodes.append(node)  # an output keeps a name of its own
                continue
            for mine, other in zip(node.outputs, first.outputs, strict=True):
                block.replace(mine, other)
            changed = True
        block.nodes = nodes
    return changed


def _share_constants(program: Program) -> bool:
    """Let nodes read one of several equal constants."""
    first: dict[Any, Value] = {}
    shared: dict[Value, Value] = {}
    for value in program.constants():
        data = value.data
        if value.kind != "const" or data is None or data.size != 1:
            continue
        known = first.setdefault((value.dtype, value.shape, data.tobytes()), value)
        if known is not value and value.users:
            shared[value] = known
    for value, known in shared.items():
        for node in value.users:
            node.inputs = [known if x is value else x for x in node.inputs]
    return bool(shared)
