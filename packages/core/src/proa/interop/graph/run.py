"""Computes graphs node by node with Proa's public functions.

Whether that runs kernels, writes the tape or records a program is decided where it
always is, in the dispatcher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proa.errors import Error, InvalidArgumentError
from proa.interop.graph.limits import DAMAGE
from proa.interop.graph.node import Graph, Node
from proa.interop.graph.sizes import on_sizes
from proa.interop.graph.table import Table
from proa.interop.graph.values import as_tensor


class Scope:
    """The values of a graph, and of those around it.

    Args:
        graph: The graph.
        table: The rows that compute it.
        constants: The values of initializers, for each graph by its id.
        outer: The scope around; None for a model's graph and a function's.
        training: Whether the Layer is in training mode.
    """

    def __init__(
        self,
        graph: Graph,
        table: Table,
        constants: Mapping[int, Mapping[str, Any]],
        outer: Scope | None = None,
        training: bool = False,
    ) -> None:
        self.graph, self.table, self.constants = graph, table, constants
        self.outer, self.training = outer, training
        self.values: dict[str, Any] = dict(constants.get(id(graph), {}))

    def __getitem__(self, name: str) -> Any:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise InvalidArgumentError(
            f"[{self.table.api}] no value {name!r} is produced before its use"
        )

    def nested(self, graph: Graph, arguments: Sequence[Any]) -> list[Any]:
        """The outputs of a graph inside this one."""
        outer = None if graph.is_function else self
        scope = Scope(graph, self.table, self.constants, outer, self.training)
        return scope.run(arguments)

    def copy(self) -> Scope:
        """The scope as it is now, whose values stay."""
        outer = None if self.outer is None else self.outer.copy()
        found = Scope(self.graph, self.table, {}, outer, self.training)
        found.constants, found.values = self.constants, dict(self.values)
        return found

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """The outputs for values of the inputs, the first ones if they are fewer."""
        names = [info.name for info in self.graph.inputs]
        if len(arguments) > len(names):
            raise InvalidArgumentError(
                f"[{self.table.api}] expected at most {len(names)} inputs, got "
                f"{len(arguments)}"
            )
        self.values.update(zip(names, arguments, strict=False))
        for name in names[len(arguments) :]:
            self.values.setdefault(name, None)
        last = self._last_uses()
        for at, node in enumerate(self.graph.nodes):
            self._step(node)
            for name in last.get(at, ()):
                self.values.pop(name, None)
        return [self[info.name] for info in self.graph.outputs]

    def _last_uses(self) -> dict[int, list[str]]:
        """The values that a node is the last to read; made once for each graph."""
        found = self.graph.last_uses
        if found is None:
            last: dict[str, int] = {}
            for at, node in enumerate(self.graph.nodes):
                for name in (*node.inputs, *node.outputs, *_outer_names(node)):
                    last[name] = at
            for info in self.graph.outputs:
                last.pop(info.name, None)
            found = {}
            for name, at in last.items():
                found.setdefault(at, []).append(name)
            self.graph.last_uses = found
        return found

    def _step(self, node: Node) -> None:
        inputs = [self[name] if name else None for name in node.inputs]
        try:
            outputs = computed(node, self, inputs)
        except Error:
            raise
        except DAMAGE as error:
            raise InvalidArgumentError(
                f"[{self.table.api}] {node.op} {node.name!r} does not accept "
                f"its inputs or attributes: {type(error).__name__}: {error}"
            ) from error
        for name, value in zip(node.outputs, outputs, strict=False):
            if name:
                self.values[name] = value


def _outer_names(node: Node) -> set[str]:
    """The names that graphs inside the node read."""
    return {
        name
        for inner in node.graphs()
        if not inner.is_function
        for graph in inner.walk()
        for name in (
            *(name for n in graph.nodes for name in n.inputs),
            *(info.name for info in graph.outputs),
        )
    }


def computed(node: Node, scope: Scope, inputs: list[Any]) -> Sequence[Any]:
    """The values of the node's outputs."""
    if node.body is not None:
        return scope.nested(node.body, inputs)
    assert node.row is not None  # models with a missing row are not loaded
    call = scope.table.call(node, scope)
    found = on_sizes(scope.table.sizes.get(node.op), call, inputs)
    if found is NotImplemented:
        host = node.host
        given = [x if i in host else as_tensor(x) for i, x in enumerate(inputs)]
        found = node.row.rule(call, *given)
    return found if isinstance(found, tuple) else (found,)
