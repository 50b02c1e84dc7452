"""Which mode programs are written in: dynamic (eager, the default) or static.

The mode is one flag of the process, as users of Paddle expect: it survives exceptions
and holds until it is switched again. In static mode operators on Variables, and
operators without arrays, are recorded into the thread's current program.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from proa import _core
from proa.base.device import Place, check_place

if TYPE_CHECKING:
    from proa._core import Tensor


class FeedReader(Protocol):
    """What runs of a program take their data from.

    Attributes:
        feeds_tests: Whether it also feeds what `Program.clone(for_test=True)` gives.
    """

    feeds_tests: bool

    def next_feed(self) -> Mapping[str, Any]:
        """The next batch by the inputs' names; nothing unless it was started."""


class StaticBuilder(Protocol):
    """Where networks and optimizers keep their state in static mode."""

    def parameter(
        self, shape: Sequence[int], dtype: Any, attr: Any, stem: str, init: Any
    ) -> Tensor:
        """A parameter of the current program, which `init` fills at startup."""

    def buffer(self, tensor: Tensor, name: str, is_parameter: bool = False) -> Tensor:
        """A Variable with the tensor's value at startup, which runs may change; it may
        count as a parameter that is not trained.
        """

    def slot(self, name: str, like: Tensor, dtype: Any, value: float) -> Tensor:
        """What an optimizer keeps for a parameter: filled with a number at startup."""

    def rate(self, weights: Tensor, lr: float) -> Tensor:
        """The learning rate (1,) of these weights' step, which each run reads again."""

    def master(self, name: str, parameter: Tensor) -> Tensor:
        """The float32 copy of a parameter in 16 bits."""

    def backward(
        self, optimizer: Any, loss: Tensor, startup: Any, parameters: Any, skip: Any
    ) -> list[tuple[Any, Any]]:
        """The optimizer's parameters with the gradients of a loss."""

    def apply(self, optimizer: Any, pairs: Any, startup: Any = None) -> list[Any]:
        """Record the optimizer's step with these gradients; the operators."""

    def initialize(self, variable: Any, init: Any) -> None:
        """Let an initializer fill a Variable when the startup program runs."""

    def derived_parameter(self, tensor: Tensor, name: str, trainable: bool) -> Tensor:
        """A parameter that begins with the value of a Variable; one of that name that
        exists is given again.
        """

    def note_symbolic_shape(self, tensor: Tensor, shape: Sequence[Any]) -> None:
        """Say which shape, unknown yet, an operator without arrays gives."""

    def tested_as(self, trained: Tensor, tested: Tensor) -> None:
        """Let tests of the program have the one tensor in the place of the other."""

    def known(self, tensor: Tensor) -> Tensor | None:
        """The value of a Variable that follows from constants alone, else None."""

    def places(self, mask: Tensor) -> Tensor:
        """Where a mask (n,) holds, int64 (k,), k being known to a run alone."""

    def loop(self, cond: Any, body: Any, values: list[Tensor]) -> list[Tensor]:
        """``values = body(*values)`` as long as ``cond(*values)`` holds, recorded."""

    def constant(self, tensor: Tensor) -> Tensor:
        """A Variable that stands for a tensor with a value."""

    def assign(self, value: Tensor, output: Tensor) -> None:
        """Let a Variable stand for another value from here on."""

    def depth(self) -> int:
        """How many bodies of loops and branches are around what is recorded."""

    def array_read(self, array: Any, i: Tensor) -> Tensor:
        """The entry of a `TensorArray` at a place that a run computes."""

    def array_write(self, x: Tensor, i: Tensor, array: Any) -> None:
        """Put an entry there."""

    def array_length(self, array: Any) -> Tensor:
        """How many entries it has."""

    def add_reader(self, reader: FeedReader) -> None:
        """Let runs of the current program be fed by a reader."""

    def draw(self, count: int) -> tuple[int, int]:
        """A placeholder for the key of a random operator, drawn again by each run."""


class _Mode:
    is_static = False
    switch: Callable[[bool], None] | None = None
    builder: StaticBuilder | None = None


def set_static_builder(builder: StaticBuilder, switch: Callable[[bool], None]) -> None:
    """What serves static mode, and what switches recording on and off."""
    _Mode.builder, _Mode.switch = builder, switch


def static_builder() -> StaticBuilder | None:
    """What serves static mode; None in dynamic mode, and where a thread computes at
    once.
    """
    return _Mode.builder if _core.builds_program() else None


def enable_static() -> None:
    """Switch to static mode, until `disable_static`."""
    if _Mode.switch is None:  # once: static mode is a layer above what reads the mode
        importlib.import_module("proa.static.mode")
    assert _Mode.switch is not None
    _Mode.is_static = True
    _Mode.switch(True)


def disable_static(place: Place | str | None = None) -> None:
    """Switch to dynamic mode, the default.

    Args:
        place: The device of tensors from now on; the CPU.
    """
    check_place("disable_static", place)
    _Mode.is_static = False
    if _Mode.switch is not None:
        _Mode.switch(False)


def in_dynamic_mode() -> bool:
    """Whether the mode is dynamic."""
    return not _Mode.is_static
