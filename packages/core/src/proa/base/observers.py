"""Observers of a program's parts: the profiler, the search for NaN, and of what its own
thread does, a recording.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, TypeVar

from proa import _core

T = TypeVar("T")

#: Called with a Layer for a context that is open while the Layer computes. What the
#: context gives, unless that is None, is called in place of the Layer's `forward`.
LayerObserver = Callable[[Any], AbstractContextManager[Any]]

#: Called with the optimizer, a group of settings and the parameters that have them, for
#: a context that is open while the optimizer steps these.
StepObserver = Callable[[Any, Any, Any], AbstractContextManager[Any]]

#: Observers of the Layers of all threads.
layer_observers: list[LayerObserver] = []


class ThreadObservers(threading.local):
    """Observers of what one thread does: those of its recordings.

    Attributes:
        layers: Called with each Layer that is called.
        steps: Called with each optimizer that steps.
    """

    def __init__(self) -> None:
        self.layers: list[LayerObserver] = []
        self.steps: list[StepObserver] = []


thread_observers = ThreadObservers()

#: As long as the threads' Layer observers together: a Layer reads this list at each
#: call, which takes a sixth of the time that the thread's own one does.
observing: list[LayerObserver] = []


@contextmanager
def observing_layers(observe: LayerObserver) -> Iterator[None]:
    """While open, the observer sees the Layers that this thread calls."""
    thread_observers.layers.append(observe)
    observing.append(observe)
    try:
        yield
    finally:
        observing.remove(observe)
        thread_observers.layers.remove(observe)


@contextmanager
def observed(layer: Any) -> Iterator[Callable[..., Any]]:
    """The contexts of all observers of a Layer; gives what is to be called as its
    `forward`.
    """
    forward = layer.forward
    with ExitStack() as stack:
        for observe in (*layer_observers, *thread_observers.layers):
            forward = stack.enter_context(observe(layer)) or forward
        yield forward


class phase:
    """``with phase("Optimization"):`` is one of the profiler's events, if it runs."""

    __slots__ = ("_kind", "_mark", "_name")

    def __init__(self, name: str, kind: str = "phase") -> None:
        self._name, self._kind = name, kind
        self._mark: tuple[int, int] | None = None

    def __enter__(self) -> None:
        if _core.events_on():
            self._mark = _core.event_mark()

    def __exit__(self, *args: object) -> None:
        if self._mark is not None:
            _core.add_event(self._name, self._kind, self._mark)
            self._mark = None


class Reader:
    """Counts the time that programs wait for data."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def watch(self, batches: Iterator[T]) -> Iterator[T]:
        """The same batches, with the time that each took counted."""
        while True:
            begin = time.perf_counter()
            with phase("DataLoader"):
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            self.seconds += time.perf_counter() - begin
            yield batch


reader = Reader()
