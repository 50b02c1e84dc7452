"""Switches of the tape, as context managers and decorators. They hold for a thread."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, overload

from proa import _core

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound="_Switch")


class _Switch:
    """Sets the grad mode for a block or for the calls of a function."""

    _on: bool

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_core.set_grad_enabled(self._on))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _core.set_grad_enabled(self._before.pop())

    def __call__(self, function: F) -> F:
        """Decorate a function or generator."""
        on = self._on
        if inspect.isgeneratorfunction(function):
            return _switched_generator(function, on)  # type: ignore[return-value]

        @functools.wraps(function)
        def switched(*args: Any, **keywords: Any) -> Any:
            before = _core.set_grad_enabled(on)
            try:
                return function(*args, **keywords)
            finally:
                _core.set_grad_enabled(before)

        return switched  # type: ignore[return-value]


def _switched_generator(function: Callable[..., Any], on: bool) -> Callable[..., Any]:
    """The mode holds while the generator runs, not while it waits."""

    @functools.wraps(function)
    def switched(*args: Any, **keywords: Any) -> Any:
        source = function(*args, **keywords)
        sent: Any = None
        while True:
            before = _core.set_grad_enabled(on)
            try:
                value = source.send(sent)
            except StopIteration as stop:
                return stop.value
            finally:
                _core.set_grad_enabled(before)
            sent = yield value

    return switched


class _DecoratingSwitch(_Switch):
    """A switch that decorates a function also without being called first."""

    @overload
    def __new__(cls: type[S], function: None = None) -> S: ...
    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]  # a decorator too
    def __new__(cls, function: Any = None) -> Any:
        self = super().__new__(cls)
        if function is None:
            return self
        self.__init__()  # type: ignore[misc]
        return self(function)


class no_grad(_DecoratingSwitch):
    """Nothing is recorded: ``with no_grad(): ...``, ``@no_grad()`` or ``@no_grad``."""

    _on = False


class enable_grad(_DecoratingSwitch):
    """Recording continues inside a `no_grad` block."""

    _on = True


class set_grad_enabled(_Switch):
    """Switch recording from here on, or for a ``with`` block."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._on = bool(mode)
        self._first = _core.set_grad_enabled(self._on)
        self._entered = False

    def __enter__(self) -> None:
        if self._entered:
            super().__enter__()
            return
        self._entered = True
        self._before.append(self._first)

    def clone(self) -> set_grad_enabled:
        """Another switch to the same mode."""
        return type(self)(self._on)


def is_grad_enabled() -> bool:
    """True if computations are recorded in this thread."""
    on: bool = _core.is_grad_enabled()
    return on
