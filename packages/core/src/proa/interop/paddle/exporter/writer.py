"""A program's message while it is written: blocks, variables, operators, constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from proa.interop.exporter.target import NotExpressibleError, Ref, Target
from proa.interop.paddle.proto import (
    DTYPES,
    FEED_MINIBATCH,
    FETCH_LIST,
    LOD_TENSOR,
    message,
)
from proa.ir.program import NUMPY_TYPES, Array

#: Numbers of data types.
CODES = {name: code for code, name in DTYPES.items()}
#: The kind of a variable that holds what runs of a block leave.
_STEP_SCOPES = 11
#: The oldest version that has all operators as they are written, and tensors without
#: axes: 2.5.0.
_VERSION = 2_005_000


class Long(int):
    """An attribute of 64 bits."""


class Longs(list[int]):
    """A list of numbers of 64 bits."""


Given = Mapping[str, Ref | Sequence[Ref] | None]


class Writer(Target):
    """Collects the blocks of a program.

    Attributes:
        constants: Parameters, by name.
    """

    def __init__(self) -> None:
        super().__init__("tmp")
        self.message = message("ProgramDesc")
        self.message.version.version = _VERSION
        self.constants: dict[str, Ref] = {}
        self._open = [self._add_block(-1)]
        for name, kind in (("feed", FEED_MINIBATCH), ("fetch", FETCH_LIST)):
            variable = self._variable(self.take(name), kind)
            variable.persistable = True

    # -- blocks ----------------------------------------------------------------------
    def _add_block(self, parent: int) -> Any:
        block = self.message.blocks.add()
        block.idx, block.parent_idx = len(self.message.blocks) - 1, parent
        block.forward_block_idx = -1
        return block

    @contextmanager
    def block(self) -> Iterator[Any]:
        """While open, operators are those of a new block."""
        self._open.append(self._add_block(self._open[-1].idx))
        try:
            with self.own_sizes():
                yield self._open[-1]
        finally:
            self._open.pop()

    # -- variables -------------------------------------------------------------------
    def _variable(self, name: str, kind: int = LOD_TENSOR) -> Any:
        variable = self._open[-1].vars.add()
        variable.name, variable.type.type = name, kind
        return variable

    def variable(self, name: str, dtype: str, shape: Sequence[int] | None) -> Ref:
        """A tensor of the block that is open."""
        if dtype not in CODES:
            raise NotExpressibleError(f"Paddle has no {dtype}")
        variable = self._variable(self.take(name))
        tensor = variable.type.lod_tensor.tensor
        tensor.data_type = CODES[dtype]
        tensor.dims.extend(shape or ())
        known = None if shape is None else tuple(shape)
        return Ref(variable.name, dtype, known)

    def scopes(self) -> str:
        """A variable for what runs of a block leave."""
        name = self.take("scopes")
        self._variable(name, _STEP_SCOPES)
        return name

    def named_constant(self, name: str, data: Array, dtype: str) -> Ref:
        """A constant with a name; it belongs to the first block."""
        opened, self._open = self._open, self._open[:1]
        ref = self.variable(name, dtype, data.shape)
        self._open[0].vars[-1].persistable = True
        self._open = opened
        self.constants[ref.name] = Ref(ref.name, dtype, data.shape, data)
        return self.constants[ref.name]

    # -- operators -------------------------------------------------------------------
    def op(
        self, kind: str, inputs: Mapping[str, Sequence[str]],
        outputs: Mapping[str, Sequence[str]], attrs: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Add an operator by the names of its variables."""
        op = self._open[-1].ops.add()
        op.type = kind
        for slots, given in ((op.inputs, inputs), (op.outputs, outputs)):
            for name, arguments in given.items():
                slot = slots.add()
                slot.parameter = name
                slot.arguments.extend(arguments)
        for name, value in {**attrs, "op_role": 0}.items():
            if value is not None:
                attribute = op.attrs.add()
                attribute.name = name
                _set(attribute, value)

    def finish(self) -> Any:
        """The message, without what no output follows from."""
        blocks = self.message.blocks
        for block in reversed(blocks):
            _keep_needed(block)
        used = {
            name
            for block in blocks
            for op in block.ops
            for slots in (op.inputs, op.outputs)
            for slot in slots
            for name in slot.arguments
        }
        for block in blocks:
            used_vars = [v for v in block.vars if v.name in used]
            del block.vars[:]
            block.vars.extend(used_vars)
        self.constants = {n: ref for n, ref in self.constants.items() if n in used}
        return self.message


def _keep_needed(block: Any) -> None:
    """Drop operators that write only variables of the block that nothing reads."""
    own = {v.name for v in block.vars}
    needed = {"fetch"}
    needed_ops = []
    for op in reversed(block.ops):
        written = {name for slot in op.outputs for name in slot.arguments}
        if op.type == "feed" or written & needed or written - own:
            needed.update(name for slot in op.inputs for name in slot.arguments)
            needed_ops.append(op)
    del block.ops[:]
    block.ops.extend(needed_ops[::-1])


def _set(attribute: Any, value: Any) -> None:
    """Write a value in the field of its type."""
    scalars: tuple[tuple[type, int, str], ...] = (
        (bool, 6, "b"), (Long, 9, "l"), (int, 0, "i"), (float, 1, "f"), (str, 2, "s"),
    )  # fmt: skip
    for kind, code, field in scalars:
        if isinstance(value, kind):
            attribute.type = code
            setattr(attribute, field, value)
            return
    if hasattr(value, "parent_idx"):
        attribute.type, attribute.block_idx = 8, value.idx
        return
    items = list(value)
    if isinstance(value, Longs):
        attribute.type = 11
        attribute.longs.extend(items)
    elif items and isinstance(items[0], float):
        attribute.type = 4
        attribute.floats.extend(items)
    else:
        attribute.type = 3
        attribute.ints.extend(int(n) for n in items)


def as_array(data: Any, dtype: str) -> Array:
    """Data as the elements of a constant."""
    found: Array = np.array(data, NUMPY_TYPES[dtype], order="C")
    return found
