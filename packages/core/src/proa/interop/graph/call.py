"""What a row of the mapping table sees of the node that it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from proa.errors import UnimplementedError
from proa.interop.graph.values import Array, as_host
from proa.tensor.symbolic_dims import SymbolicDim

if TYPE_CHECKING:
    from proa.interop.graph.node import Graph, Node
    from proa.interop.graph.run import Scope


class Call:
    """A node that is being computed: its attributes, and its place in the graph.

    Attributes:
        node: The node.
    """

    __slots__ = ("_scope", "node")

    def __init__(self, node: Node, scope: Scope) -> None:
        self.node, self._scope = node, scope

    @property
    def op(self) -> str:
        """The operator's name."""
        return self.node.op

    @property
    def training(self) -> bool:
        """Whether the Layer is in training mode."""
        return self._scope.training

    @property
    def place(self) -> str:
        """The node as errors name it."""
        return f"[{self._scope.table.api}] {self.node.op} {self.node.name!r}"

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.node.attributes.get(name, default)

    def host(self, value: Any) -> Array:
        """An input that must be known, as an array."""
        return as_host(value, f"{self.place}: an input")

    def ints(self, value: Any, name: str = "") -> list[Any] | None:
        """Numbers of an input, or of the attribute that older opsets have instead."""
        if value is None:
            found = self.get(name)
            return None if found is None else list(found)
        items: list[Any] = self.host(value).reshape(-1).tolist()
        return items

    def number(self, value: Any, default: Any = None) -> Any:
        """The only element of an input that must be known."""
        return default if value is None else self.host(value).reshape(-1)[0].item()

    def known(self, sizes: Sequence[Any]) -> list[int]:
        """Sizes, none of which may be symbolic."""
        if any(isinstance(n, SymbolicDim) for n in sizes):
            raise self.refuse("a symbolic dimension")
        return [int(n) for n in sizes]

    def run(self, graph: Graph, arguments: Sequence[Any] = ()) -> list[Any]:
        """The outputs of a graph among the attributes."""
        return self._scope.nested(graph, arguments)

    def later(self, graph: Graph) -> Callable[[], list[Any]]:
        """`run` of a graph without arguments, with today's values at any time."""
        scope = self._scope.copy()
        return lambda: scope.nested(graph, ())

    def refuse(self, what: str) -> UnimplementedError:
        """The error of a node whose attributes or inputs no row supports."""
        return UnimplementedError(f"{self.place} is not supported with {what}")
