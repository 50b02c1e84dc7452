"""A block while it is recorded as the body of a branch or loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from proa import _core
from proa.ir.program import Block, Program, Value


class Body:
    """What a body makes and reads.

    Attributes:
        block: Its nodes; its inputs are made where it reads a value of a block around.
        own: The values that it makes, those that it carries among them.
        given: Values of blocks around it -> the inputs that represent them.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.block = Block()
        self.own: set[Value] = set()
        self.given: dict[Value, Value] = {}
        #: The tensors that it read, each with the value that it had at first.
        self._seen: dict[int, tuple[Any, Value]] = {}
        self._epoch: int = _core.begin_epoch()
        #: Tensors that were made in front of it while it was recorded, by id.
        self._adopted: dict[int, Any] = {}

    def adopt(self, tensor: Any) -> None:
        """Note a tensor that was made in front of the body after it had begun."""
        self._adopted[id(tensor)] = tensor

    def see(self, tensor: Any, value: Value) -> None:
        """Note a tensor that is read, which is not this body's."""
        self._seen.setdefault(id(tensor), (tensor, value))

    def seen(self) -> Iterable[tuple[Any, Value]]:
        """The tensors that were read, with the values that they stood for at first."""
        return self._seen.values()

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
        """Another input, which has a new value in each round."""
        value = Value(self.program.new_name("carried"), dtype, shape, "input")
        self.own.add(value)
        self.block.inputs.append(value)
        return value

    def changed(self) -> list[tuple[Any, Value, Value]]:
        """Tensors made before the body that it changed in place, each with the values
        that it had before and has now.
        """
        return [
            (tensor, before, tensor._handle[1])
            for tensor, before in self._seen.values()
            if tensor._handle[1] is not before
            and (tensor._epoch < self._epoch or id(tensor) in self._adopted)
        ]
