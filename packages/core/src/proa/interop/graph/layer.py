"""A graph as a Layer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from proa.errors import InvalidArgumentError
from proa.interop.graph.node import Graph, Info, Node
from proa.interop.graph.run import Scope, computed
from proa.interop.graph.table import Table
from proa.interop.graph.values import Array, as_tensor, constant, is_sizes
from proa.jit import InputSpec
from proa.nn import Layer
from proa.tensor.parameter import Parameter

#: Integers of more elements than this are buffers; fewer are constants of the graph.
_FEW = 64


class GraphLayer(Layer):
    """A model's graph; its weights are parameters under the names that they have.

    Characters other than letters, digits and ``_`` in names become ``_``. Batch
    normalisation uses the statistics of the file, which are buffers.

    Args:
        graph: The graph, which is the Layer's from now on.
        fixed: Values of inputs that the Layer does not take.

    Attributes:
        table: The rows that compute the graph; a class has its framework's.
        inputs, outputs: Names, dtypes and shapes as the model says them.
    """

    table: ClassVar[Table]

    def __init__(self, graph: Graph, fixed: Mapping[str, Array]) -> None:
        super().__init__()
        self._fix(graph, fixed)
        given = [info for info in graph.inputs if info.name not in graph.initializers]
        rest = [info for info in graph.inputs if info.name in graph.initializers]
        graph.inputs = given + rest
        self.inputs, self.outputs = given, graph.outputs
        self._graph = graph
        self._plain: dict[int, dict[str, Any]] = {
            id(graph): {name: constant(array) for name, array in fixed.items()}
        }
        self._held: dict[int, dict[str, str]] = {}
        uses = _uses(graph)
        for inner in graph.walk():
            self._add_constants(inner, uses)
        self._fold()

    def _fix(self, graph: Graph, fixed: Mapping[str, Array]) -> None:
        names = [info.name for info in graph.inputs]
        unknown = [name for name in fixed if name not in names]
        if unknown:
            raise InvalidArgumentError(
                f"[{self.table.api}.load] expected fixed inputs among {names}, got "
                f"{unknown}"
            )
        graph.inputs = [info for info in graph.inputs if info.name not in fixed]
        for name in fixed:
            graph.initializers.pop(name, None)

    def _add_constants(self, graph: Graph, uses: dict[str, list[_Use]]) -> None:
        plain = self._plain.setdefault(id(graph), {})
        held = self._held.setdefault(id(graph), {})
        arrays: dict[str, Any] = {**graph.initializers}
        graph.initializers = dict.fromkeys(graph.initializers)  # the tensors hold them
        for name, array in arrays.items():
            kind = _kind_of(array, uses.get(name, []))
            value = constant(array, owned=True)
            if kind == "constant":
                plain[name] = value
            else:
                held[name] = self._add(name, value, kind)

    def _add(self, name: str, value: Any, kind: str) -> str:
        """The name under which a tensor is registered."""
        base = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
        base = base if not base[0].isdigit() else f"_{base}"
        key, count = base, 0
        while key in self._parameters or key in self._buffers or hasattr(self, key):
            count += 1
            key = f"{base}_{count}"
        if kind == "parameter":
            self.add_parameter(key, Parameter(value))
        else:
            self.register_buffer(key, value)
        return key

    def _fold(self) -> None:
        """Compute once what follows from constants alone, in each graph of its own."""
        scope = Scope(self._graph, self.table, self._plain)
        for graph in list(self._graph.walk()):
            plain, remaining = self._plain[id(graph)], []
            for node in graph.nodes:
                names = [n for n in node.inputs if n]
                folds = node.row is not None and node.row.folds
                if (
                    not folds
                    or any(node.graphs())
                    or any(n not in plain for n in names)
                ):
                    remaining.append(node)
                    continue
                inputs = [plain[n] if n else None for n in node.inputs]
                outputs = computed(node, scope, inputs)
                plain.update(zip(node.outputs, outputs, strict=False))
            graph.nodes = remaining

    @property
    def _output_names(self) -> list[str]:
        """What `jit.save` calls the outputs: what the model calls them."""
        return [info.name for info in self.outputs]

    @property
    def input_spec(self) -> list[InputSpec]:
        """What `jit.save` needs to know of the inputs, as the model says it."""
        return self.specs({})

    def specs(self, shapes: Mapping[str, Sequence[int]]) -> list[InputSpec]:
        """`input_spec` with the shapes of some inputs in place of the model's."""
        names = [info.name for info in self.inputs]
        unknown = [name for name in shapes if name not in names]
        if unknown:
            raise InvalidArgumentError(
                f"[{self.table.api}] expected shapes of inputs among {names}, got "
                f"{unknown}"
            )
        found = []
        for info in self.inputs:
            shape = shapes.get(info.name, info.shape)
            if info.dtype is None or shape is None or info.kind != "tensor":
                raise InvalidArgumentError(
                    f"[{self.table.api}] expected a tensor of known dtype and rank as "
                    f"input {info.name!r}, got {info.kind} {info.dtype} {shape}"
                )
            found.append(InputSpec(list(shape), info.dtype, info.name))
        return found

    def forward(self, *inputs: Any) -> Any:
        """The model's outputs: one, or a tuple of them."""
        needed = [i.name for i in self.inputs if i.kind != "optional"]
        if len(inputs) < len(needed):
            raise InvalidArgumentError(
                f"[{self.table.api}] expected {len(self.inputs)} inputs {needed}, got "
                f"{len(inputs)}"
            )
        constants = {
            at: {**self._plain[at], **{n: getattr(self, k) for n, k in held.items()}}
            for at, held in self._held.items()
        }
        found = Scope(self._graph, self.table, constants, training=self.training).run(
            inputs
        )
        results = tuple(map(_result, found, self.outputs))
        return results[0] if len(results) == 1 else results

    def __deepcopy__(self, memo: dict[int, object]) -> Any:
        memo[id(self._graph)] = self._graph  # never changed, and known by its id
        memo.update({id(g): g for g in self._graph.walk()})
        return super().__deepcopy__(memo)

    def extra_repr(self) -> str:
        """The names of inputs and outputs."""
        names = [
            ", ".join(i.name for i in group) for group in (self.inputs, self.outputs)
        ]
        return f"{names[0]} -> {names[1]}"


def _result(value: Any, info: Info) -> Any:
    """An output as a tensor; sizes have the dtype that the model says."""
    found = as_tensor(value)
    return found.astype(info.dtype or "int64") if is_sizes(value) else found


_Use = tuple[Node, int]


def _uses(graph: Graph) -> dict[str, list[_Use]]:
    """The nodes that read each name, with the input's position."""
    found: dict[str, list[_Use]] = {}
    for inner in graph.walk():
        for node in inner.nodes:
            for at, name in enumerate(node.inputs):
                found.setdefault(name, []).append((node, at))
    return found


def _kind_of(array: Array, uses: list[_Use]) -> str:
    """Whether an array of constants is a parameter, buffer or constant."""
    if array.dtype.kind not in "fiub" or any(at in node.host for node, at in uses):
        return "constant"
    if array.dtype.kind != "f":
        return "buffer" if array.size > _FEW else "constant"
    if any(at in node.state for node, at in uses):
        return "buffer"
    if array.size > 1 or any(at in node.weights for node, at in uses):
        return "parameter"
    return "constant"
