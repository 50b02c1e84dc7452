"""A block while it is recorded as the body of a branch or loop."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from proa.ir.program import Block, Program, Value

#: What `seen`, the loop over it and the call hold to a tensor that nobody else has.
_OWN_REFERENCES = 3


class Body:
    """What a body makes and reads.

    Attributes:
        block: Its nodes; its inputs are made where it reads a value of a block around.
        own: The values that it makes, those that it carries among them.
        given: Values of blocks around it -> the inputs that stand for them.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.block = Block()
        self.own: set[Value] = set()
        self.given: dict[Value, Value] = {}
        self._seen: dict[int, tuple[Any, Value]] = {}

    def see(self, tensor: Any, value: Value) -> None:
        """Note a tensor that is read, which is not this body's."""
        self._seen.setdefault(id(tensor), (tensor, value))

    def local(self, value: Value) -> Value:
        """The value itself if it is this body's or a constant, else its input."""
        if value.is_constant or value in self.own:
            return value
        if value not in self.given:
            stem = value.name.rstrip("0123456789").rstrip("_") or "input"
            name = self.program.new_name(stem)
            self.given[value] = Value(name, value.dtype, value.shape, "input")
        return self.given[value]

    def carry(self, dtype: str, shape: tuple[int, ...]) -> Value:
        """Another input, which each round is given anew."""
        value = Value(self.program.new_name("carried"), dtype, shape, "input")
        self.own.add(value)
        self.block.inputs.append(value)
        return value

    def changed(self, is_held: Callable[[Any], bool]) -> list[tuple[Any, Value, Value]]:
        """Tensors of the function around that the body changed in place, each with the
        values that it stood for before and now. `is_held` says whether the recorder has
        a reference to a tensor.
        """
        return [
            (tensor, before, tensor._handle[1])
            for tensor, before in self._seen.values()
            if tensor._handle[1] is not before
            and sys.getrefcount(tensor) > _OWN_REFERENCES + is_held(tensor)
        ]
