"""The graph that passes rewrite: SSA values and nodes, in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["node", "input", "const", "param"]
Array = NDArray[Any]

#: NumPy type in which the elements of a dtype are held. bfloat16 is held as its bits.
NUMPY_TYPES: dict[str, Any] = {
    "bool": np.bool_,
    "uint8": np.uint8,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "float16": np.float16,
    "bfloat16": np.uint16,
    "float32": np.float32,
    "float64": np.float64,
    "complex64": np.complex64,
    "complex128": np.complex128,
}


@dataclass(eq=False)
class Value:
    """An array of the graph. A dimension is -1 where only a run tells."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    kind: Kind = "node"
    data: Array | None = None  # of const and param
    producer: Node | None = None  # of node

    @property
    def is_constant(self) -> bool:
        """Whether the value is known before a run."""
        return self.kind in ("const", "param")

    def __str__(self) -> str:
        dims = ", ".join("?" if d < 0 else str(d) for d in self.shape)
        return f"%{self.name}: {self.dtype}[{dims}]"


@dataclass(eq=False)
class Node:
    """One op. `inputs` has None for arrays not given, `attrs` every attribute; `line`
    is where the user's code called it, `low` whether it was marked as one that may run
    in 16 bits, if it was recorded. Nodes of one `chain` that is not 0 stand together
    and may run block by block. Files keep none of these.
    """

    op: str
    inputs: list[Value | None]
    outputs: list[Value]
    attrs: dict[str, Any] = field(default_factory=dict)
    line: str = ""
    low: bool = False
    chain: int = 0


@dataclass(eq=False)
class Block:
    """Nodes in an order in which they can run."""

    inputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)

    def constants(self) -> list[Value]:
        """Constants and parameters in the order of their first use."""
        seen: dict[Value, None] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None and value.is_constant:
                    seen[value] = None
        for value in self.outputs:
            if value.is_constant:
                seen[value] = None
        return list(seen)

    def values(self) -> Iterator[Value]:
        """Constants, inputs, then every node's outputs."""
        yield from self.constants()
        yield from self.inputs
        for node in self.nodes:
            yield from node.outputs

    def users(self) -> dict[Value, list[Node]]:
        """The nodes that read each value, once for each time they do."""
        users: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None:
                    users.setdefault(value, []).append(node)
        return users

    def replace(self, old: Value, new: Value) -> None:
        """Let every reader of `old`, and the outputs, read `new`."""
        for node in self.nodes:
            node.inputs = [new if v is old else v for v in node.inputs]
        self.outputs = [new if v is old else v for v in self.outputs]


class Program:
    """Blocks; block 0 is the model. Others are bodies of control flow."""

    def __init__(self) -> None:
        self.blocks: list[Block] = [Block()]
        self.metadata: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    @property
    def main(self) -> Block:
        """The model's block."""
        return self.blocks[0]

    def nodes(self) -> Iterator[Node]:
        """Every block's nodes."""
        for block in self.blocks:
            yield from block.nodes

    def constants(self) -> list[Value]:
        """Constants and parameters of all blocks in the order of their first use."""
        return list(dict.fromkeys(v for b in self.blocks for v in b.constants()))

    def new_name(self, stem: str) -> str:
        """A name for another value: stem_0, stem_1, ..."""
        count = self._counts.get(stem, 0)
        self._counts[stem] = count + 1
        return f"{stem}_{count}"

    def reserve(self, name: str) -> None:
        """Let `new_name` not give this name, of a value that has it already."""
        stem, _, number = name.rpartition("_")
        if stem and number.isdigit() and len(number) < 10:
            self._counts[stem] = max(self._counts.get(stem, 0), int(number) + 1)

    def constant(self, data: Array, dtype: str | None = None, name: str = "") -> Value:
        """A constant that holds `data` (dtype bfloat16 with its bits as uint16)."""
        held = np.asarray(data)
        kind = dtype or str(held.dtype)
        return Value(name or self.new_name("const"), kind, held.shape, "const", held)

    def __str__(self) -> str:
        from proa.ir.printer import format_program

        return format_program(self)
