"""One way of running a static program: for given fetches and shapes of what is fed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proa import _core
from proa._core import Tensor
from proa.errors import Error, InvalidArgumentError, PreconditionNotMetError
from proa.ir.attributes import row_of
from proa.ir.flow import has_flow, is_flow, outline
from proa.ir.passes import apply
from proa.ir.program import Node, Value
from proa.ir.program import Program as Graph
from proa.ir.record import to_tensor
from proa.ir.shapes import infer
from proa.static.program import Program
from proa.static.recorder import DRAWN
from proa.static.scope import Scope, ScopeVariable
from proa.static.stages import Stages, keep_lines
from proa.static.symbolic_sizes import size_of


@dataclass
class Request:
    """What a run is to give.

    Attributes:
        fed: Names of what is fed, each with its dtype and shape.
        fetched: Names of the Variables to fetch.
        nodes: Operators to run for their effect; None means all.
    """

    fed: dict[str, tuple[str, tuple[int, ...]]]
    fetched: list[str]
    nodes: set[Node] | None = None


@dataclass
class _Numbers:
    """Values that differ between runs: keys, learning rates, numbers of steps.

    Attributes:
        total: Counters of the generator that a run takes.
        offsets: Offset of each draw from the first.
        rates: Give the learning rates.
        counters: Names of the counters of steps.
        uses: (node, attribute, number of the slot).
    """

    total: int = 0
    offsets: list[int] = field(default_factory=list)
    rates: list[Callable[[], float]] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    uses: list[tuple[Node, str, int]] = field(default_factory=list)

    def draw(self, seed: int) -> list[float]:
        """The generator's seed and the offset of each draw of the next run."""
        if not self.total:
            return [0, *self.offsets]
        if seed:
            return [seed, *self.offsets]
        seed, first = _core.generator_get()
        _core.generator_set(seed, first + self.total)
        return [seed, *[first + offset for offset in self.offsets]]


