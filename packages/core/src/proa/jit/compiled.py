"""Recorded functions with the engines that run their programs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from proa import _core
from proa.errors import Error
from proa.errors.locations import annotate
from proa.ir import to_bytes
from proa.ir.attributes import row_of
from proa.ir.builder import make_node
from proa.ir.file import to_parts
from proa.ir.passes import PASSES, apply, chain_spans, optimize
from proa.ir.program import Block, Node, Program, Value
from proa.ir.record import (
    another_thread_records,
    await_recording,
    to_array,
    to_tensor,
)
from proa.jit.pytree import unflatten
from proa.jit.recording import Gradient, Recording, Source
from proa.jit.trace import Trace

#: What a step is rewritten by before its engine is made.
STEP_PASSES = (
    "remove_identities",
    "fold_constants",
    "eliminate_common_subexpressions",
    "remove_dead_code",
    "fuse_relu",
    "fuse_transposed_weight_grad",
)


def engine_of(program: Program) -> Any:
    """An engine of a copy of the program that computes the same with less.

    It reads weights that no pass changed where `program` has them.
    """
    program = program.copy()
    optimize(program)
    apply(program, ["chain_elementwise"])
    graph, weights = to_parts(program)
    return _core.Engine.from_parts(graph, weights, chains=chain_spans(program))


def run_engine(engine: Any, tensors: Sequence[Any]) -> list[Any]:
    """Tensors in, tensors out."""
    arrays = engine.run([to_array(t) for t in tensors])
    return [
        to_tensor(array, dtype)
        for array, (_, dtype, _) in zip(arrays, engine.outputs, strict=True)
    ]


class Compiled(ABC):
    """A recorded function with the engine that runs its program.

    Attributes:
        graph: What was recorded.
    """

    graph: Trace | Recording

    def check_guards(self) -> bool:
        """Whether the function would still do what was recorded."""
        return self.graph.check_guards()

    def __call__(self, tensors: Sequence[Any]) -> Any:
        """The function's result for these arguments."""
        return unflatten(self._run(tensors), self.graph.treedef)

    @abstractmethod
    def _run(self, tensors: Sequence[Any]) -> list[Any]:
        """The leaves of the function's result."""


class InferenceProgram(Compiled):
    """What a trace computes, with its constants in the engine."""

    def __init__(self, graph: Trace) -> None:
        self.graph: Trace = graph
        self._engine: Any = None
        #: For which arguments' stop_gradient no result takes a gradient.
        self.detached: set[tuple[bool, ...]] = set()

    def check_guards(self) -> bool:
        if self.graph.refresh_constants():
            self._engine = None
        return super().check_guards()

    def _run(self, tensors: Sequence[Any]) -> list[Any]:
        if self._engine is None:
            self._engine = engine_of(self.graph.program)
        with lines_noted(self.graph.program):
            return run_engine(self._engine, tensors)


