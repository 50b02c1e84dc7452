"""What a row of the mapping table sees of the node that it computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from proa.errors import UnimplementedError
from proa.onnx.values import Array, as_host
from proa.tensor.symbolic_dims import SymbolicDim

if TYPE_CHECKING:
    from proa.onnx.graph import Graph, Node
    from proa.onnx.run import Scope


class Call:
    """A node that is being computed: its attributes, and where it stands.

    Attributes:
        node: The node.
        opset: The version of its domain that the model was written for.
    """

    __slots__ = ("_scope", "node", "opset")

    def __init__(self, node: Node, scope: Scope) -> None:
        self.node, self.opset, self._scope = node, node.opset, scope

    @property
    def op(self) -> str:
        """The operator's name."""
        return self.node.op

    @property
    def place(self) -> str:
        """The node as errors name it."""
        return f"{self.node.op} {self.node.name!r}"

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.node.attributes.get(name, default)

    def host(self, value: Any) -> Array:
        """An input that must be known, as an array."""
        return as_host(value, f"an input of {self.place}")

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

    def refuse(self, what: str) -> UnimplementedError:
        """The error of a node whose attributes or inputs no row supports."""
        return UnimplementedError(f"[onnx] {self.place} is not supported with {what}")
