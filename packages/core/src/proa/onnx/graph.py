"""A model's graphs as plain objects, checked and with the rows that compute them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from proa.errors import InvalidArgumentError, UnimplementedError
from proa.onnx.table import Row, core_domain, find_row, nearest

#: Graphs and functions that may stand in one another.
_DEPTH = 32
#: Nodes of a model, those of functions each time they are called.
_NODES = 1_000_000


@dataclass
class Node:
    """A node; `body` instead of `row` if it calls a function."""

    op: str
    domain: str
    name: str
    opset: int
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    row: Row | None = None
    body: Graph | None = None

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

    def walk(self) -> Iterator[Graph]:
        """This graph and those inside it."""
        yield self
        for node in self.nodes:
            for graph in node.graphs():
                yield from graph.walk()


class Parser:
    """Makes graphs of messages.

    Args:
        reader: Makes arrays of tensor messages.
        model: The model's message.
    """

    def __init__(self, reader: Any, model: Any) -> None:
        self.reader = reader
        self.functions = {(core_domain(f.domain), f.name): f for f in model.functions}
        self.missing: dict[str, set[str]] = {}
        self.count = 0
        opsets = {core_domain(o.domain): o.version for o in model.opset_import}
        self.graph = self._graph(model.graph, opsets, None, 0)
        if self.missing:
            raise UnimplementedError(self._all_missing())

    def _all_missing(self) -> str:
        lines = []
        for name in sorted(self.missing):
            near = nearest(name)
            hint = f" (nearest: {', '.join(near)})" if near else ""
            lines.append(
                f"{name} of opset {', '.join(sorted(self.missing[name]))}{hint}"
            )
        return "[onnx.load] no row for these operators: " + "; ".join(lines)

    def _graph(
        self, proto: Any, opsets: dict[str, int], values: Any, depth: int
    ) -> Graph:
        if depth > _DEPTH:
            raise InvalidArgumentError(
                f"[onnx.load] expected at most {_DEPTH} graphs inside one another"
            )
        graph = Graph()
        for tensor in proto.initializer:
            graph.initializers[tensor.name] = self.reader.array(tensor)
            if values is None:  # a function's body is read again at its next call
                tensor.ClearField("raw_data")
        for sparse in proto.sparse_initializer:
            graph.initializers[sparse.values.name] = self.reader.dense(sparse)
        graph.inputs = [self.reader.info(v) for v in proto.input]
        graph.outputs = [self.reader.info(v) for v in proto.output]
        graph.nodes = [self._node(n, opsets, values, depth) for n in proto.node]
        self._check(graph)
        return graph

    def _check(self, graph: Graph) -> None:
        made = [name for node in graph.nodes for name in node.outputs if name]
        made += [v.name for v in graph.inputs]
        if len(set(made)) != len(made):
            twice = sorted({name for name in made if made.count(name) > 1})
            raise InvalidArgumentError(
                f"[onnx.load] expected each value to be produced once, got {twice[:3]}"
            )

    def _node(
        self, proto: Any, opsets: dict[str, int], values: Any, depth: int
    ) -> Node:
        self.count += 1
        if self.count > _NODES:
            raise InvalidArgumentError(
                f"[onnx.load] expected at most {_NODES} nodes, got more"
            )
        domain = core_domain(proto.domain)
        opset = opsets.get(domain, 1)
        node = Node(
            proto.op_type, domain, proto.name, opset,
            list(proto.input), list(proto.output), {},
        )  # fmt: skip
        for attribute in proto.attribute:
            value = attribute
            if attribute.ref_attr_name:
                value = (values or {}).get(attribute.ref_attr_name)
                if value is None:
                    continue
            node.attributes[attribute.name] = self._attribute(
                value, opsets, values, depth
            )
        self._resolve(node, proto, depth)
        return node

    def _attribute(
        self, proto: Any, opsets: dict[str, int], values: Any, depth: int
    ) -> Any:
        if isinstance(proto, _Resolved):
            return proto.value
        kind = self.reader.attribute_kind(proto)
        if kind == "GRAPH":
            return self._graph(proto.g, opsets, values, depth + 1)
        if kind == "GRAPHS":
            return [self._graph(g, opsets, values, depth + 1) for g in proto.graphs]
        return self.reader.attribute(proto, kind)

    def _resolve(self, node: Node, proto: Any, depth: int) -> None:
        function = self.functions.get((node.domain, node.op))
        if function is None:
            node.row = find_row(node.domain, node.op, node.opset)
            if node.row is not None:
                return
            function = self.reader.defined_by_others(node.op, node.domain, node.opset)
        if function is None:
            name = node.op if not node.domain else f"{node.domain}.{node.op}"
            self.missing.setdefault(name, set()).add(str(node.opset))
            return
        node.body = self._function(function, node, depth + 1)

    def _function(self, proto: Any, node: Node, depth: int) -> Graph:
        if depth > _DEPTH:
            raise InvalidArgumentError(
                f"[onnx.load] expected at most {_DEPTH} functions inside one another, "
                f"got more at {node.op}"
            )
        opsets = {core_domain(o.domain): o.version for o in proto.opset_import}
        opsets.setdefault("", node.opset)
        values: dict[str, Any] = {a.name: a for a in proto.attribute_proto}
        values.update({k: _Resolved(v) for k, v in node.attributes.items()})
        graph = Graph(is_function=True)
        graph.inputs = [Info(name, None, None) for name in proto.input]
        graph.outputs = [Info(name, None, None) for name in proto.output]
        graph.nodes = [self._node(n, opsets, values, depth) for n in proto.node]
        self._check(graph)
        return graph


@dataclass
class _Resolved:
    """An attribute of a call, as its function's body refers to it."""

    value: Any