class TrainingProgram(Compiled):
    """What a recording does, as one planned program.

    Where its results may take gradients, these are the program's second part:
    it continues in the memory that the first part left, when the tape's turn comes.
    """

    def __init__(self, recording: Recording) -> None:
        self.graph: Recording = recording
        program = recording.program
        block = program.main
        arguments = [
            v
            for v in block.inputs
            if v not in recording.sources and v not in recording.seeds
        ]
        left = [v for _, result in recording.grads for v in result]
        found = [v for _, result in recording.wanted for v in result]
        stored = [v for v, _ in recording.stores]
        block.outputs = [*recording.results, *stored, *left, *found]
        apply(program, STEP_PASSES)
        if not found:  # else a norm's bias may change before its gradient is taken
            apply(program, ["fuse_batch_norm_relu_grad"])
        apply(program, ["split_batch_norm"])
        ahead = len(block.outputs) - len(found)
        first = needed_nodes(block, block.outputs[:ahead])
        backward = [n for n in block.nodes if n not in first] if found else []
        if found and not backward:  # only propagated gradients: a part has nodes
            backward = [make_node(program, "assign", [block.outputs[ahead]], {})]
            block.outputs[ahead] = backward[0].outputs[0]
        for node in backward:
            node.part = 1
        block.nodes = [*(n for n in block.nodes if n in first), *backward]
        PASSES["hoist_updates"].run(program)  # once: the order found is in order
        apply(program, ["chain_elementwise"])
        nodes = len(first) if found else None
        read = {v for n in block.nodes for v in n.inputs}
        read.update(block.outputs, (v for _, v in recording.stores), recording.seeds)
        block.inputs = [v for v in block.inputs if v in read]
        at = {v: i for i, v in enumerate(block.inputs)}
        stores = [-1] * len(block.outputs)
        for k, (_, to) in enumerate(recording.stores, len(recording.results)):
            stores[k] = at[to]
        self.program = program
        self.engine = _core.Engine.with_updates(
            to_bytes(program), stores, recording.scalars.uses(program), nodes, ahead,
            chain_spans(program),
        )  # fmt: skip
        # For every input the argument's number, its source, or None for a seed.
        bindings: dict[Value, int | Source | None] = dict.fromkeys(recording.seeds)
        bindings.update(recording.sources)
        bindings.update((v, i) for i, v in enumerate(arguments))
        self._inputs = _InputBinding([bindings[v] for v in block.inputs])
        self._wanted = _InputBinding([bindings[v] for v, _ in recording.wanted])
        self._tape = self._tape_plan(backward) if found else None

    def _tape_plan(self, backward: list[Node]) -> Any:
        """How the tape records a run, whose backward runs these nodes."""
        recording, inputs = self.graph, self.program.main.inputs
        again = {v for n in backward for v in n.inputs}
        at = {v: i for i, v in enumerate(inputs)}
        return _core.TapePlan(
            len(recording.results),
            reread_inputs=[i for i, v in enumerate(inputs) if v in again],
            reread_results=[i for i, v in enumerate(recording.results) if v in again],
            seeds=[(at[v], i) for v, i in recording.seeds.items()],
            parts=[len(result) for _, result in recording.wanted],
        )

    # -- running ----------------------------------------------------------------------
    def _run(self, tensors: Sequence[Any]) -> list[Any]:
        recording = self.graph
        numbers = recording.scalars.next_values()
        inputs = self._inputs.read(tensors)
        if another_thread_records() and _any_symbolic(inputs):
            await_recording()
            inputs = self._inputs.read(tensors)
        if self._tape is not None:
            wanted = self._wanted.read(tensors)
            with lines_noted(self.program):
                on_tape: list[Any] = self.engine.run_on_tape(
                    inputs, numbers, wanted, self._tape
                )
            return on_tape
        with lines_noted(self.program):
            result = self.engine.run_tensors(inputs, numbers)
        count = len(recording.results)
        leaves: list[Any] = result[:count]
        if recording.grads:
            rest = iter(result[count:])
            for p, values in recording.grads:
                p.grad = _gradient(values, rest, p)
        _core.zero_grads(recording.zeroed)
        return leaves


class lines_noted:
    """While open, an error of a node names where that was recorded."""

    __slots__ = ("_program",)

    def __init__(self, program: Program) -> None:
        self._program = program

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, Error) and error.node is not None:
            for node in self._program.nodes():
                if node.op == "call" or not (node.line and node.outputs):
                    continue  # what is called names the line
                if node.outputs[0].name == error.node:
                    annotate(error, f"{node.op} was recorded at {node.line}")


def _any_symbolic(tensors: Sequence[Any]) -> bool:
    """Whether a recording has bound some of them."""
    return any(t is not None and t._is_symbolic for t in tensors)


def _gradient(values: Gradient, results: Iterator[Any], of: Any) -> Any:
    """A gradient of that tensor, of the next tensors made."""
    if len(values) < 2:
        return next(results) if values else None
    return _core.row_sparse(next(results), next(results), of)


class _InputBinding:
    """Binding of inputs to a call: each to an argument's number, a source, or None."""

    def __init__(self, bindings: list[int | Source | None]) -> None:
        # What is the same tensor in every run is there already.
        self._same = [
            p.tensor if isinstance(p, Source) and not p.of_grad else None
            for p in bindings
        ]
        self._arguments = [(k, p) for k, p in enumerate(bindings) if isinstance(p, int)]
        self._grads = [
            (k, p)
            for k, p in enumerate(bindings)
            if isinstance(p, Source) and p.of_grad
        ]

    def read(self, arguments: Sequence[Any]) -> list[Any]:
        """The tensors of this run."""
        found = self._same.copy()
        for k, number in self._arguments:
            found[k] = arguments[number]
        for k, source in self._grads:
            found[k] = source.read()
        return found


def needed_nodes(block: Block, outputs: Sequence[Value]) -> set[Node]:
    """The nodes that these outputs follow from, or that are there for their effect."""
    needed: set[Value | None] = set(outputs)
    nodes = set()
    for node in reversed(block.nodes):
        effect = row_of(node.op).effect
        if effect or not needed.isdisjoint(node.outputs):
            nodes.add(node)
            needed.update(node.inputs)
    return nodes
