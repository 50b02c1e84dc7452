"""A recording as programs that run: the forward, and the backward if one follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proa import _core
from proa.errors import PreconditionNotMetError, UnimplementedError
from proa.ir import to_bytes
from proa.ir.attributes import row_of
from proa.ir.passes import apply
from proa.ir.program import Block, Node, Program, Value
from proa.jit.recording import Recording, Source

_PASSES = (
    "remove_identities", "fold_constants", "merge_equal_nodes", "remove_dead_code",
    "update_early",
)  # fmt: skip


class _Part:
    """A program with its engine, and where its inputs come from."""

    def __init__(
        self,
        program: Program,
        recording: Recording,
        stores: dict[int, Value],
    ) -> None:
        block = program.main
        read = {v for node in block.nodes for v in node.inputs}
        read.update(block.outputs, stores.values())
        block.inputs = [v for v in block.inputs if v in read]
        self.program = program
        self.inputs = list(block.inputs)
        at = {v: i for i, v in enumerate(self.inputs)}
        self.engine = _core.Engine.with_updates(
            to_bytes(program),
            [at[stores[i]] if i in stores else -1 for i in range(len(block.outputs))],
            recording.numbers.uses(program),
        )


class Compiled:
    """What a recording does, as one program or, with a backward to follow, two."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        program, count = recording.program, len(recording.results)
        self._arguments = {
            v: i
            for i, v in enumerate(program.main.inputs)
            if v not in recording.sources and v not in recording.seeds
        }
        left = [v for _, v in recording.grads if v is not None]
        found = [v for _, v in recording.wanted if v is not None]
        stored = [v for v, _ in recording.stores]
        program.main.outputs = [*recording.results, *stored, *left, *found]
        apply(program, _PASSES)
        outputs = program.main.outputs
        ahead = len(outputs) - len(found)
        self.saved: list[Value] = []
        self.backward: _Part | None = None
        if found:
            backward = self._split(program, outputs[:ahead], outputs[ahead:])
        stores = {count + k: to for k, (_, to) in enumerate(recording.stores)}
        self.forward = _Part(program, recording, stores)
        if found:
            self.backward = _Part(backward, recording, {})
        self._fixed = [self._source(v) for v in self.forward.inputs]

    def _source(self, value: Value) -> int | Source:
        at = self._arguments.get(value)
        return self.recording.sources[value] if at is None else at

    def _split(
        self, program: Program, ahead: list[Value], found: list[Value]
    ) -> Program:
        """Take the nodes that gradients alone need out of the program.

        What they read of the others' results is kept for them (`saved`); views are made
        again.
        """
        block = program.main
        first = _needed(block, ahead)
        behind = Program()
        behind._counts = program._counts
        behind.main.nodes = [n for n in block.nodes if n not in first]
        block.nodes = [n for n in block.nodes if n in first]
        inputs: dict[Value, Value] = {}
        views: list[Node] = []
        results = ahead[: len(self.recording.results)]

        def carried(value: Value) -> Value:
            """The value as the backward program reads it."""
            if value.is_constant or value.producer in behind_nodes:
                return value
            known = inputs.get(value)
            if known is not None:
                return known
            node = value.producer
            if node is not None and row_of(node.op).kind == "view":
                given = [None if v is None else carried(v) for v in node.inputs]
                again = Node(node.op, given, [], node.attrs)
                for v in node.outputs:
                    copy = Value(v.name, v.dtype, v.shape, "node", producer=again)
                    again.outputs.append(copy)
                    inputs[v] = copy
                views.append(again)
                return inputs[value]
            if node is None:
                inputs[value] = value
            else:
                inputs[value] = Value(value.name, value.dtype, value.shape, "input")
                if value not in results:
                    self.saved.append(value)
            behind.main.inputs.append(inputs[value])
            return inputs[value]

        behind_nodes = set(behind.main.nodes)
        for node in behind.main.nodes:
            node.inputs = [None if v is None else carried(v) for v in node.inputs]
        behind.main.outputs = [carried(v) for v in found]
        behind.main.nodes = views + behind.main.nodes
        block.outputs = [*ahead, *self.saved]
        self._carried = [inputs[v] for v in self.saved]
        self._results = {inputs[v]: i for i, v in enumerate(results) if v in inputs}
        return behind

    # -- running ----------------------------------------------------------------------
    def run(self, tensors: Sequence[Any]) -> list[Any]:
        """The leaves of the function's result for these arguments."""
        recording = self.recording
        numbers = recording.numbers.draw()
        inputs = [
            tensors[s] if type(s) is int else s.read()  # type: ignore[union-attr]
            for s in self._fixed
        ]
        made: list[Any] = self.forward.engine.run_tensors(inputs, numbers)
        count = len(recording.results)
        results, rest = made[:count], made[count:]
        for p, value in recording.grads:
            p.grad = None if value is None else rest.pop(0)
        if self.backward is not None:
            self._note(tensors, results, rest, numbers)
        return results

    def _note(
        self,
        tensors: Sequence[Any],
        results: list[Any],
        saved: list[Any],
        numbers: list[float],
    ) -> None:
        """Put the call on the tape as one node."""
        recording, backward = self.recording, self.backward
        assert backward is not None
        kept = dict(zip(self._carried, saved, strict=True))
        for value, i in self._results.items():
            # Without its place on the tape: the node would keep itself alive.
            kept[value] = results[i].detach()
        read = [self._at_backward(v, tensors, kept) for v in backward.inputs]
        versions = [None if t is None else t.inplace_version for t in read]
        holes = [recording.seeds.get(v) for v in backward.inputs]
        roots = list(recording.seeds.values())

        def run(*grads: Any) -> Any:
            if _core.is_grad_enabled():
                raise UnimplementedError(
                    "[to_static] gradients of gradients must be had without to_static, "
                    "got create_graph=True"
                )
            now = [None if t is None else t.inplace_version for t in read]
            if now != versions:
                raise PreconditionNotMetError(
                    "[backward] a tensor that a recorded function's backward reads "
                    "must not change in place before it, got another version"
                )
            given = dict(zip(roots, grads, strict=True))
            inputs = [
                t if hole is None else given[hole]
                for t, hole in zip(read, holes, strict=True)
            ]
            made = iter(backward.engine.run_tensors(inputs, numbers))
            return tuple(
                None if value is None else next(made) for _, value in recording.wanted
            )

        wanted = [self._tensor_of(v, tensors) for v, _ in recording.wanted]
        outputs = [results[i] for i in roots]
        _core.record_custom("to_static", wanted, outputs, run, True, True)

    def _tensor_of(self, value: Value, tensors: Sequence[Any]) -> Any:
        source = self._source(value)
        return tensors[source] if isinstance(source, int) else source.read()

    def _at_backward(
        self, value: Value, tensors: Sequence[Any], kept: dict[Value, Any]
    ) -> Any:
        if value in self.recording.seeds:
            return None
        if value in kept:
            return kept[value]
        return self._tensor_of(value, tensors)


def _needed(block: Block, outputs: Sequence[Value]) -> set[Node]:
    """The nodes that these outputs follow from."""
    needed, nodes = set(outputs), set()
    for node in reversed(block.nodes):
        if not needed.isdisjoint(node.outputs):
            nodes.add(node)
            needed.update(v for v in node.inputs if v is not None)
    return nodes
