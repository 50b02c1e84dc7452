"""An ONNX model as a Layer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from proa.errors import InvalidArgumentError
from proa.jit import InputSpec
from proa.nn import Layer
from proa.onnx.graph import Graph
from proa.onnx.run import Scope, computed
from proa.onnx.table import Row
from proa.onnx.values import Array, as_tensor, constant
from proa.tensor.parameter import Parameter

#: Integers of more elements than this are buffers; fewer are constants of the graph.
_FEW = 64


class OnnxGraph(Layer):
    """The model's graph; its weights are parameters under the names that they have.

    Characters other than letters, digits and ``_`` in names become ``_``. Batch
    normalisation uses the statistics of the file, which are buffers.

    Attributes:
        inputs, outputs: Names, dtypes and shapes as the model says them.
    """

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
                f"[onnx.load] expected fixed inputs among {names}, got {unknown}"
            )
        graph.inputs = [info for info in graph.inputs if info.name not in fixed]
        for name in fixed:
            graph.initializers.pop(name, None)

    def _add_constants(self, graph: Graph, uses: dict[str, list[_Use]]) -> None:
        plain = self._plain.setdefault(id(graph), {})
        held = self._held.setdefault(id(graph), {})
        arrays: dict[str, Any] = {**graph.initializers}
        graph.initializers = dict.fromkeys(graph.initializers)  # the tensors hold them
        for node in graph.nodes:
            value = node.attributes.get("value")
            if node.op == "Constant" and not node.domain and value is not None:
                arrays[node.outputs[0]] = node.attributes.pop("value")
        for name, array in arrays.items():
            kind = _kind_of(array, uses.get(name, []))
            value = constant(array, owned=True)
            if kind == "constant":
                plain[name] = value
            else:
                held[name] = self._add(name, value, kind)
        graph.nodes = [
            n for n in graph.nodes
            if n.op != "Constant" or n.domain or n.outputs[0] not in arrays
        ]  # fmt: skip

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
        """Compute once what follows from constants alone."""
        plain = self._plain[id(self._graph)]
        scope, kept = Scope(self._graph, self._plain), []
        for node in self._graph.nodes:
            names = [n for n in node.inputs if n]
            folds = node.row is not None and node.row.folds and not any(node.graphs())
            if not folds or not names or any(n not in plain for n in names):
                kept.append(node)
                continue
            inputs = [plain[n] if n else None for n in node.inputs]
            outputs = computed(node, scope, inputs)
            plain.update(zip(node.outputs, outputs, strict=False))
        self._graph.nodes = kept

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
                f"[onnx] expected shapes of inputs among {names}, got {unknown}"
            )
        found = []
        for info in self.inputs:
            shape = shapes.get(info.name, info.shape)
            if info.dtype is None or shape is None or info.kind != "tensor":
                raise InvalidArgumentError(
                    f"[onnx] expected a tensor of known dtype and rank as input "
                    f"{info.name!r}, got {info.kind} {info.dtype} {shape}"
                )
            found.append(InputSpec(list(shape), info.dtype, info.name))
        return found

    def forward(self, *inputs: Any) -> Any:
        """The model's outputs: one, or a tuple of them."""
        needed = [i.name for i in self.inputs if i.kind != "optional"]
        if len(inputs) < len(needed):
            raise InvalidArgumentError(
                f"[onnx] expected {len(self.inputs)} inputs {needed}, got {len(inputs)}"
            )
        constants = {
            at: {**self._plain[at], **{n: getattr(self, k) for n, k in held.items()}}
            for at, held in self._held.items()
        }
        found = Scope(self._graph, constants).run(inputs)
        results = tuple(as_tensor(value) for value in found)
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


_Use = tuple[Row | None, int]


def _uses(graph: Graph) -> dict[str, list[_Use]]:
    """The rows that read each name, with the input's position."""
    found: dict[str, list[_Use]] = {}
    for inner in graph.walk():
        for node in inner.nodes:
            for at, name in enumerate(node.inputs):
                found.setdefault(name, []).append((node.row, at))
    return found


def _kind_of(array: Array, uses: list[_Use]) -> str:
    """Whether an array of constants is a parameter, buffer or constant."""
    rows = [(row, at) for row, at in uses if row is not None]
    if array.dtype.kind not in "fiub" or any(at in row.host for row, at in rows):
        return "constant"
    if array.dtype.kind != "f":
        return "buffer" if array.size > _FEW else "constant"
    if any(at in row.state for row, at in rows):
        return "buffer"
    if array.size > 1 or any(at in row.weights for row, at in rows):
        return "parameter"
    return "constant"