class Plan:
    """Runs a part of a program.

    Args:
        program: The program.
        request: What a run is to give.

    Raises:
        InvalidArgumentError: If an input that the part needs is not fed, or is not of
            its dtype and shape.
        NotFoundError: If a Variable to fetch does not exist.
    """

    def __init__(self, program: Program, request: Request) -> None:
        self.program = program  # which has its id as long as this lasts
        values: dict[Value, Value] = {}
        self._nodes: dict[Node, Node] = {}
        graph = program.graph.copy(values, self._nodes)
        keep_lines(self._nodes)
        _check_fed(program, request)
        stores = self._make_outputs(program, request, graph, values)
        shapes = _SymbolicShapes(program, self._nodes, values)
        if has_flow(graph) or program.symbolic_shapes:
            _specialize(graph, request, shapes, strict=False)
        if has_flow(graph):
            outline(graph)
        overwritten = [first for _, first in stores]
        _prune(graph, overwritten)
        _specialize(graph, request, shapes)
        self._check_inputs(program, graph, request)
        self._numbers = self._make_numbers(program, graph, shapes)
        self._bound: tuple[Scope | None, int, list[ScopeVariable]] = (None, 0, [])
        self._stages = Stages(graph, overwritten, self._numbers.uses)
        inputs, names = self._stages.inputs, list(request.fed)
        self._fed = [(i, names.index(v.name)) for i, v in enumerate(inputs)
                     if v.name in request.fed]  # fmt: skip
        self._held = [(i, v.name) for i, v in enumerate(inputs)
                      if v.name not in request.fed]  # fmt: skip

    # -- making it --------------------------------------------------------------------
    def _make_outputs(
        self,
        program: Program,
        request: Request,
        graph: Graph,
        values: dict[Value, Value],
    ) -> list[tuple[Value, Value]]:
        """Set what the graph gives: fetches that it computes, then stores.

        Returns:
            (new value, input that it overwrites) of each store.
        """
        names = list(request.fed)
        results: dict[Value, int] = {}
        #: (kind, what) of every fetch.
        self._results: list[tuple[str, Any]] = []
        for name in request.fetched:
            variable = program.find(name, "Executor.run")
            value = values.get(variable._handle[1])
            own = variable.name
            if variable.persistable:
                self._results.append(("held", own))
            elif own in names:
                self._results.append(("fed", names.index(own)))
            elif value is None or value.is_constant or value.kind == "input":
                source = variable._handle[1]
                if source.data is None:
                    raise InvalidArgumentError(
                        f"[Executor.run] expected {own!r} in feed, got none"
                    )
                held = to_tensor(source.data, source.dtype)
                self._results.append(("constant", held))
            else:
                self._results.append(("made", results.setdefault(value, len(results))))
        stores = _stores(program, request, [*results], values)
        graph.main.outputs = [*results, *(new for new, _ in stores)]
        return stores

    def _check_inputs(self, program: Program, graph: Graph, request: Request) -> None:
        missing = [
            v.name
            for v in graph.main.inputs
            if v.name in program.data and v.name not in request.fed
        ]
        if missing:
            raise InvalidArgumentError(
                f"[Executor.run] expected {missing} in feed, on which fetches or "
                f"updates depend, got {list(request.fed) or 'nothing'}"
            )

    def _make_numbers(
        self, program: Program, graph: Graph, shapes: _SymbolicShapes
    ) -> _Numbers:
        numbers = _Numbers()
        present = set(graph.nodes())
        drawn: dict[int, int] = {}
        for node in graph.nodes():
            if node.attrs.get("seed") != DRAWN or not row_of(node.op).random:
                continue
            numbers.uses.append((node, "seed", 0))
            k = node.attrs["offset"]
            if k not in drawn:
                drawn[k] = _count_of(shapes.size(program.draws[k]), node)
        slots: dict[int, int] = {}
        for k in sorted(drawn):
            slots[k] = 1 + len(numbers.offsets)
            numbers.offsets.append(numbers.total)
            numbers.total += (drawn[k] + 3) // 4 if drawn[k] > 4 else 1
        for node, _, _ in list(numbers.uses):
            numbers.uses.append((node, "offset", slots[node.attrs["offset"]]))
        known: dict[Any, int] = {}
        base = 1 + len(numbers.offsets)
        for source, rate, alike in program.rates:
            node = self._nodes[source]
            if node in present:
                if alike not in known:
                    known[alike] = base + len(numbers.rates)
                    numbers.rates.append(rate)
                numbers.uses.append((node, "lr", known[alike]))
        base += len(numbers.rates)
        for source, counter in program.counts:
            node = self._nodes[source]
            if node in present:
                if counter not in numbers.counters:
                    numbers.counters.append(counter)
                slot = base + numbers.counters.index(counter)
                numbers.uses.append((node, "step", slot))
        return numbers

    @property
    def bytes(self) -> int:
        """The memory that the plan takes."""
        return self._stages.bytes

    # -- running it -------------------------------------------------------------------
    def run(self, fed: Sequence[Tensor], scope: Scope) -> list[Tensor]:
        """The fetched values; states are updated in the scope.

        Args:
            fed: One for each name of the request's `fed`.
            scope: Where states are.
        """
        inputs: list[Any] = [None] * (len(self._fed) + len(self._held))
        for i, number in self._fed:
            inputs[i] = fed[number]
        for (i, _), variable in zip(self._held, self._variables(scope), strict=False):
            inputs[i] = variable.tensor
        numbers = self._numbers.draw(self.program.random_seed)
        numbers += [rate() for rate in self._numbers.rates]
        for name in self._numbers.counters:
            numbers.append(_counted(scope, name))
        result = self._stages.run(inputs, numbers)
        return [self._result(kind, what, result, fed, scope)
                for kind, what in self._results]  # fmt: skip

    def _variables(self, scope: Scope) -> list[ScopeVariable]:
        held, change, found = self._bound
        if held is scope and change == Scope.changes:
            return found
        found = [_held(scope, name) for _, name in self._held]
        self._bound = (scope, Scope.changes, found)
        return found

    @staticmethod
    def _result(
        kind: str, what: Any, results: list[Any], fed: Sequence[Tensor], scope: Scope
    ) -> Any:
        if kind == "made":
            return results[what]
        if kind == "fed":
            return fed[what].detach().clone()
        if kind == "held":
            return _held(scope, what).tensor.detach().clone()  # type: ignore[union-attr]
        return what.clone()


def _held(scope: Scope, name: str) -> ScopeVariable:
    found = scope.find_var(name)
    if found is None or found.tensor is None:
        raise PreconditionNotMetError(
            f"[Executor.run] expected {name!r} in the scope: run the startup program "
            "first, got nothing there"
        )
    return found


def _counted(scope: Scope, name: str) -> int:
    """The number of a step, which is counted here."""
    tensor = _held(scope, name).tensor
    assert tensor is not None
    array = tensor.numpy()
    array[0] += 1
    return int(array[0])


