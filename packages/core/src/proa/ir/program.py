"""The graph that passes rewrite: SSA values and nodes, in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, Literal, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import NDArray

from proa.errors.locations import line_text
from proa.ir.printer import format_program

Kind = Literal["node", "input", "const", "param"]
Array = NDArray[Any]
_Item = TypeVar("_Item")
_Owner = TypeVar("_Owner")

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


class Value:
    """An array of the graph. A symbolic dimension is -1.

    Its uses are the nodes of blocks that read it and the outputs of blocks; they are
    kept up to date by what changes `Node.inputs`, `Block.nodes` and `Block.outputs`.
    """

    __slots__ = (
        "_output_count", "_uses", "data", "dtype", "kind", "name", "producer", "shape",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        kind: Kind = "node",
        data: Array | None = None,  # of const and param
        producer: Node | None = None,  # of node
    ) -> None:
        self.name, self.dtype, self.shape, self.kind = name, dtype, shape, kind
        self.data, self.producer = data, producer
        #: How often each node reads it.
        self._uses: dict[Node, int] = {}
        self._output_count = 0

    @property
    def is_constant(self) -> bool:
        """Whether the value is known before a run."""
        return self.kind in ("const", "param")

    @property
    def users(self) -> list[Node]:
        """The nodes that read it, each once."""
        return list(self._uses)

    @property
    def is_output(self) -> bool:
        """Whether a block's outputs have it."""
        return self._output_count > 0

    @property
    def only_user(self) -> Node | None:
        """The node that alone reads it, once, if it is no output."""
        if len(self._uses) != 1 or self._output_count:
            return None
        ((node, count),) = self._uses.items()
        return node if count == 1 else None

    def __str__(self) -> str:
        dims = ", ".join("?" if d < 0 else str(d) for d in self.shape)
        return f"%{self.name}: {self.dtype}[{dims}]"

    __repr__ = __str__


class _Tracked(list[_Item], Generic[_Item, _Owner]):
    """A list that says of every item when it enters and when it leaves."""

    __slots__ = ("owner",)

    def __init__(self, owner: _Owner, items: Iterable[_Item] = ()) -> None:
        super().__init__(items)
        self.owner = owner
        self._exchange((), self)

    def _enter(self, item: _Item) -> None:
        raise NotImplementedError

    def _leave(self, item: _Item) -> None:
        raise NotImplementedError

    def _exchange(self, old: Iterable[_Item], new: Iterable[_Item]) -> None:
        for item in new:
            self._enter(item)
        for item in old:
            self._leave(item)

    def append(self, item: _Item) -> None:
        super().append(item)
        self._enter(item)

    def extend(self, items: Iterable[_Item]) -> None:
        count = len(self)
        super().extend(items)
        self._exchange((), self[count:])

    def __iadd__(self, items: Iterable[_Item]) -> _Tracked[_Item, _Owner]:  # type: ignore[override,misc]
        self.extend(items)
        return self

    def insert(self, index: SupportsIndex, item: _Item) -> None:
        super().insert(index, item)
        self._enter(item)

    def pop(self, index: SupportsIndex = -1) -> _Item:
        item = super().pop(index)
        self._leave(item)
        return item

    def remove(self, item: _Item) -> None:
        super().remove(item)
        self._leave(item)

    def clear(self) -> None:
        self[:] = []

    def __setitem__(self, index: Any, new: Any) -> None:
        if isinstance(index, slice):
            old, new = self[index], list(new)
            super().__setitem__(index, new)
            self._exchange(old, new)
        else:
            before = self[index]
            super().__setitem__(index, new)
            self._exchange((before,), (new,))

    def __delitem__(self, index: Any) -> None:
        old = self[index] if isinstance(index, slice) else [self[index]]
        super().__delitem__(index)
        self._exchange(old, ())


class _Inputs(_Tracked["Value | None", "Node"]):
    """What a node reads. Values know of it while the node is in a block."""

    __slots__ = ()

    def _enter(self, item: Value | None) -> None:
        if item is not None and self.owner.block is not None:
            item._uses[self.owner] = item._uses.get(self.owner, 0) + 1

    def _leave(self, item: Value | None) -> None:
        if item is None or self.owner.block is None:
            return
        count = item._uses[self.owner] - 1
        if count:
            item._uses[self.owner] = count
        else:
            del item._uses[self.owner]


