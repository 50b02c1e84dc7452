"""What a row of the table is called with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from proa.interop.exporter import call
from proa.interop.exporter.target import Ref
from proa.interop.onnx.exporter.graph import Graph
from proa.ir.program import NUMPY_TYPES, Node

if TYPE_CHECKING:
    from proa.interop.exporter.lowering import Lowering


class Call(call.Call):
    """One operator to be written as nodes of the standard.

    Attributes:
        graph: Where the nodes go.
    """

    def __init__(self, graph: Graph, node: Node, lowering: Lowering) -> None:
        super().__init__(node, lowering)
        self.graph = graph

    @property
    def opset(self) -> int:
        """The opset that is written."""
        return self.graph.opset

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

    # -- constants -------------------------------------------------------------------
    def const(self, data: Any, dtype: str) -> Ref:
        """A constant of a dtype other than bfloat16."""
        array = np.ascontiguousarray(data, NUMPY_TYPES[dtype]).reshape(np.shape(data))
        return self.graph.constant(array, dtype)

    def number(self, value: float, like: Ref) -> Ref:
        """A number of the array's dtype, without axes."""
        return self.graph.number(value, like.dtype)

    def ints(self, values: Sequence[int]) -> Ref:
        """A list of int64."""
        return self.const(np.array(values, np.int64), "int64")

    # -- sizes -----------------------------------------------------------------------
    def _shape_of(self, x: Ref) -> Ref:
        return self.op("Shape", x)

    def _element(self, x: Ref, at: int) -> Ref:
        return self.op("Gather", x, self.ints([at]), axis=0)

    def _times(self, a: Ref, b: Ref) -> Ref:
        return self.op("Mul", a, b)

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
