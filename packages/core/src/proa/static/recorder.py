"""Statements -> nodes of a program: the recorder of static mode."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from proa.base.observers import thread_observers
from proa.errors import PreconditionNotMetError, UnimplementedError
from proa.ir.attributes import draws, row_of
from proa.ir.program import Node, Value
from proa.ir.record import Recorder
from proa.jit.interpreter import run_block
from proa.nn.sequences import RowSequences
from proa.static.variable import Variable

if TYPE_CHECKING:
    from proa.static.program import Program

#: The seed of random operators whose key a run draws; the offset then numbers the draw.
DRAWN = -2


class ProgramRecorder(Recorder):
    """The recorder that a static program has all its life.

    Args:
        owner: The program, which symbols do not keep alive.
    """

    def __init__(self, owner: Program) -> None:
        super().__init__()
        self._owner = weakref.ref(owner)
        self.run_block = run_block
        #: Makes what holds the entries of arrays, where these may differ in shape.
        self.make_store: Callable[[Program, Any], Any] | None = None
        #: By id, what an optimizer steps, with the rate and who has the same one.
        self._steps: dict[int, tuple[Any, Callable[[], float], Any]] = {}

    @property
    def owner(self) -> Program:
        """The program that is built.

        Raises:
            PreconditionNotMetError: If it is gone.
        """
        found = self._owner()
        if found is None:
            raise PreconditionNotMetError(
                "[static] expected a Program that is kept as long as its Variables "
                "are used, got one that was dropped"
            )
        return found

    def symbol(self, value: Value) -> Variable:
        variable = Variable(value, self)
        if not self.bodies:
            self.owner.register(variable)
        return variable

    def value_of(self, tensor: Any) -> Value:
        handle = tensor._handle
        if handle is not None and handle[0] is not self:
            if isinstance(handle[0], ProgramRecorder):
                tensor = self.owner.adopt(tensor)
        elif handle is None and not tensor.stop_gradient:
            raise PreconditionNotMetError(
                "[static] parameters must be made in static mode to be trained by a "
                f"program, got {tensor.name!r} of dynamic mode"
            )
        elif handle is not None and handle[1] in self.owner.unshaped:
            raise PreconditionNotMetError(
                f"[static] {tensor.name!r}, made by create_var without a shape, must "
                "be assigned outside branches and loops before it is used, got no value"
            )
        return super().value_of(tensor)

    def local(self, value: Value) -> Value:
        found = super().local(value)
        sequences = self.owner.sequences.get(value)
        if sequences is not None:
            self.owner.sequences[found] = sequences
        return found

    @property
    def has_companions(self) -> bool:
        return bool(self.owner.sequences)

    def companions(self, tensor: Any) -> list[Any]:
        own = self._sequences_of(tensor)
        return [] if own is None else list(own.levels)

    def _sequences_of(self, tensor: Any) -> RowSequences | None:
        if tensor._handle is None:
            return None
        return self.owner.sequences.get(tensor._handle[1])

    def accompany(self, tensor: Any, companions: Sequence[Any]) -> None:
        own = RowSequences(list(companions), None, tensor.detach())
        self.owner.sequences[tensor._handle[1]] = own

    def bind(self, tensor: Any) -> None:
        raise PreconditionNotMetError(
            "[static] what a program changes in place must be one of its Variables, as "
            f"static.create_global_var makes them, got {tensor.name!r}, a tensor with "
            "a value"
        )

    def append(self, node: Node) -> None:
        super().append(node)
        self.owner.note(node)

    def __call__(
        self, op: str, inputs: Sequence[Any], attrs: Mapping[str, Any]
    ) -> list[Any]:
        result = super().__call__(op, inputs, attrs)
        if self.loops and draws(op, attrs):
            raise UnimplementedError(
                f"[static] a loop must not draw random numbers, got {op} in one"
            )
        if self._steps and inputs and row_of(op).mutates:
            steps = (self._steps.get(id(x)) for x in inputs)
            step = next((s for s in steps if s is not None), None)
            if step is not None:
                self._record_step(self.block.nodes[-1], *step[1:])
        return result

    def _record_step(self, node: Node, rate: Callable[[], float], alike: Any) -> None:
        owner = self.owner
        if node.attrs.get("lr") == rate():
            owner.rates.append((node, rate, alike))
            self._stepped += 1
        if "step" in node.attrs:
            owner.counts.append((node, self._counter))

    def take_rate(self, weights: Any) -> None:
        """Let the last node's rate be that of these weights' step."""
        step = self._steps.get(id(weights))
        if step is not None:
            self._record_step(self.block.nodes[-1], *step[1:])

    @contextmanager
    def _observe_steps(self, optimizer: Any, group: Any, params: Any) -> Iterator[None]:
        """While an optimizer's steps of these parameters are recorded."""
        for p in params:
            master = optimizer._master_of(p)
            optimizer._slot_values(p)
            rate = functools.partial(_rate_of, optimizer, group, p)
            alike = (id(optimizer), id(group), optimizer._rate_of(p, group, 1.0))
            weights = p if master is None else master
            self._steps[id(weights)] = (weights, rate, alike)
        self._stepped = 0
        try:
            yield
        finally:
            self._steps.clear()
        if self._stepped != len(params):
            raise UnimplementedError(
                f"[static] {type(optimizer).__name__} must step each parameter by "
                "an operator that takes the learning rate, got another"
            )

    @contextmanager
    def stepping(self, counter: str) -> Iterator[None]:
        """While an optimizer's step is recorded, whose runs the counter counts."""
        self._counter = counter
        thread_observers.steps.append(self._observe_steps)
        try:
            yield
        finally:
            thread_observers.steps.remove(self._observe_steps)


def _rate_of(optimizer: Any, group: Any, p: Any) -> float:
    return float(optimizer._rate_of(p, group, optimizer.get_lr()))
