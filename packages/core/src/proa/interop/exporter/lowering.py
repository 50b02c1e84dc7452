"""From a program's nodes to operators of another format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from proa.interop.exporter.call import Call
from proa.interop.exporter.quantized import KEEPING
from proa.interop.exporter.target import NotExpressibleError, Ref, Target
from proa.ir.attributes import row_of
from proa.ir.builder import make_node
from proa.ir.program import Block, Node, Program, Value

Rule = Callable[..., Any]


class _Rows:
    """The operators that a composite calls."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return lambda *inputs, **attrs: self._call.row(name, *inputs, **attrs)


class Lowering(ABC):
    """Writes the nodes of a program in order.

    Attributes:
        format: The format, for errors.
        refs: What values of the program are in the model.
        source: The values that others stand for: what a block is given and gives.
        refused: Operators that could not be written and why, by their node's number.
    """

    format: ClassVar[str]

    def __init__(self, program: Program, target: Target) -> None:
        self.program, self.target = program, target
        self.refs: dict[Value, Ref] = {}
        self.source: dict[Value, Value] = {}
        self.refused: dict[int, tuple[str, str]] = {}
        self._count = 0

    # -- what a format says ----------------------------------------------------------
    @abstractmethod
    def rule_of(self, op: str) -> Rule | None:
        """The rule of the row that writes an operator."""

    @abstractmethod
    def call(self, node: Node) -> Call:
        """What a rule is called with."""

    @abstractmethod
    def branch(self, node: Node, values: Sequence[Value]) -> Sequence[Ref]:
        """What a branch gives."""

    @abstractmethod
    def loop(self, node: Node, values: Sequence[Value]) -> Sequence[Ref]:
        """What a loop gives."""

    def inputs_of(self, node: Node) -> list[Ref | None]:
        """The arrays that a rule is called with."""
        return [None if v is None else self.refs[v] for v in node.inputs]

    # -- blocks ----------------------------------------------------------------------
    def block(self, block: Block) -> list[Ref]:
        """What a block gives, its inputs being known."""
        for node in block.nodes:
            self._count += 1
            number = self._count
            self.target.stem = node.outputs[0].name if node.outputs else node.op
            try:
                found = self._node(node)
            except NotExpressibleError as error:
                self.refused[number] = (node.op, str(error))
                found = [Ref("", v.dtype, v.shape) for v in node.outputs]
            for value, ref in zip(node.outputs, found, strict=False):
                self.target.rename(ref, value.name)
                dtype = ref.dtype if ref.whole else value.dtype
                self.refs[value] = replace(ref, dtype=dtype, shape=value.shape)
        return [self.refs[v] for v in block.outputs]

    def give(self, block: Block, given: Sequence[Ref | Value]) -> None:
        """Let inputs of a block stand for arrays, or for values of the program."""
        for value, what in zip(block.inputs, given, strict=True):
            if isinstance(what, Value):
                self.source[value] = self.source.get(what, what)
                what = self.refs[what]
            else:
                self.source.pop(value, None)  # a block may be written again
            self.refs[value] = replace(what, shape=value.shape)

    def _node(self, node: Node) -> Sequence[Ref]:
        values = [v for v in node.inputs if v is not None]
        if node.op == "branch":
            return self.branch(node, values)
        if node.op == "loop":
            return self.loop(node, values)
        if node.op != "call":
            return self.written(node, self.inputs_of(node))
        block = self.program.blocks[node.attrs["block"]]
        self.give(block, values)
        found = self.block(block)
        for outer, inner in zip(node.outputs, block.outputs, strict=True):
            self.source[outer] = self.source.get(inner, inner)
        return found

    # -- one operator ----------------------------------------------------------------
    def written(self, node: Node, refs: Sequence[Ref | None]) -> list[Ref]:
        """What an operator gives, by its row or as the composite that it equals."""
        call, rule = self.call(node), self.rule_of(node.op)
        if rule is not None:
            result = rule(call, *refs, **node.attrs)
        else:
            composite = row_of(node.op).composite
            if composite is None:
                raise NotExpressibleError(f"{self.format} has no operators for it")
            result = composite(_Rows(call), *refs, **node.attrs)
        results = (result,) if isinstance(result, Ref) else tuple(result)
        for value in node.outputs[len(results) :]:
            if value.users or value.is_output:
                raise NotExpressibleError(f"its result {value.name} has no counterpart")
        keeps = node.op in KEEPING and refs[0] is not None and refs[0].whole
        found = []
        for ref, value in zip(results, node.outputs, strict=False):
            ref = replace(ref, shape=value.shape, whole=ref.whole or keeps)
            found.append(ref if ref.whole else call.cast(ref, value.dtype))
        return found

    def lower(
        self, name: str, refs: Sequence[Ref | None], attrs: dict[str, Any]
    ) -> tuple[Ref, ...]:
        """What an operator that a row calls gives."""
        values = [None if r is None else _value(r) for r in refs]
        node = make_node(Program(), name, values, attrs)
        return tuple(self.written(node, refs))


def _value(ref: Ref) -> Value:
    if ref.shape is None:
        raise AssertionError(f"the shape of {ref.name} is not known")
    return Value(ref.name, ref.dtype, ref.shape, "input")