class _SymbolicShapes:
    """Sizes that were unknown when the program was built.

    Args:
        program: The program.
        nodes: Its nodes -> those of a graph whose shapes become known.
        values: The same of values.
    """

    def __init__(
        self, program: Program, nodes: dict[Node, Node], values: dict[Value, Value]
    ) -> None:
        self._values, self._origins = values, program.origins
        self._shapes = {
            nodes[n]: shape
            for n, shape in program.symbolic_shapes.items()
            if n in nodes
        }

    def size(self, size: Any) -> int:
        """The size, or -1 if it is still unknown."""
        return size_of(size, self._shape_of)

    def _shape_of(self, value: Value) -> tuple[int, ...]:
        own = self._origins.get(value, value)
        return self._values.get(own, own).shape

    def settle(self, node: Node) -> None:
        """Let a node have the shape that it gives as its attribute."""
        if node in self._shapes:
            node.attrs["shape"] = tuple(self.size(n) for n in self._shapes[node])


def _count_of(known: int, node: Node) -> int:
    """How many numbers an operator draws: the count that was noted, if all sizes of it
    are known, else that of its largest array.
    """
    if known >= 0:
        return known
    sizes = []
    for value in (*node.inputs, *node.outputs):
        if value is not None:
            size = 1
            for n in value.shape:
                size *= n
            sizes.append(size)
    return max(sizes)


def _stores(
    program: Program,
    request: Request,
    fetched: list[Value],
    values: Mapping[Value, Value],
) -> list[tuple[Value, Value]]:
    """(new value, input that it overwrites) of the states that a run changes."""
    computed = None
    if request.nodes is not None:
        computed = {v for n in request.nodes for v in n.outputs}
        computed |= _always_computed(program, request)
    found = []
    for name, first in program.states.items():
        last = program.vars[name]._handle[1]
        if last is not first and (computed is None or last in computed):
            found.append((values[last], values[first]))
    return found


def _always_computed(program: Program, request: Request) -> set[Value]:
    """New values of states that forward nodes make of what is fetched anyway, as batch
    normalization makes statistics.
    """
    needed: set[Any] = {
        program.find(name, "Executor.run")._handle[1] for name in request.fetched
    }
    for node in request.nodes or ():
        needed.update(node.outputs)
    for node in reversed(program.graph.main.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.outputs)
            needed.update(node.inputs)
    states = set(program.states.values())
    return {
        value
        for node in program.graph.main.nodes
        if node not in program.roles and row_of(node.op).mutates
        and all(v is None or v in needed or v in states for v in node.inputs)
        for value in node.outputs
    }  # fmt: skip


def _prune(graph: Graph, overwritten: Sequence[Value]) -> None:
    """Take out what no output follows from, but for inputs that are overwritten."""
    apply(graph, ["remove_dead_code"])
    read = {v for n in graph.main.nodes for v in n.inputs} | {*graph.main.outputs}
    read.update(overwritten)
    graph.main.inputs = [v for v in graph.main.inputs if v in read]


def _specialize(
    graph: Graph, request: Request, shapes: _SymbolicShapes, strict: bool = True
) -> None:
    """Let shapes be those of what is fed.

    Unless it is strict, what does not fit them may be left: no fetch may need it.
    """
    for value in graph.main.inputs:
        if value.name in request.fed:
            value.shape = request.fed[value.name][1]
    for node in graph.main.nodes:
        if is_flow(node):
            return  # what follows may have other shapes in every run
        shapes.settle(node)
        try:
            specs = infer(node.op, node.inputs, node.attrs)
        except Error:
            if strict:
                raise
            continue
        for value, (_, shape) in zip(node.outputs, specs, strict=True):
            value.shape = shape


def _check_fed(program: Program, request: Request) -> None:
    for name, (dtype, shape) in request.fed.items():
        value = program.data.get(name) or program.states.get(name)
        if value is None:
            continue
        if dtype != value.dtype:
            raise InvalidArgumentError(
                f"[Executor.run] {name!r} must be fed {value.dtype}, got {dtype}"
            )
        pairs = zip(shape, value.shape, strict=False)
        if len(shape) != len(value.shape) or any(n not in (m, -1)[::-1] and m != -1
                                                 for n, m in pairs):  # fmt: skip
            raise InvalidArgumentError(
                f"[Executor.run] {name!r} must be fed shape {list(value.shape)}, got "
                f"{list(shape)}"
            )
