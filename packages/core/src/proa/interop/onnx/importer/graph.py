"""Graphs of a model's messages, checked and with the rows that compute them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proa.errors import InvalidArgumentError
from proa.interop.graph.limits import Limits
from proa.interop.graph.node import Graph, Info, Node
from proa.interop.onnx.importer.narrow import (
    HELD,
    check_attributes,
    check_readers,
    widened,
)
from proa.interop.onnx.importer.table import ONNX, core_domain, full_name


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
        self.limits = Limits("onnx.load")
        opsets = {core_domain(o.domain): o.version for o in model.opset_import}
        self.graph = self._graph(model.graph, opsets, None, 0)
        if self.missing:
            raise ONNX.missing(
                {
                    name: f" of opset {', '.join(sorted(opsets))}"
                    for name, opsets in self.missing.items()
                }
            )

    def _graph(
        self, proto: Any, opsets: dict[str, int], values: Any, depth: int
    ) -> Graph:
        self.limits.check_depth(depth)
        graph = Graph()
        if depth == 0:
            graph.initializers.update(self.reader.initializers(proto.initializer))
        else:
            for tensor in proto.initializer:
                graph.initializers[tensor.name] = self.reader.array(tensor)
        for sparse in proto.sparse_initializer:
            graph.initializers[sparse.values.name] = self.reader.dense(sparse)
        graph.inputs = [self.reader.info(v) for v in proto.input]
        graph.outputs = [self.reader.info(v) for v in proto.output]
        graph.nodes = [self._node(n, opsets, values, depth) for n in proto.node]
        self._check(graph)
        _hoist_constants(graph)
        kinds = {v.name: self.reader.narrow_kind(v) for v in proto.input}
        narrow = {name: kind for name, kind in kinds.items() if kind}
        narrow.update(_narrow_constants(graph))
        check_readers(graph, narrow, inner=depth > 0)
        return graph

    def _check(self, graph: Graph) -> None:
        results = [name for node in graph.nodes for name in node.outputs if name]
        results += [v.name for v in graph.inputs]
        # protobuf leaves names that are not UTF-8 as bytes
        named: list[object] = [*results, *graph.initializers]
        named += [v.name for v in graph.outputs]
        odd = [name for name in named if not isinstance(name, str)]
        if odd:
            raise InvalidArgumentError(
                f"[onnx.load] expected names in UTF-8, got {odd[:3]}"
            )
        if len(set(results)) != len(results):
            twice = sorted({name for name in results if results.count(name) > 1})
            raise InvalidArgumentError(
                f"[onnx.load] expected each value to be produced once, got {twice[:3]}"
            )

    def _node(
        self, proto: Any, opsets: dict[str, int], values: Any, depth: int
    ) -> Node:
        self.limits.add_node()
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
        check_attributes(node)
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
            row = ONNX.find(full_name(node.domain, node.op), node.version)
            if row is not None:
                node.row = row
                node.host, node.state, node.weights = row.host, row.state, row.weights
                return
            function = self.reader.defined_by_others(node.op, node.domain, node.version)
        if function is None:
            name = full_name(node.domain, node.op)
            self.missing.setdefault(name, set()).add(str(node.version))
            return
        node.body = self._function(function, node, depth + 1)

    def _function(self, proto: Any, node: Node, depth: int) -> Graph:
        self.limits.check_depth(depth)
        opsets = {core_domain(o.domain): o.version for o in proto.opset_import}
        opsets.setdefault("", node.version)
        values: dict[str, Any] = {a.name: a for a in proto.attribute_proto}
        values.update({k: _Resolved(v) for k, v in node.attributes.items()})
        graph = Graph(is_function=True)
        graph.inputs = [Info(name, None, None) for name in proto.input]
        graph.outputs = [Info(name, None, None) for name in proto.output]
        graph.nodes = [self._node(n, opsets, values, depth) for n in proto.node]
        self._check(graph)
        _hoist_constants(graph)
        check_readers(graph, _narrow_constants(graph))
        return graph


@dataclass
class _Resolved:
    """An attribute of a call, as its function's body refers to it."""

    value: Any


def _narrow_constants(graph: Graph) -> dict[str, str]:
    """Make narrow constants wide; gives their dtypes."""
    kinds = {n: a.dtype.name for n, a in graph.initializers.items()}
    found = {n: kind for n, kind in kinds.items() if kind in HELD}
    for name in found:
        graph.initializers[name] = widened(graph.initializers[name])
    return found


def _hoist_constants(graph: Graph) -> None:
    """Let the arrays of `Constant` nodes be initializers."""
    remaining = []
    for node in graph.nodes:
        value = node.attributes.get("value")
        if node.op == "Constant" and not node.domain and value is not None:
            graph.initializers[node.outputs[0]] = value
        else:
            remaining.append(node)
    graph.nodes = remaining
