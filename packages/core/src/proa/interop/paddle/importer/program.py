"""Graphs of a program's blocks, checked and with the rows that compute them.

A variable may be written several times: each time is a value of its own here, the later
ones with names such as ``v@1``. What a block of a loop or a branch writes of the blocks
around it becomes outputs of the loop or branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proa.errors import UnimplementedError
from proa.interop.graph.limits import Limits
from proa.interop.graph.node import Graph, Info, Node
from proa.interop.paddle.importer.lod import Lengths
from proa.interop.paddle.importer.table import PADDLE, SlotRow, place
from proa.interop.paddle.proto import (
    FEED_MINIBATCH,
    FETCH_LIST,
    LOD_TENSOR,
    LOD_TENSOR_ARRAY,
    attributes,
    variable_shape,
)

_WHERE = "paddle.load"
#: What ``op_role`` says of operators that only training needs: gradients, optimizers.
_TRAINING_ROLES = 1 | 2
#: Attributes that every operator has.
_COMMON = (
    "op_callstack", "op_role", "op_role_var", "op_namescope", "op_device",
    "with_quant_attr",
)  # fmt: skip
_BLOCK_OPS = ("while", "conditional_block")


class _Block:
    """A block being read: the value that each variable stands for now."""

    def __init__(self, desc: Any, outer: _Block | None, depth: int) -> None:
        self.desc, self.outer, self.depth = desc, outer, depth
        self.variables = {v.name: v for v in desc.vars}
        self.own = set(self.variables)
        self.current: dict[str, str] = {}
        self.graph = Graph()

    def variable(self, name: str) -> Any:
        """What is said of a variable here or in a block around, if anything."""
        if name in self.variables or self.outer is None:
            return self.variables.get(name)
        return self.outer.variable(name)

    def find(self, name: str) -> str | None:
        """The value of a variable, or None if it has none yet."""
        block: _Block | None = self
        while block is not None:
            if name in block.current:
                return block.current[name]
            block = block.outer
        return None


class Parser:
    """Makes the graph of a program.

    Args:
        program: The program's message.

    Attributes:
        graph: The graph, without the arrays of parameters.
        parameters: The names of parameters and buffers.
    """

    def __init__(self, program: Any) -> None:
        if not program.blocks:
            raise ValueError("a program without blocks")
        self.blocks = program.blocks
        _check_blocks(program)
        self.limits = Limits(_WHERE)
        self.missing: dict[str, str] = {}
        self.refused: list[str] = []
        self.counts: dict[str, int] = {}
        self.lengths = Lengths()
        #: The message of the variable that a value is of.
        self._variable_of: dict[str, Any] = {}
        self.read: set[str] = set()
        main = _Block(self.blocks[0], None, 0)
        self.parameters = parameter_names(program)
        main.current.update((name, name) for name in self.parameters)
        self.variables = {v.name: v for v in main.desc.vars}
        self.graph = self._main(main)
        if self.missing:
            raise PADDLE.missing(self.missing)
        if self.refused:
            raise UnimplementedError(
                f"[{_WHERE}] not supported: " + "; ".join(sorted(set(self.refused)))
            )

    # -- the first block

    def _main(self, block: _Block) -> Graph:
        ops = list(block.desc.ops)
        feeds = {_only(op.outputs): _column(op) for op in ops if op.type == "feed"}
        fetches = {_only(op.inputs): _column(op) for op in ops if op.type == "fetch"}
        ops = [op for op in ops if op.type not in ("feed", "fetch")]
        if not fetches:
            ops = [op for op in ops if not _role(op) & _TRAINING_ROLES]
            fetches = _unread(ops, self.variables)
        ops = _needed(ops, set(fetches))
        every = [op for desc in self.blocks for op in desc.ops]
        self.read = {name for op in every for name in _reads(op)}.union(fetches)
        if not feeds:
            feeds = _unwritten(ops, self.parameters)
        for name in sorted(feeds, key=lambda name: feeds[name]):
            block.graph.inputs.append(self._info(name))
            block.current[name] = name
            self.lengths.declare(name, self.variables.get(name))
        for op in ops:
            self._add(block, op)
        if self.missing or self.refused:
            return block.graph
        for name in sorted(fetches, key=lambda name: fetches[name]):
            info = self._info(name)
            info.name = block.find(name) or name
            block.graph.outputs.append(info)
        used = {n for g in block.graph.walk() for node in g.nodes for n in node.inputs}
        block.graph.inputs += self.lengths.infos(used)
        return block.graph

    def _info(self, name: str) -> Info:
        variable = self.variables.get(name)
        if variable is None or variable.type.type not in (LOD_TENSOR, LOD_TENSOR_ARRAY):
            return Info(name, None, None)
        dtype, shape = variable_shape(variable)
        kind = "tensor" if variable.type.type == LOD_TENSOR else "sequence"
        return Info(name, dtype, shape, kind)

    # -- operators

    def _add(self, block: _Block, op: Any) -> None:
        self.limits.add_node()
        row = PADDLE.find(op.type)
        if row is None:
            self.missing[op.type] = ""
            return
        assert isinstance(row, SlotRow)
        if op.type in _BLOCK_OPS:
            self._add_block(block, op, row)
            return
        given = {s.parameter: list(s.arguments) for s in op.inputs if s.arguments}
        if op.type == "write_to_array":  # changes the array that is its output
            given["Array"] = [n for s in op.outputs for n in s.arguments]
        unknown = given.keys() - {slot.name for slot in row.inputs}
        for slot in unknown:
            self.refused.append(f"{op.type} with the input {slot}")
        node = self._node(op)
        inputs = {
            slot: [block.find(name) or "" for name in names]
            for slot, names in given.items()
        }
        outputs = {
            s.parameter: [
                self._write(block, name) if name in self.read else ""
                for name in s.arguments
            ]
            for s in op.outputs
            if any(slot.name == s.parameter for slot in row.outputs)
        }
        self.lengths.pass_on(row, inputs, outputs, self._variable_of.get)
        place(node, row, inputs, outputs)
        block.graph.nodes.append(node)

    def _node(self, op: Any) -> Node:
        found = attributes(op)
        for name in _COMMON:
            found.pop(name, None)
        name = next((n for s in op.outputs for n in s.arguments), "")
        return Node(op.type, "", name, 1, [], [], found)

    def _write(self, block: _Block, name: str) -> str:
        """The value that a variable stands for from now on."""
        count = self.counts.get(name, -1 if block.find(name) is None else 0) + 1
        self.counts[name] = count
        value = block.current[name] = f"{name}@{count}" if count else name
        self._variable_of[value] = block.variable(name)
        return value

    # -- loops and branches

    def _add_block(self, block: _Block, op: Any, row: SlotRow) -> None:
        self.limits.check_depth(block.depth + 1)
        index = attributes(op)["sub_block"]
        if not 0 < index < len(self.blocks):
            raise ValueError(f"block {index} of {len(self.blocks)}")
        inner = _Block(self.blocks[index], block, block.depth + 1)
        carried = sorted(set(self._outer_writes(inner)))
        slot = "Condition" if op.type == "while" else "Cond"
        condition = _only([s for s in op.inputs if s.parameter == slot])
        before = [block.find(name) or "" for name in carried]
        start = [block.find(condition) or "", *before]
        if op.type == "while":
            if condition not in carried:
                raise ValueError(f"a loop that does not change {condition}")
            carried = [condition, *(n for n in carried if n != condition)]
            before = [block.find(name) or "" for name in carried]
            start = before
            inner.graph.inputs = [
                Info(self._write(inner, name), None, None) for name in carried
            ]
        for each in inner.desc.ops:
            self._add(inner, each)
        inner.graph.outputs = [
            Info(inner.find(name) or name, None, None) for name in carried
        ]
        node = self._node(op)
        node.attributes["sub_block"] = inner.graph
        after = [self._write(block, name) for name in carried]
        place(node, row, {"X": start}, {"Out": after})
        block.graph.nodes.append(node)

    def _outer_writes(self, block: _Block) -> Iterator[str]:
        """Variables of the blocks around that a block and those inside it write."""
        self.limits.check_depth(block.depth)
        for op in block.desc.ops:
            if op.type in _BLOCK_OPS:
                index = attributes(op)["sub_block"]
                if not 0 < index < len(self.blocks):
                    raise ValueError(f"block {index} of {len(self.blocks)}")
                inner = _Block(self.blocks[index], block, block.depth + 1)
                names: Iterator[str] = self._outer_writes(inner)
            else:
                names = (name for s in op.outputs for name in s.arguments)
            yield from (name for name in names if name not in block.own)


def _check_blocks(program: Any) -> None:
    """Refuse a block that two operators name: each time it would be read again."""
    ops = (op for block in program.blocks for op in block.ops)
    seen = set()
    for op in ops:
        if op.type in _BLOCK_OPS:
            index = attributes(op)["sub_block"]
            if index in seen:
                raise ValueError(f"several operators that name block {index}")
            seen.add(index)


def parameter_names(program: Any) -> list[str]:
    """Names of what a file of parameters has, in its order."""
    return sorted(
        v.name
        for v in program.blocks[0].vars
        if v.persistable and v.type.type == LOD_TENSOR
    )


def _column(op: Any) -> int:
    return int(attributes(op).get("col", 0))


def _only(slots: Any) -> str:
    names = [name for s in slots for name in s.arguments]
    names = [name for name in names if name]
    if len(names) != 1:
        raise ValueError(f"{names} in place of one variable")
    return str(names[0])


def _role(op: Any) -> int:
    return int(attributes(op).get("op_role", 0))


def _reads(op: Any) -> list[str]:
    return [name for s in op.inputs for name in s.arguments]


def _writes(op: Any) -> list[str]:
    return [name for s in op.outputs for name in s.arguments]


def _needed(ops: list[Any], wanted: set[str]) -> list[Any]:
    """The operators from which variables follow."""
    needed = []
    for op in reversed(ops):
        if wanted.intersection(_writes(op)):
            needed.append(op)
            wanted = wanted.union(_reads(op))
    return needed[::-1]


def _unread(ops: list[Any], variables: dict[str, Any]) -> dict[str, int]:
    """Variables that nothing reads: the outputs of a program that does not say."""
    read = {name for op in ops for name in _reads(op)}
    kinds = (FEED_MINIBATCH, FETCH_LIST)
    names = [
        name for op in ops for s in op.outputs for name in s.arguments
        if s.parameter in ("Out", "Y", "Output", "Loss", "Hidden") and name not in read
        and name in variables and variables[name].type.type not in kinds
    ]  # fmt: skip
    return {name: i for i, name in enumerate(dict.fromkeys(names))}


def _unwritten(ops: list[Any], parameters: list[str]) -> dict[str, int]:
    """Variables that are read before they are written, other than parameters."""
    known, found = set(parameters), dict[str, int]()
    for op in ops:
        for name in _reads(op):
            if name and name not in known:
                found.setdefault(name, len(found))
        known.update(_writes(op))
    return found
