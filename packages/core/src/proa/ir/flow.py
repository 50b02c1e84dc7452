"""Nodes that name blocks: which, what must hold of them, and blocks made to direct.

FORMAT.md has the rules. While a program is recorded a block may hold nodes of both
sorts and number blocks as they come; `outline` makes of it what the rules want.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from proa.errors import InvalidArgumentError
from proa.ir.attributes import row_of
from proa.ir.program import Block, Node, Program, Value

#: How deep blocks may nest.
MAX_DEPTH = 64


def is_flow(node: Node) -> bool:
    """Whether the node names blocks."""
    return row_of(node.op).kind == "flow"


def directs(block: Block) -> bool:
    """Whether the block's nodes name blocks (a block's are all of one sort)."""
    return bool(block.nodes) and is_flow(block.nodes[0])


def has_flow(program: Program) -> bool:
    """Whether the program has branches or loops."""
    return any(is_flow(n) for b in program.blocks for n in b.nodes)


def has_effect(program: Program, node: Node) -> bool:
    """Whether the node, or one in the blocks that it names, is there for its effect."""
    if not is_flow(node):
        return row_of(node.op).effect
    blocks = [program.blocks[i] for i in bodies_of(node).values()]
    return any(has_effect(program, n) for b in blocks for n in b.nodes)


def bodies_of(node: Node) -> dict[str, int]:
    """The attributes that name blocks."""
    return {k: v for k, v in node.attrs.items() if k.endswith("block")}


def outputs_of(program: Program, node: Node) -> list[tuple[str, tuple[int, ...]]]:
    """(dtype, shape) of what a node that names whole blocks gives."""
    bodies = [program.blocks[i] for i in bodies_of(node).values()]
    if node.op == "loop":
        return [(v.dtype, v.shape) for v in bodies[1].inputs[: node.attrs["carried"]]]
    given = [b.outputs for b in bodies]
    return [
        (first.dtype, functools.reduce(merged, (v.shape for v in (first, *others))))
        for first, *others in zip(*given, strict=True)
    ]


def merged(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an array that may have either, which have as many axes."""
    return tuple(m if m == n else -1 for m, n in zip(a, b, strict=True))