class Node:
    """One op. `inputs` has None for arrays not given, `attrs` every attribute.

    If it was recorded, `location` is the file and line where the user's code called it,
    `low` whether it was marked as one that may run in 16 bits. Nodes of one `chain`
    that is not 0 are next to each other and may run block by block. Nodes of a higher
    `part` follow all others and may run apart from them. `block` is the block that has
    the node. Files keep none of these.
    """

    __slots__ = (
        "__weakref__", "_inputs", "attrs", "block", "chain", "location", "low", "op",
        "outputs", "part",
    )  # fmt: skip

    def __init__(
        self,
        op: str,
        inputs: Iterable[Value | None],
        outputs: list[Value],
        attrs: dict[str, Any] | None = None,
    ) -> None:
        self.op, self.outputs = op, outputs
        self.attrs: dict[str, Any] = {} if attrs is None else attrs
        self.low, self.chain, self.part = False, 0, 0
        self.location: tuple[str, int] | None = None
        self.block: Block | None = None
        self._inputs = _Inputs(self, inputs)

    @property
    def line(self) -> str:
        """``file:line: code`` of `location`; nothing if it was not recorded."""
        return "" if self.location is None else line_text(*self.location)

    @property
    def inputs(self) -> list[Value | None]:
        """What it reads; may be changed in place."""
        return self._inputs

    @inputs.setter
    def inputs(self, values: Iterable[Value | None]) -> None:
        old, self._inputs = self._inputs, _Inputs(self, values)
        old._exchange(old, ())


class _Nodes(_Tracked[Node, "Block"]):
    """A block's nodes. One that is put into another block leaves this one's care."""

    __slots__ = ()

    def _enter(self, item: Node) -> None:
        alone = item.block is None
        item.block = self.owner
        if alone:
            for value in item._inputs:
                item._inputs._enter(value)

    def _leave(self, item: Node) -> None:
        if item.block is not self.owner:
            return
        for value in item._inputs:
            item._inputs._leave(value)
        item.block = None

    def _exchange(self, old: Iterable[Node], new: Iterable[Node]) -> None:
        new, stay = [n for n in new if n.block is not self.owner], set(new)
        super()._exchange([n for n in old if n not in stay], new)


class _Outputs(_Tracked[Value, "Block"]):
    """A block's outputs."""

    __slots__ = ()

    def _enter(self, item: Value) -> None:
        item._output_count += 1

    def _leave(self, item: Value) -> None:
        item._output_count -= 1


class Block:
    """Nodes in an order in which they can run."""

    __slots__ = ("_nodes", "_outputs", "inputs")

    def __init__(
        self,
        inputs: list[Value] | None = None,
        nodes: Iterable[Node] = (),
        outputs: Iterable[Value] = (),
    ) -> None:
        self.inputs: list[Value] = [] if inputs is None else inputs
        self._nodes = _Nodes(self, nodes)
        self._outputs = _Outputs(self, outputs)

    @property
    def nodes(self) -> list[Node]:
        """The nodes; may be changed in place."""
        return self._nodes

    @nodes.setter
    def nodes(self, nodes: Iterable[Node]) -> None:
        nodes = list(nodes)
        if nodes == self._nodes:
            return
        old, self._nodes = self._nodes, _Nodes(self, nodes)
        old._exchange(old, self._nodes)

    @property
    def outputs(self) -> list[Value]:
        """The outputs; may be changed in place."""
        return self._outputs

    @outputs.setter
    def outputs(self, values: Iterable[Value]) -> None:
        old, self._outputs = self._outputs, _Outputs(self, values)
        old._exchange(old, ())

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

    def replace(self, old: Value, new: Value) -> None:
        """Let every reader of `old` in this block, and the outputs, read `new`."""
        if old is new:
            return
        for node, count in list(old._uses.items()):
            if node.block is self:
                _put(node.inputs, old, new, count)
        if old.is_output:
            _put(self.outputs, old, new, self.outputs.count(old))


def _put(values: list[Any], old: Value, new: Value, count: int) -> None:
    at = -1
    for _ in range(count):
        at = values.index(old, at + 1)
        values[at] = new


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

    def copy(
        self,
        values: dict[Value, Value] | None = None,
        nodes: dict[Node, Node] | None = None,
    ) -> Program:
        """The same graph, as a file would keep it, to be changed on its own. Constants
        share their data.

        Args:
            values, nodes: Filled with the copy of each value and node.
        """
        clone = Program()
        clone.metadata, clone._counts = dict(self.metadata), dict(self._counts)
        values = {} if values is None else values

        def new(value: Value) -> Value:
            if value not in values:
                values[value] = Value(
                    value.name, value.dtype, value.shape, value.kind, value.data
                )
            return values[value]

        clone.blocks = []
        for block in self.blocks:
            fresh = Block([new(v) for v in block.inputs])
            for node in block.nodes:
                inputs = [None if v is None else new(v) for v in node.inputs]
                outputs = [new(v) for v in node.outputs]
                new_node = Node(node.op, inputs, outputs, dict(node.attrs))
                for value in outputs:
                    value.producer = new_node
                fresh.nodes.append(new_node)
                if nodes is not None:
                    nodes[node] = new_node
            fresh.outputs = [new(v) for v in block.outputs]
            clone.blocks.append(fresh)
        return clone

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
        array = np.asarray(data)
        kind = dtype or str(array.dtype)
        return Value(name or self.new_name("const"), kind, array.shape, "const", array)

    def __str__(self) -> str:
        return format_program(self)
