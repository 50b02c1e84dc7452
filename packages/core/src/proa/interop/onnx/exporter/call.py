"""What a row of the table is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from proa.interop.onnx.exporter.graph import Graph, Ref
from proa.interop.onnx.exporter.table import NotExpressibleError
from proa.ir.program import NUMPY_TYPES, Node, Value

#: Lowers another operator: its name, arrays and attributes.
Lower = Callable[[str, Sequence[Ref | None], dict[str, Any]], tuple[Ref, ...]]


class Call:
    """One operator to be written: what its results must be, and means to write nodes.

    Attributes:
        name: The operator's.
        outputs: The results' dtypes and shapes.
    """

    def __init__(
        self,
        graph: Graph,
        node: Node,
        lower: Lower,
        source: Mapping[Value, Value],
        refs: Mapping[Value, Ref],
    ) -> None:
        self.graph, self.name, self.outputs = graph, node.op, node.outputs
        self._node, self._lower = node, lower
        self._source, self._refs = source, refs

    def given(self, at: int) -> Value | None:
        """The program's value that is input `at`."""
        return self._node.inputs[at]

    def maker_of(self, value: Value | None) -> Node | None:
        """The program's node that made a value, also if in another block."""
        return None if value is None else self._source.get(value, value).producer

    def written(self, value: Value | None) -> Ref | None:
        """The array of a value that is made before this operator, or a constant."""
        return None if value is None else self._refs.get(self._source.get(value, value))

    @property
    def opset(self) -> int:
        """The opset that is written."""
        return self.graph.opset

    def refuse(self, why: str) -> NoReturn:
        """Say that no nodes do this."""
        raise NotExpressibleError(why)

    # -- nodes -----------------------------------------------------------------------
    def op(self, name: str, *inputs: Ref | None, dtype: str | None = None, **attrs: Any
           ) -> Ref:  # fmt: skip
        """A node with one output. Attributes that are None are left out."""
        return self.ops(name, 1, *inputs, dtype=dtype, **attrs)[0]

    def ops(
        self,
        name: str,
        count: int,
        *inputs: Ref | None,
        dtype: str | None = None,
        **attrs: Any,
    ) -> list[Ref]:
        """A node with several outputs."""
        given = {key: value for key, value in attrs.items() if value is not None}
        return self.graph.emit(name, inputs, given, count, dtype)

    def cast(self, x: Ref, dtype: str) -> Ref:
        """x in another dtype."""
        return self.graph.cast(x, dtype)

    def row(self, name: str, *inputs: Any, **attrs: Any) -> Any:
        """What another operator of Proa gives: an array, or a tuple. Numbers take the
        dtype of the arrays beside them.
        """
        refs = [i for i in inputs if isinstance(i, Ref)]
        dtype = next((r.dtype for r in refs if r.dtype != "bool"), "bool")
        given = [
            self.graph.number(i, dtype) if isinstance(i, (bool, int, float)) else i
            for i in inputs
        ]
        found = self._lower(name, given, attrs)
        return found[0] if len(found) == 1 else found

    # -- constants -------------------------------------------------------------------
    def const(self, data: Any, dtype: str) -> Ref:
        """A constant of a dtype other than bfloat16."""
        array = np.ascontiguousarray(data, NUMPY_TYPES[dtype]).reshape(np.shape(data))
        return self.graph.constant(array, dtype)

    def number(self, value: float, like: Ref) -> Ref:
        """A number of the array's dtype."""
        return self.graph.number(value, like.dtype)

    def ints(self, values: Sequence[int]) -> Ref:
        """A list of int64."""
        return self.const(np.array(values, np.int64), "int64")

    # -- sizes -----------------------------------------------------------------------
    def shape(self, x: Ref) -> Ref:
        """The sizes of all axes, int64."""
        if x.shape is not None and -1 not in x.shape:
            return self.ints(x.shape)
        known = self.graph.remembered(("shape", x.name))
        if known is not None:
            return known
        return self.graph.remember(("shape", x.name), self.op("Shape", x))

    def size(self, x: Ref, axis: int) -> int | Ref:
        """The size of an axis: a number, or a list of one int64."""
        axis %= x.rank
        assert x.shape is not None
        if x.shape[axis] >= 0:
            return x.shape[axis]
        key = ("size", x.name, axis)
        known = self.graph.remembered(key)
        if known is not None:
            return known
        found = self.op("Gather", self.shape(x), self.ints([axis]), axis=0)
        return self.graph.remember(key, found)

    def vector(self, sizes: Sequence[int | Ref]) -> Ref:
        """Sizes as one list of int64."""
        parts: list[Ref | list[int]] = []
        for size in sizes:
            if isinstance(size, Ref):
                parts.append(size)
            elif parts and isinstance(parts[-1], list):
                parts[-1].append(size)
            else:
                parts.append([size])
        refs = [p if isinstance(p, Ref) else self.ints(p) for p in parts]
        if not refs:
            return self.ints([])
        return refs[0] if len(refs) == 1 else self.op("Concat", *refs, axis=0)

    def product(self, sizes: Sequence[int | Ref]) -> int | Ref:
        """The product of sizes."""
        known = 1
        found: Ref | None = None
        for size in sizes:
            if isinstance(size, int):
                known *= size
            else:
                found = size if found is None else self.op("Mul", found, size)
        if found is None:
            return known
        return found if known == 1 else self.op("Mul", found, self.ints([known]))
