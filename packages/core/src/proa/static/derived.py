"""First values that follow from others, as those of buffers and normalised weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proa._core import Tensor
from proa.base.random import next_key
from proa.errors import InvalidArgumentError
from proa.ir.attributes import row_of
from proa.ir.flow import is_flow
from proa.ir.program import Node, Value
from proa.ir.program import Program as Graph
from proa.ir.record import to_tensor
from proa.jit.interpreter import interpret
from proa.static.program import Program, StartupRun
from proa.static.recorder import DRAWN


class Derived:
    """The statements that a Variable followed from, to be run at startup instead.

    What nothing else reads is taken out of the program.

    Args:
        program: The program that was built.
        tensor: The Variable.

    Raises:
        InvalidArgumentError: If it depends on what runs are fed, or on a branch.
    """

    def __init__(self, program: Program, tensor: Tensor) -> None:
        value: Value = tensor._handle[1]
        nodes = _statements(value)
        states = set(program.states.values())
        inputs = dict.fromkeys(
            v for n in nodes for v in n.inputs if v is not None and v.kind == "input"
        )
        if not states.issuperset(inputs) or any(is_flow(n) for n in nodes):
            raise InvalidArgumentError(
                "[static] the first value of a layer's state must not depend on what "
                f"runs are fed, or on branches, got {value}"
            )
        self._key = id(program)
        self._names = [v.name for v in inputs]
        self._graph = _copied(nodes, list(inputs), value)
        self._constants = {
            v: to_tensor(v.data, v.dtype)
            for v in self._graph.constants()
            if v.data is not None
        }
        _take_out(program, nodes)

    def make(self, run: StartupRun) -> Tensor:
        """The value, of what a startup program's run has made so far."""
        for node in self._graph.main.nodes:
            if row_of(node.op).random and node.attrs.get("seed") == DRAWN:
                draw = (self._key, node.attrs["offset"])
                if draw not in run.keys:
                    run.keys[draw] = next_key(_count(node))
                node.attrs.update(zip(("seed", "offset"), run.keys[draw], strict=True))
        inputs = [run.value(name) for name in self._names]
        tensor: Tensor = interpret(self._graph, self._constants, inputs, keyed=True)[0]
        return tensor


def _count(node: Node) -> int:
    size = 1
    for n in node.outputs[0].shape:
        size *= n
    return size


def _statements(value: Value) -> list[Node]:
    """The nodes that it follows from, in an order in which they can run."""
    found: dict[Node, None] = {}

    def visit(node: Node | None) -> None:
        if node is None or node in found:
            return
        for read in node.inputs:
            if read is not None:
                visit(read.producer)
        found[node] = None

    visit(value.producer)
    return list(found)


def _copied(nodes: Sequence[Node], inputs: Sequence[Value], value: Value) -> Graph:
    graph = Graph()
    twins: dict[Value, Value] = {}

    def clone(of: Value) -> Value:
        if of not in twins:
            twins[of] = Value(of.name, of.dtype, of.shape, of.kind, of.data)
        return twins[of]

    graph.main.inputs = [clone(v) for v in inputs]
    for node in nodes:
        read: list[Any] = [None if v is None else clone(v) for v in node.inputs]
        new_node = Node(
            node.op, read, [clone(v) for v in node.outputs], dict(node.attrs)
        )
        for output in new_node.outputs:
            output.producer = new_node
        graph.main.nodes.append(new_node)
    graph.main.outputs = [clone(value)]
    return graph


def _take_out(program: Program, nodes: Sequence[Node]) -> None:
    block = program.graph.main
    for node in reversed(nodes):
        if node.block is block and not any(v.users for v in node.outputs):
            block.nodes.remove(node)
            for result in node.outputs:
                program.vars.pop(result.name, None)
