"""Calls of blocks, written out where they are called."""

from __future__ import annotations

from proa.ir.flow import has_flow
from proa.ir.program import Block, Node, Program, Value


def inline_calls(program: Program) -> bool:
    """Put the nodes of called blocks in the place of the calls.

    A block may be called several times: every call gets nodes of its own. Does nothing
    to a program with branches or loops, whose blocks either compute or direct.

    Returns:
        Whether the program has changed.
    """
    nodes = [n for block in program.blocks for n in block.nodes]
    if not has_flow(program) or any(n.op in ("branch", "loop") for n in nodes):
        return False
    main = program.main
    results: list[Node] = []
    values: dict[Value, Value] = {}
    outputs = _write_out(program, main, values, results)
    main.nodes, main.outputs = results, outputs
    program.blocks = [main]
    return True


def _write_out(
    program: Program, block: Block, values: dict[Value, Value], result: list[Node]
) -> list[Value]:
    """Add a block's nodes to those made; what its outputs are then.

    Args:
        program: The program.
        block: The block.
        values: What its inputs are, filled with what its nodes compute.
        made: Nodes.
    """
    for node in block.nodes:
        read = [None if v is None else values.get(v, v) for v in node.inputs]
        if node.op == "call":
            inner = program.blocks[node.attrs["block"]]
            given = {v: r for v, r in zip(inner.inputs, read, strict=True) if r}
            results = _write_out(program, inner, given, result)
            values.update(zip(node.outputs, results, strict=True))
            continue
        copied = Node(node.op, read, [], dict(node.attrs))
        copied.location, copied.low = node.location, node.low
        for v in node.outputs:
            name = program.new_name(v.name)
            copied.outputs.append(Value(name, v.dtype, v.shape, "node", None, copied))
        values.update(zip(node.outputs, copied.outputs, strict=True))
        result.append(copied)
    return [values.get(v, v) for v in block.outputs]
