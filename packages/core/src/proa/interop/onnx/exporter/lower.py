"""From a program's nodes to those of the standard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from proa.errors import UnimplementedError
from proa.interop.exporter.lowering import Lowering, Rule
from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.graph import (
    SCHEMA_NAMES,
    Body,
    Graph,
    OnnxNode,
    element_type,
)
from proa.interop.onnx.exporter.ops import load_rows
from proa.interop.onnx.exporter.table import OPSETS, find_row
from proa.ir.program import Node, Program, Value


@dataclass
class Written:
    """A program as nodes of the standard.

    Attributes:
        refused: Why operators could not be written, by their node's number.
    """

    graph: Graph
    inputs: list[Ref]
    outputs: list[Ref]
    refused: dict[int, tuple[str, str]]


class _Lowering(Lowering):
    format = "ONNX"

    def __init__(self, program: Program, opset: int) -> None:
        load_rows()
        self.graph = Graph(opset)
        super().__init__(program, self.graph)

    def run(self) -> Written:
        main = self.program.main
        for value in main.inputs:
            self.refs[value] = self.graph.input(value.name, value.dtype, value.shape)
        inputs = [self.refs[v] for v in main.inputs]
        for value in self.program.constants():
            assert value.data is not None
            # The output that copies it has the name.
            name = f"{value.name}.value" if value.is_output else value.name
            ref = self.graph.named_constant(name, value.data, value.dtype)
            self.refs[value] = ref
        outputs = self.block(main)
        for value in (*main.inputs, *main.outputs):
            if value.dtype not in SCHEMA_NAMES:
                why = f"ONNX has no operators for {value.dtype}"
                self.refused.setdefault(0, ("the model's inputs and outputs", why))
        if self.refused:
            return Written(self.graph, inputs, [], self.refused)
        self.graph.stem = "output"
        found: list[Ref] = []
        for value, ref in zip(main.outputs, outputs, strict=True):
            found.append(self.graph.owned(ref, found))
            self.graph.rename(found[-1], value.name)
        outer = self.graph.nodes()
        outer[:] = live(outer, found)
        return Written(self.graph, inputs, found, self.refused)

    # -- one operator ----------------------------------------------------------------
    def rule_of(self, op: str) -> Rule | None:
        row = find_row(op, self.graph.opset)
        return None if row is None else row.rule

    def call(self, node: Node) -> Call:
        return Call(self.graph, node, self)

    def written(self, node: Node, refs: Sequence[Ref | None]) -> list[Ref]:
        for dtype in (*(v.dtype for v in node.outputs), *(r.dtype for r in refs if r)):
            element_type(dtype)
        return super().written(node, refs)

    # -- branches and loops ----------------------------------------------------------
    def branch(self, node: Node, values: Sequence[Value]) -> Sequence[Ref]:
        condition = self._condition(self.refs[values[0]])
        bodies = {}
        for name in ("then", "else"):
            block = self.program.blocks[node.attrs[f"{name}_block"]]
            with self.graph.body() as nodes:
                self.give(block, values[1:])
                bodies[f"{name}_branch"] = self._body([], nodes, self.block(block))
        self.graph.stem = node.outputs[0].name
        names = self.graph.append(
            "If", [condition.name], bodies, len(node.outputs)
        )  # fmt: skip
        return [
            Ref(n, v.dtype, v.shape) for n, v in zip(names, node.outputs, strict=True)
        ]

    def loop(self, node: Node, values: Sequence[Value]) -> Sequence[Ref]:
        blocks = self.program.blocks
        test = blocks[node.attrs["cond_block"]]
        block = blocks[node.attrs["body_block"]]
        count = node.attrs["carried"]
        stem = node.outputs[0].name
        self.give(test, values)
        first = self._condition(self.block(test)[0])
        with self.graph.body() as nodes:
            self.graph.stem = stem
            carried = [
                self.graph.input(v.name, v.dtype, v.shape) for v in block.inputs[:count]
            ]
            round_number = self.graph.input(f"{stem}/round", "int64", ())
            going = self.graph.input(f"{stem}/going", "bool", ())
            self.give(block, [*carried, *values[count:]])
            results = self.block(block)
            self.give(test, [*results, *values[count:]])
            again = self._condition(self.block(test)[0])
            body = self._body([round_number, going, *carried], nodes, [again, *results])
        self.graph.stem = stem
        inputs = ["", first.name, *(self.refs[v].name for v in values[:count])]
        names = self.graph.append("Loop", inputs, {"body": body}, count)
        return [
            Ref(n, v.dtype, v.shape) for n, v in zip(names, node.outputs, strict=True)
        ]

    def _body(
        self, inputs: list[Ref], nodes: list[OnnxNode], outputs: Sequence[Ref]
    ) -> Body:
        own: list[Ref] = []
        for ref in outputs:
            result = self.graph.owned(ref, own)
            own.append(replace(result, shape=ref.shape))
        for ref in (*inputs, *own):
            element_type(ref.dtype)
        return Body(inputs, live(nodes, own), own)

    def _condition(self, ref: Ref) -> Ref:
        """A bool without axes."""
        if ref.shape == ():
            return ref
        empty = self.graph.constant(np.zeros(0, np.int64), "int64")
        result = self.graph.emit("Reshape", [ref, empty], {})[0]
        return replace(result, shape=())


def live(nodes: list[OnnxNode], outputs: Sequence[Ref]) -> list[OnnxNode]:
    """The nodes that the outputs need."""
    needed = {ref.name for ref in outputs}
    live_nodes = []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            needed |= node.reads()
            live_nodes.append(node)
    return live_nodes[::-1]


def written(program: Program, opset: int) -> Written:
    """The program as nodes of the standard.

    Raises:
        UnimplementedError: If the opset cannot express operators of it: names all of
            them, each with the opset from which it can.
    """
    found = _Lowering(program, opset).run()
    if found.refused:
        raise UnimplementedError(_refusal(program, opset, found.refused))
    return found


def _refusal(program: Program, opset: int, refused: dict[int, tuple[str, str]]) -> str:
    later = {n: _Lowering(program, n).run().refused for n in OPSETS if n > opset}
    said: dict[str, int] = {}
    for number, (op, why) in refused.items():
        since = next((n for n, rest in later.items() if number not in rest), None)
        for rest in later.values():  # the reason at the last opset is the real one
            why = rest.get(number, (op, why))[1]
        what = f"{op}: {why}" if since is None else f"{op}: from opset {since} on"
        said[what] = said.get(what, 0) + 1
    names = [f"{what} ({n} nodes)" if n > 1 else what for what, n in said.items()]
    return (
        f"[onnx.export] opset {opset} cannot express {len(names)} of the model's "
        "operators:\n  " + "\n  ".join(names)
    )
