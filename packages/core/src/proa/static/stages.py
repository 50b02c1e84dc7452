"""A plan's graph as engines: one, or several where branches and loops meet updates.

An engine either changes arrays in place or has branches and loops. A graph with both is
parted: what changes nothing becomes one engine as far as it goes, and each block with
updates another. A branch or loop whose bodies update arrays is interpreted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from proa import _core
from proa._core import Tensor
from proa.ir import to_bytes
from proa.ir.attributes import row_of
from proa.ir.flow import bodies_of, has_flow, outline
from proa.ir.passes import PASSES, apply, chain_spans
from proa.ir.passes.hoist_updates import storage_owners
from proa.ir.program import Block, Node, Value
from proa.ir.program import Program as Graph
from proa.ir.record import to_tensor
from proa.jit.compiled import STEP_PASSES, lines_noted, needed_nodes
from proa.jit.interpreter import interpret
from proa.jit.runtime_scalars import byte_of

#: A node's attribute that every run sets, and which of the run's numbers it is.
NumberUse = tuple[Node, str, int]
#: For each output that overwrites an input: that input.
Stores = Mapping[Value, Value]


class _Stage(Protocol):
    """A part of the graph.

    Attributes:
        inputs, outputs: The graph's values that it takes and gives.
    """

    inputs: list[Value]
    outputs: list[Value]

    def run(self, tensors: Sequence[Tensor], numbers: Sequence[float]) -> list[Tensor]:
        """The outputs; inputs that others overwrite are changed."""

    @property
    def bytes(self) -> int:
        """The memory that it takes."""


class _EngineStage:
    """A part that an engine runs.

    Args:
        graph: The part, which is changed.
        stores: Inputs that outputs overwrite; those outputs are not given.
        uses: Those of nodes of the part; others are left out.
        outer: The whole graph's value of each input of the part.
        outputs: The whole graph's values of outputs that are given.
    """

    def __init__(
        self,
        graph: Graph,
        stores: Stores,
        uses: Sequence[NumberUse],
        outer: Mapping[Value, Value],
        outputs: list[Value],
    ) -> None:
        block, slots = graph.main, [stores.get(v) for v in graph.main.outputs]
        apply(graph, STEP_PASSES)
        apply(graph, ["fuse_batch_norm_relu_grad", "split_batch_norm"])
        if not has_flow(graph):
            needed = needed_nodes(block, block.outputs)
            block.nodes = [n for n in block.nodes if n in needed]
        PASSES["hoist_updates"].run(graph)
        apply(graph, ["chain_elementwise"])
        read = {v for n in block.nodes for v in n.inputs}
        read.update(block.outputs, slots)
        block.inputs = [v for v in block.inputs if v in read]
        at = {v: i for i, v in enumerate(block.inputs)}
        places = {node: i for i, node in enumerate(graph.nodes())}
        self._engine = _core.Engine.with_updates(
            to_bytes(graph),
            [-1 if v is None else at[v] for v in slots],
            [(places[n], byte_of(n, name), k) for n, name, k in uses if n in places],
            None,
            0,
            chain_spans(graph),
        )
        self._graph = graph
        self.inputs, self.outputs = [outer[v] for v in block.inputs], outputs

    def run(self, tensors: Sequence[Tensor], numbers: Sequence[float]) -> list[Tensor]:
        with lines_noted(self._graph):
            results: list[Tensor] = self._engine.run_tensors(tensors, numbers)
        return results

    @property
    def bytes(self) -> int:
        return int(self._engine.model_bytes + self._engine.arena_bytes)


class _InterpretedStage:
    """A part that is run node by node, on copies of what it may change."""

    def __init__(
        self,
        graph: Graph,
        uses: Sequence[NumberUse],
        outer: Mapping[Value, Value],
        outputs: list[Value],
    ) -> None:
        present = set(graph.nodes())
        self._graph = graph
        self._uses = [use for use in uses if use[0] in present]
        self._constants = {v: _constant(v) for v in graph.constants()}
        self.inputs, self.outputs = [outer[v] for v in graph.main.inputs], outputs

    def run(self, tensors: Sequence[Tensor], numbers: Sequence[float]) -> list[Tensor]:
        for node, name, slot in self._uses:
            node.attrs[name] = numbers[slot]
        copies = [t.detach().clone() for t in tensors]
        result = interpret(self._graph, self._constants, copies, keyed=True)
        return [t.detach() for t in result]

    @property
    def bytes(self) -> int:
        return 0


class Stages:
    """Runs a graph.

    Args:
        graph: The graph, with branches and loops as recorded; it is changed.
        stores: The inputs that its last outputs overwrite, in their order.
        uses: Attributes that runs set.

    Attributes:
        inputs: The inputs that are read.
    """

    def __init__(
        self, graph: Graph, stores: Sequence[Value], uses: Sequence[NumberUse]
    ) -> None:
        main = graph.main
        self._given = main.outputs[: len(main.outputs) - len(stores)]
        new = main.outputs[len(self._given) :]
        self._copied: list[tuple[Value, Value]] = []
        self._stages: list[_Stage] = []
        if not main.nodes:
            self._copied = list(zip(new, stores, strict=True))
        elif not has_flow(graph):
            outer = {v: v for v in main.inputs}
            self._stages.append(
                _EngineStage(graph, dict(zip(new, stores, strict=True)), uses, outer,
                          self._given)
            )  # fmt: skip
        else:
            outline(graph)
            self._part(graph, dict(zip(new, stores, strict=True)), uses)
        self._constants = {v: _constant(v) for v in main.constants()}
        read = {v for stage in self._stages for v in stage.inputs}
        read.update(self._given, *self._copied)
        self.inputs = [v for v in main.inputs if v in read]
        #: Whether a run is no more than that of the only stage.
        self._is_one = False
        if len(self._stages) == 1 and not self._copied:
            (stage,) = self._stages
            self._is_one = stage.outputs == self._given
            self.inputs = stage.inputs if self._is_one else self.inputs

    def _part(
        self, graph: Graph, stores: dict[Value, Value], uses: Sequence[NumberUse]
    ) -> None:
        for nodes in _parts(graph):
            later = _read_after(graph, nodes[-1], self._given)
            own = _own_stores(graph, nodes, stores, later)
            for value in own or ():
                del stores[value]
            part = _Part(graph, nodes, uses)
            self._stages.append(part.stage(later | {*stores}, own))
        self._copied = list(stores.items())

    @property
    def bytes(self) -> int:
        """The memory that the engines take."""
        return sum(stage.bytes for stage in self._stages)

    def run(self, tensors: Sequence[Tensor], numbers: Sequence[float]) -> list[Tensor]:
        """The outputs that overwrite nothing; the other ones are stored."""
        if self._is_one:
            return self._stages[0].run(tensors, numbers)
        known = {**self._constants, **dict(zip(self.inputs, tensors, strict=True))}
        for stage in self._stages:
            result = stage.run([known[v] for v in stage.inputs], numbers)
            known.update(zip(stage.outputs, result, strict=True))
        given = [known[v] for v in self._given]
        copies = [
            (known[to], known[v].clone() if v.kind == "input" else known[v])
            for v, to in self._copied
        ]
        for state, value in copies:
            state[...] = value
        return given


class _Part:
    """A copy of some of the directing nodes of a graph, as a graph of its own."""

    def __init__(
        self, graph: Graph, nodes: Sequence[Node], uses: Sequence[NumberUse]
    ) -> None:
        self._values: dict[Value, Value] = {}
        copies: dict[Node, Node] = {}
        self._graph, self._nodes = graph.copy(self._values, copies), nodes
        keep_lines(copies)
        self._uses = [(copies[n], name, slot) for n, name, slot in uses]
        self._copies = [copies[n] for n in nodes]

    def stage(self, read: set[Value], stores: Stores | None) -> _Stage:
        """What runs the part.

        Args:
            read: The values of the whole graph that others read.
            stores: What the part stores itself; None if it is to be interpreted.
        """
        first, graph = self._nodes[0], self._graph
        if stores:  # one block, which is a graph without others
            block = graph.blocks[first.attrs["block"]]
            graph.blocks = [block]
            result = dict(zip(first.outputs, block.outputs, strict=True))
            taken = dict(zip(first.inputs, block.inputs, strict=True))
        else:
            block = graph.main
            result = {v: self._values[v] for n in self._nodes for v in n.outputs}
            taken = self._take(block)
        given = [v for v in result if v in read]
        block.outputs = [result[v] for v in (*given, *(stores or ()))]
        outer = {inner: v for v, inner in taken.items() if v is not None}
        if stores is None:
            return _InterpretedStage(graph, self._uses, outer, given)
        inside = {result[v]: taken[to] for v, to in stores.items()}
        return _EngineStage(graph, inside, self._uses, outer, given)

    def _take(self, block: Block) -> dict[Value | None, Value]:
        """Leave a block the part's nodes, whose inputs from others become its own."""
        results = {v for n in self._nodes for v in n.outputs}
        block.nodes = self._copies
        taken: dict[Value | None, Value] = {}
        for v in dict.fromkeys(v for n in self._nodes for v in n.inputs):
            if v is None or v.is_constant or v in results:
                continue
            taken[v] = Value(v.name, v.dtype, v.shape, "input")
            block.replace(self._values[v], taken[v])
        block.inputs = list(taken.values())
        outline(self._graph)  # leaves out the blocks of other nodes
        return taken


