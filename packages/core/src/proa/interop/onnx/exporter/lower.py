"""From a program's nodes to those of the standard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from proa.errors import UnimplementedError
from proa.interop.onnx.exporter.call import Call
from proa.interop.onnx.exporter.graph import (
    SCHEMA_NAMES,
    Body,
    Graph,
    OnnxNode,
    Ref,
    element_type,
)
from proa.interop.onnx.exporter.ops import load_rows
from proa.interop.onnx.exporter.table import OPSETS, NotExpressibleError, find_row
from proa.ir.attributes import row_of
from proa.ir.builder import make_node
from proa.ir.program import Block, Node, Program, Value


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


class _Rows:
    """The operators that a composite calls."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return lambda *inputs, **attrs: self._call.row(name, *inputs, **attrs)


class _Lowering:
    def __init__(self, program: Program, opset: int) -> None:
        load_rows()
        self.program, self.graph = program, Graph(opset)
        self.refs: dict[Value, Ref] = {}
        self.refused: dict[int, tuple[str, str]] = {}
        #: The values that others stand for: what a block is given and gives.
        self.source: dict[Value, Value] = {}
        self._count = 0

    def run(self) -> Written:
        main = self.program.main
        for value in main.inputs:
            self.refs[value] = self.graph.input(value.name, value.dtype, value.shape)
        inputs = [self.refs[v] for v in main.inputs]
        for value in self.program.constants():
            self._constant(value)
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

    def _constant(self, value: Value) -> Ref:
        known = self.refs.get(value)
        if known is None:
            assert value.data is not None
            # The output that copies it has the name.
            name = f"{value.name}.value" if value.is_output else value.name
            known = self.graph.initializer(name, value.data, value.dtype)
            self.refs[value] = known
        return known

    # -- blocks ----------------------------------------------------------------------
    def block(self, block: Block) -> list[Ref]:
        """What a block gives, its inputs being known."""
        for node in block.nodes:
            self._count += 1
            number = self._count
            self.graph.stem = node.outputs[0].name if node.outputs else node.op
            try:
                found = self._node(node)
            except NotExpressibleError as error:
                self.refused[number] = (node.op, str(error))
                found = [Ref("", v.dtype, v.shape) for v in node.outputs]
            for value, ref in zip(node.outputs, found, strict=False):
                self.graph.rename(ref, value.name)
                self.refs[value] = replace(ref, dtype=value.dtype, shape=value.shape)
        return [self.refs[v] for v in block.outputs]

    def _given(self, block: Block, given: Sequence[Ref | Value]) -> None:
        for value, what in zip(block.inputs, given, strict=True):
            if isinstance(what, Value):
                self.source[value] = self.source.get(what, what)
                what = self.refs[what]
            self.refs[value] = replace(what, shape=value.shape)

    def _node(self, node: Node) -> Sequence[Ref]:
        values = [v for v in node.inputs if v is not None]
        if node.op == "call":
            block = self.program.blocks[node.attrs["block"]]
            self._given(block, values)
            found = self.block(block)
            for outer, inner in zip(node.outputs, block.outputs, strict=True):
                self.source[outer] = self.source.get(inner, inner)
            return found
        if node.op == "branch":
            return self._branch(node, values)
        if node.op == "loop":
            return self._loop(node, values)
        refs = [None if v is None else self.refs[v] for v in node.inputs]
        return self._written(node, refs)

    def _branch(self, node: Node, values: Sequence[Value]) -> Sequence[Ref]:
        condition = self._condition(self.refs[values[0]])
        bodies = {}
        for name in ("then", "else"):
            block = self.program.blocks[node.attrs[f"{name}_block"]]
            with self.graph.body() as nodes:
                self._given(block, values[1:])
                bodies[f"{name}_branch"] = self._body([], nodes, self.block(block))
        self.graph.stem = node.outputs[0].name
        names = self.graph.append(
            "If", [condition.name], bodies, len(node.outputs)
        )  # fmt: skip
        return [
            Ref(n, v.dtype, v.shape) for n, v in zip(names, node.outputs, strict=True)
        ]

    def _loop(self, node: Node, values: Sequence[Value]) -> Sequence[Ref]:
        blocks = self.program.blocks
        test = blocks[node.attrs["cond_block"]]
        block = blocks[node.attrs["body_block"]]
        count = node.attrs["carried"]
        stem = node.outputs[0].name
        self._given(test, values)
        first = self._condition(self.block(test)[0])
        with self.graph.body() as nodes:
            self.graph.stem = stem
            carried = [
                self.graph.input(v.name, v.dtype, v.shape) for v in block.inputs[:count]
            ]
            round_number = self.graph.input(f"{stem}/round", "int64", ())
            going = self.graph.input(f"{stem}/going", "bool", ())
            self._given(block, [*carried, *values[count:]])
            results = self.block(block)
            self._given(test, [*results, *values[count:]])
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
            made = self.graph.owned(ref, own)
            own.append(replace(made, shape=ref.shape))
        for ref in (*inputs, *own):
            element_type(ref.dtype)
        return Body(inputs, live(nodes, own), own)

    def _condition(self, ref: Ref) -> Ref:
        """A bool without axes."""
        if ref.shape == ():
            return ref
        empty = self.graph.constant(_no_sizes(), "int64")
        made = self.graph.emit("Reshape", [ref, empty], {})[0]
        return replace(made, shape=())

    # -- one operator ----------------------------------------------------------------
    def _written(self, node: Node, refs: Sequence[Ref | None]) -> Sequence[Ref]:
        for dtype in (*(v.dtype for v in node.outputs), *(r.dtype for r in refs if r)):
            element_type(dtype)
        call = Call(self.graph, node, self._lower, self.source, self.refs)
        found = find_row(node.op, self.graph.opset)
        if found is not None:
            made = found.rule(call, *refs, **node.attrs)
        else:
            row = row_of(node.op)
            if row.composite is None:
                raise NotExpressibleError("ONNX has no operators for it")
            made = row.composite(_Rows(call), *refs, **node.attrs)
        results = (made,) if isinstance(made, Ref) else tuple(made)
        for value in node.outputs[len(results) :]:
            if value.users or value.is_output:
                raise NotExpressibleError(f"its result {value.name} has no counterpart")
        return [
            self.graph.cast(replace(ref, shape=value.shape), value.dtype)
            for ref, value in zip(results, node.outputs, strict=False)
        ]

    def _lower(
        self, name: str, refs: Sequence[Ref | None], attrs: dict[str, Any]
    ) -> tuple[Ref, ...]:
        """What an operator that a row calls gives."""
        values = [
            None if r is None else Value(r.name, r.dtype, _known(r), "input")
            for r in refs
        ]
        scratch = Program()
        node = make_node(scratch, name, values, attrs)
        return tuple(self._written(node, refs))


def _known(ref: Ref) -> tuple[int, ...]:
    if ref.shape is None:
        raise AssertionError(f"the shape of {ref.name} is not known")
    return ref.shape


def _no_sizes() -> Any:
    import numpy as np

    return np.zeros(0, np.int64)


def live(nodes: list[OnnxNode], outputs: Sequence[Ref]) -> list[OnnxNode]:
    """The nodes that the outputs need."""
    needed = {ref.name for ref in outputs}
    kept = []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            needed |= node.reads()
            kept.append(node)
    return kept[::-1]


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