def fits(known: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two shapes agree where both are known."""
    return len(known) == len(other) and all(
        a == b or -1 in (a, b) for a, b in zip(known, other, strict=True)
    )


# -- what must hold -------------------------------------------------------------------
def _agree(node: Node, what: str, given: list[Value], wanted: list[Value]) -> None:
    ok = len(given) == len(wanted) and all(
        a.dtype == b.dtype and fits(a.shape, b.shape)
        for a, b in zip(given, wanted, strict=True)
    )
    if not ok:
        have, need = ", ".join(map(str, given)), ", ".join(map(str, wanted))
        raise InvalidArgumentError(
            f"[ir.verify] {what} of {node.op} must be ({need}), got ({have})"
        )


def _check_bool(node: Node, value: Value | None) -> None:
    if (
        value is None
        or value.dtype != "bool"
        or not all(d in (1, -1) for d in value.shape)
    ):
        raise InvalidArgumentError(
            f"[ir.verify] the condition of {node.op} must be a bool of one element, "
            f"got {value}"
        )


def _check_node(program: Program, at: int, node: Node) -> None:
    """Raise InvalidArgumentError unless a node of block `at` and the blocks that it
    names fit.
    """
    for name, block in bodies_of(node).items():
        if not at < block < len(program.blocks):
            raise InvalidArgumentError(
                f"[ir.verify] {name} of {node.op} in block {at} must be a later "
                f"block, got {block} of {len(program.blocks)}"
            )
    given = [v for v in node.inputs if v is not None]
    if len(given) != len(node.inputs):
        raise InvalidArgumentError(f"[ir.verify] inputs of {node.op} must not be None")
    bodies = {k: program.blocks[i] for k, i in bodies_of(node).items()}
    if node.op == "branch":
        _check_bool(node, given[0] if given else None)
        given = given[1:]
    for body in bodies.values():
        _agree(node, "inputs", given, body.inputs)
    if node.op == "loop":
        cond, body, count = (
            bodies["cond_block"],
            bodies["body_block"],
            node.attrs["carried"],
        )
        if not 1 <= count <= len(given):
            raise InvalidArgumentError(
                f"[ir.verify] a loop must carry 1 to {len(given)} arrays, got {count}"
            )
        _check_bool(node, cond.outputs[0] if len(cond.outputs) == 1 else None)
        _agree(node, "what is carried", body.outputs, body.inputs[:count])
        _agree(node, "outputs", node.outputs, body.inputs[:count])
    else:
        for body in bodies.values():
            _agree(node, "outputs", node.outputs, body.outputs)


def check_flow(program: Program) -> None:
    """Raise InvalidArgumentError unless blocks and what names them fit each other, each
    block's nodes are of one sort, and no block is nested too deeply.
    """
    if len(program.blocks) == 1 and not has_flow(program):
        return
    for at, block in enumerate(program.blocks):
        for node in filter(is_flow, block.nodes):
            _check_node(program, at, node)
    depth = [1] * len(program.blocks)
    for at in reversed(range(len(program.blocks))):
        sorts = {is_flow(n) for n in program.blocks[at].nodes}
        if len(sorts) > 1:
            raise InvalidArgumentError(
                "[ir.verify] a block must compute or direct, got one with nodes of "
                "both kinds"
            )
        inner = [
            depth[i] for n in program.blocks[at].nodes for i in bodies_of(n).values()
        ]
        depth[at] = 1 + max(inner, default=0)
    if max(depth, default=0) > MAX_DEPTH + 1:
        raise InvalidArgumentError(
            f"[ir.verify] expected blocks nested at most {MAX_DEPTH} deep, "
            f"got {max(depth) - 1}"
        )


# -- from recordings to what runs -----------------------------------------------------
def _runs(block: Block) -> Iterator[list[Node]]:
    """The block's nodes, adjacent ones of one sort in one list; flow nodes alone."""
    run: list[Node] = []
    for node in block.nodes:
        if is_flow(node):
            if run:
                yield run
            yield [node]
            run = []
        else:
            run.append(node)
    if run:
        yield run


def _called(program: Program, nodes: list[Node], read_later: set[Value]) -> Node:
    """A node that calls a block, made of the nodes."""
    results = [v for n in nodes for v in n.outputs]
    own, inputs = set(results), dict[Value, Value]()
    for node in nodes:
        for v in node.inputs:
            if v is not None and not v.is_constant and v not in own and v not in inputs:
                inputs[v] = Value(program.new_name("given"), v.dtype, v.shape, "input")
        node.inputs = [v if v is None else inputs.get(v, v) for v in node.inputs]
    outputs = [v for v in results if v in read_later]
    program.blocks.append(Block(list(inputs.values()), nodes, outputs))
    call = Node("call", list(inputs), [], {"block": len(program.blocks) - 1})
    call.location = nodes[0].location
    return call


def _outline_block(program: Program, block: Block) -> None:
    nodes: list[Node] = []
    outer_values: dict[Value, Value] = {}
    runs = list(_runs(block))
    later = set(block.outputs)
    read_later: list[set[Value]] = []
    for run in reversed(runs):
        read_later.append(set(later))
        later |= {v for n in run for v in n.inputs if v is not None}
    for run, read in zip(runs, reversed(read_later), strict=True):
        for node in run:
            node.inputs = [
                v if v is None else outer_values.get(v, v) for v in node.inputs
            ]
        if is_flow(run[0]):
            nodes.append(run[0])
            continue
        call = _called(program, run, read)
        for inner in program.blocks[-1].outputs:
            outer = Value(inner.name, inner.dtype, inner.shape, "node", producer=call)
            call.outputs.append(outer)
            outer_values[inner] = outer
        if call.outputs:
            nodes.append(call)
    block.nodes = nodes
    block.outputs = [outer_values.get(v, v) for v in block.outputs]


def _sink_constants(program: Program, block: Block) -> None:
    """Let bodies hold the constants that a node gives them in every round."""
    for node in filter(is_flow, block.nodes):
        skip = node.op == "branch"
        first = node.attrs.get("carried", 0)
        for i in reversed(range(first, len(node.inputs) - skip)):
            value = node.inputs[i + skip]
            if value is None or not value.is_constant:
                continue
            for index in bodies_of(node).values():
                body = program.blocks[index]
                body.replace(body.inputs.pop(i), value)
            del node.inputs[i + skip]


def _renumber(program: Program) -> None:
    """Keep the blocks that are named, each after those that name it."""
    order: list[Block] = []

    def visit(block: Block) -> None:
        order.append(block)
        for node in block.nodes:
            for index in bodies_of(node).values():
                visit(program.blocks[index])

    visit(program.main)
    at = {id(block): i for i, block in enumerate(order)}
    for block in order:
        for node in block.nodes:
            for name, index in bodies_of(node).items():
                node.attrs[name] = at[id(program.blocks[index])]
    program.blocks = order


def outline(program: Program) -> None:
    """Part blocks with nodes of both sorts: what computes becomes blocks to be called.

    Requires that every block is named by one node at most. Does nothing to a program
    without control flow.
    """
    if not has_flow(program):
        return
    _renumber(program)
    for block in list(program.blocks):  # bodies after what names them
        if any(map(is_flow, block.nodes)):
            _sink_constants(program, block)
    for block in list(program.blocks):
        if any(map(is_flow, block.nodes)):
            _outline_block(program, block)
    _renumber(program)
