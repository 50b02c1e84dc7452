"""Statements of one static program recorded once more in another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proa.errors import UnimplementedError
from proa.ir.attributes import draws, row_of
from proa.ir.flow import has_flow
from proa.ir.program import Node, Value
from proa.ir.record import to_tensor
from proa.runtime import call_operator, graph_value
from proa.static import Program, Variable

#: Computes a node on Variables; returns its outputs.
Call = Callable[[Node, list[Any]], Sequence[Any]]


def call_node(node: Node, arrays: list[Any]) -> Sequence[Any]:
    """The node's operator on other arrays."""
    return call_operator(node.op, *arrays, **node.attrs)


def replay(
    where: str,
    program: Program,
    into: Program,
    inputs: Mapping[str, Any],
    prefix: str = "",
    call: Call = call_node,
) -> dict[str, Variable]:
    """Record the nodes of `program` in `into`, which statements go to.

    Args:
        where: The function that errors name.
        program: Is not changed. Its nodes for gradients and steps are left out.
        into: The program that is being built.
        inputs: What stands for the inputs of `program`: data and states, by name.
        prefix: What names of the Variables begin with.
        call: Computes each node.

    Returns:
        The new Variables by the names of the old ones.

    Raises:
        UnimplementedError: If the program has branches or loops, or recurrent layers.
    """
    main = program.graph.main
    if has_flow(program.graph) or any(n.op == "recurrent" for n in main.nodes):
        raise UnimplementedError(
            f"[{where}] expected a program without branches, loops and recurrent "
            "layers, got one with them"
        )
    known: dict[Value, Any] = {v: inputs[v.name] for v in main.inputs}
    for value in program.graph.constants():
        assert value.data is not None
        known[value] = to_tensor(value.data, value.dtype)
    named = {graph_value(v): v for v in program.vars.values()}
    for variable in named.values():  # nodes that `call` adds must not take these
        into.graph.reserve(f"{prefix}{variable.name}")
    for node in main.nodes:
        if node in program.roles:
            continue
        arrays = [None if v is None else known[v] for v in node.inputs]
        before = len(into.graph.main.nodes)
        results = call(_with_own_draw(program, into, node), arrays)
        for value, result in zip(node.outputs, results, strict=True):
            known[value] = result
            if value in named and not row_of(node.op).mutates:
                _rename(into, result, f"{prefix}{named[value].name}")
                result.stop_gradient = named[value].stop_gradient
        _note_symbolic_shape(program, into, node, before)
    new = {old: x for old, x in known.items() if isinstance(x, Variable)}
    into.origins.update({old: graph_value(x) for old, x in new.items()})
    return {named[old].name: x for old, x in new.items() if old in named}


def _with_own_draw(program: Program, into: Program, node: Node) -> Node:
    """A random node with a draw of the other program."""
    if not draws(node.op, node.attrs):
        return node
    seed, offset = into.draw(program.draws[node.attrs["offset"]])
    attrs = {**node.attrs, "seed": seed, "offset": offset}
    return Node(node.op, list(node.inputs), list(node.outputs), attrs)


def _note_symbolic_shape(
    program: Program, into: Program, node: Node, before: int
) -> None:
    if node not in program.symbolic_shapes:
        return
    for result in into.graph.main.nodes[before:]:
        if result.op == node.op:
            into.symbolic_shapes[result] = program.symbolic_shapes[node]


def _rename(program: Program, variable: Any, name: str) -> None:
    value = graph_value(variable)
    if value.name == name or name in program.vars:
        return
    program.vars.pop(value.name, None)
    program.graph.reserve(name)
    value.name = variable.name = name
    program.register(variable)
