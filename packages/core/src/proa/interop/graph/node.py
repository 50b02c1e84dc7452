"""A model's graphs as plain objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from proa.interop.graph.table import Row


@dataclass
class Node:
    """A node; `body` instead of `row` if it calls a function.

    Attributes:
        version: The version of the operator's set that the model was written for.
        host, state, weights: Positions of inputs, as the row says it of them.
        slots: Names of inputs and outputs where the framework has named ones, each
            with how many stand for it.
    """

    op: str
    domain: str
    name: str
    version: int
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    row: Row | None = None
    body: Graph | None = None
    host: tuple[int, ...] = ()
    state: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    slots: Any = None

    def graphs(self) -> Iterator[Graph]:
        """The graphs among its attributes, and its function's."""
        for value in self.attributes.values():
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, Graph):
                    yield item
        if self.body is not None:
            yield self.body


@dataclass
class Info:
    """What a model says of an input or output; None for a size that it leaves open."""

    name: str
    dtype: str | None
    shape: list[int | None] | None
    kind: str = "tensor"


@dataclass
class Graph:
    """Nodes in order, inputs and outputs by name, and the initializers' arrays."""

    nodes: list[Node] = field(default_factory=list)
    inputs: list[Info] = field(default_factory=list)
    outputs: list[Info] = field(default_factory=list)
    initializers: dict[str, Any] = field(default_factory=dict)
    is_function: bool = False
    last_uses: dict[int, list[str]] | None = None

    def walk(self) -> Iterator[Graph]:
        """This graph and those inside it."""
        yield self
        for node in self.nodes:
            for graph in node.graphs():
                yield from graph.walk()