def keep_lines(copies: Mapping[Node, Node]) -> None:
    """Let copies of nodes name the lines that recorded those in errors of runs."""
    for node, copy in copies.items():
        copy.location = node.location


def _constant(value: Value) -> Tensor:
    assert value.data is not None
    tensor: Tensor = to_tensor(value.data, value.dtype)
    return tensor


def _updates(graph: Graph, node: Node) -> bool:
    """Whether a node, or one in the blocks that it names, changes an array."""
    blocks = [graph.blocks[i] for i in bodies_of(node).values()]
    return row_of(node.op).mutates or any(
        _updates(graph, n) for b in blocks for n in b.nodes
    )


def _parts(graph: Graph) -> Iterator[list[Node]]:
    """The directing nodes: each that updates arrays alone, others with their like."""
    run: list[Node] = []
    for node in graph.main.nodes:
        if not _updates(graph, node):
            run.append(node)
            continue
        if run:
            yield run
        yield [node]
        run = []
    if run:
        yield run


def _read_after(graph: Graph, last: Node, given: Sequence[Value]) -> set[Value]:
    """The values that nodes after one read, and those that the graph gives."""
    nodes = graph.main.nodes
    rest = nodes[nodes.index(last) + 1 :]
    return {v for n in rest for v in n.inputs if v is not None} | {*given}


def _own_stores(
    graph: Graph, nodes: Sequence[Node], stores: Stores, later: set[Value]
) -> dict[Value, Value] | None:
    """The stores that a part makes in place; None if it changes other arrays, too."""
    node = nodes[0]
    if not _updates(graph, node):
        return {}
    if node.op != "call":
        return None
    found = {
        v: to
        for v, to in stores.items()
        if v in node.outputs and to in node.inputs and later.isdisjoint((v, to))
    }
    block = graph.blocks[node.attrs["block"]]
    outer = dict(zip(block.inputs, node.inputs, strict=True))
    stored, owners = {*found.values()}, storage_owners(block)
    changed = {
        outer[owners[v]]
        for n in block.nodes
        if row_of(n.op).mutates
        for v in n.outputs
        if owners.get(v) in outer
    }
    return found if changed <= stored else None
