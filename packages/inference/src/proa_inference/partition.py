"""An engine of several: parts of a graph run by delegates, the rest by Proa's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError
from proa.ir import Node, Program, Value
from proa.ir.attributes import row_of
from proa.runtime import Engine
from proa_inference.delegate import Delegate, PartRunner

Array = NDArray[Any]
Steps = list[tuple[str, str, int]]
#: Builds the engine of a part that no delegate takes.
EngineMaker = Callable[[Program], Engine]


def has_control_flow(program: Program) -> bool:
    """Whether the program has branches or loops."""
    return any(row_of(node.op).kind == "flow" for node in program.nodes())


@dataclass
class _Part:
    """A part and what it reads and writes, as indices of the run's arrays."""

    program: Program
    delegate: Delegate | None
    reads: list[int]
    writes: list[int]


class PartitionedEngine:
    """Runs the parts of a program one after another; has the methods of an Engine.

    Args:
        program: Without control flow.
        delegates: The first that takes a node has it.
        make: Builds the engine of what no delegate takes.
    """

    has_control_flow = False

    def __init__(
        self, program: Program, delegates: Sequence[Delegate], make: EngineMaker
    ) -> None:
        main = program.main
        self.inputs = [(v.name, v.dtype, tuple(v.shape)) for v in main.inputs]
        self.outputs = [(v.name, v.dtype, tuple(v.shape)) for v in main.outputs]
        self.metadata = dict(program.metadata)
        self._make = make
        self._slots: dict[Value, int] = {v: i for i, v in enumerate(main.inputs)}
        self._parts = [
            self._part(nodes, delegate)
            for delegate, nodes in _groups(main.nodes, delegates)
        ]
        self._constants = {self._slot(v): v.data for v in main.outputs if v.is_constant}
        self._results = [self._slot(v) for v in main.outputs]
        self._open()

    def _open(self) -> None:
        self._runners: list[tuple[str, Engine | None, PartRunner]] = []
        for part in self._parts:
            if part.delegate is None:
                engine = self._make(part.program.copy())
                self._runners.append(("proa", engine, engine.run))
            else:
                run = part.delegate.compile(part.program.copy())
                self._runners.append((part.delegate.name, None, run))

    def _slot(self, value: Value) -> int:
        return self._slots.setdefault(value, len(self._slots))

    def _part(self, nodes: list[Node], delegate: Delegate | None) -> _Part:
        inside, within = {v for n in nodes for v in n.outputs}, set(nodes)
        reads = dict.fromkeys(
            v
            for n in nodes
            for v in n.inputs
            if v is not None and not v.is_constant and v not in inside
        )
        writes = [
            v
            for n in nodes
            for v in n.outputs
            if v.is_output or any(user not in within for user in v.users)
        ]
        result = _extracted(list(reads), nodes, writes)
        read_slots = [self._slot(v) for v in reads]
        return _Part(result, delegate, read_slots, [self._slot(v) for v in writes])

    def parts(self) -> list[tuple[str, list[str]]]:
        """The engine that runs each part, and the operators of the part."""
        return [
            (name, [n.op for n in part.program.main.nodes])
            for (name, _, _), part in zip(self._runners, self._parts, strict=True)
        ]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on arrays; returns new arrays."""
        return self.run_profiled(inputs)[0]

    def run_profiled(self, inputs: Sequence[Array]) -> tuple[list[Array], Steps]:
        """The results of a run, and (operator, name, nanoseconds) of each part."""
        if len(inputs) != len(self.inputs):
            raise InvalidArgumentError(
                f"[Engine] expected {len(self.inputs)} inputs, got {len(inputs)}"
            )
        arrays: dict[int, Any] = {**self._constants, **dict(enumerate(inputs))}
        for i, (name, dtype, shape) in enumerate(self.inputs):
            arrays[i] = _checked(name, dtype, shape, arrays[i])
        steps: Steps = []
        for (name, engine, run), part in zip(self._runners, self._parts, strict=True):
            given = [np.ascontiguousarray(arrays[slot]) for slot in part.reads]
            start = time.perf_counter_ns()
            if engine is None:
                found = run(given)
                last = part.program.main.outputs[-1].name
                steps.append((name, last, time.perf_counter_ns() - start))
            else:
                found, own = engine.run_profiled(given)
                steps += own
            arrays.update(zip(part.writes, found, strict=True))
        return [np.array(arrays[slot]) for slot in self._results], steps

    def profile(self, inputs: Sequence[Array]) -> Steps:
        """The steps of one run."""
        return self.run_profiled(inputs)[1]

    def clone(self) -> PartitionedEngine:
        """An engine for another thread; delegates compile their parts once more."""
        clone = object.__new__(PartitionedEngine)
        clone.__dict__.update(self.__dict__)
        clone._runners = []
        for (name, engine, _), part in zip(self._runners, self._parts, strict=True):
            if engine is not None:
                own = engine.clone()
                clone._runners.append((name, own, own.run))
            elif part.delegate is not None:
                run = part.delegate.compile(part.program.copy())
                clone._runners.append((name, None, run))
        return clone

    def _engines(self) -> list[Engine]:
        return [engine for _, engine, _ in self._runners if engine is not None]

    def stop(self) -> None:
        """Has no effect without control flow."""

    def limit_plans(self, max_plans: int, max_bytes: int = 0) -> None:
        """As of an Engine, for each part that Proa runs."""
        for engine in self._engines():
            engine.limit_plans(max_plans, max_bytes)

    def set_flush_denormals(self, on: bool) -> None:
        """As of an Engine, for each part that Proa runs."""
        for engine in self._engines():
            engine.set_flush_denormals(on)

    def release_memory(self) -> int:
        """As of an Engine."""
        return sum(engine.release_memory() for engine in self._engines())

    @property
    def model_bytes(self) -> int:
        """Bytes of the parts that Proa runs."""
        return sum(engine.model_bytes for engine in self._engines())

    @property
    def packed_bytes(self) -> int:
        """Bytes of their prepacked weights."""
        return sum(engine.packed_bytes for engine in self._engines())

    @property
    def arena_bytes(self) -> int:
        """Bytes of their buffers."""
        return sum(engine.arena_bytes for engine in self._engines())


def _checked(name: str, dtype: str, shape: tuple[int, ...], array: Any) -> Array:
    given = np.asarray(array)
    want = np.dtype("uint16" if dtype == "bfloat16" else dtype)
    fits = given.ndim == len(shape) and all(
        w in (-1, g) for w, g in zip(shape, given.shape, strict=True)
    )
    if not fits or given.dtype != want:
        raise InvalidArgumentError(
            f"[Engine] input {name!r} must be {dtype} of shape {shape}, got "
            f"{given.dtype} of shape {given.shape}"
        )
    return given


def _groups(
    nodes: Sequence[Node], delegates: Sequence[Delegate]
) -> list[tuple[Delegate | None, list[Node]]]:
    """The nodes by who runs them, in an order in which they can run.

    As long as nodes of one owner are ready they are taken, then those of another.
    """
    owners = {n: next((d for d in delegates if d.takes(n)), None) for n in nodes}
    groups = _gathered(nodes, owners)
    small = [g for d, g in groups if d is not None and len(g) < d.min_nodes]
    if small:
        owners.update({node: None for group in small for node in group})
        groups = _gathered(nodes, owners)
    return groups


def _gathered(
    nodes: Sequence[Node], owners: dict[Node, Delegate | None]
) -> list[tuple[Delegate | None, list[Node]]]:
    left, done = list(nodes), set[Value]()
    produced = {v for n in nodes for v in n.outputs}
    groups: list[tuple[Delegate | None, list[Node]]] = []
    while left:
        owner = next(
            owners[n]
            for n in left
            if all(v is None or v in done or v not in produced for v in n.inputs)
        )
        group, rest = [], []
        for node in left:
            ready = all(
                v is None or v in done or v not in produced for v in node.inputs
            )
            if ready and owners[node] is owner:
                group.append(node)
                done.update(node.outputs)
            else:
                rest.append(node)
        groups.append((owner, group))
        left = rest
    return groups


def _extracted(reads: list[Value], nodes: list[Node], writes: list[Value]) -> Program:
    """A program of its own of these nodes."""
    part = Program()
    values: dict[Value, Value] = {
        v: Value(v.name, v.dtype, v.shape, "input") for v in reads
    }

    def new(value: Value) -> Value:
        if value not in values:
            values[value] = Value(
                value.name, value.dtype, value.shape, value.kind, value.data
            )
        return values[value]

    main = part.main
    main.inputs = [values[v] for v in reads]
    for node in nodes:
        inputs = [None if v is None else new(v) for v in node.inputs]
        outputs = [new(v) for v in node.outputs]
        new_node = Node(node.op, inputs, outputs, dict(node.attrs))
        for value in outputs:
            value.producer = new_node
        main.nodes.append(new_node)
    main.outputs = [values[v] for v in writes]
    for value in values.values():
        part.reserve(value.name)
    return part
