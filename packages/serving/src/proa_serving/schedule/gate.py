"""What the workers of a model sleep on, and what native transports put there."""

from __future__ import annotations

import importlib
import threading
from typing import Any, Protocol

from proa_serving.schedule.job import Job


class Arrival(Protocol):
    """A request that a native transport received by itself."""

    def job(self) -> Job | None:
        """It, as others wait; None if it is answered otherwise."""
        ...


class Gate(Protocol):
    """Arrivals that wait for a worker, and a signal; see ``csrc/inbox.h``.

    ``jobs`` is what waits elsewhere: one limit holds for both.
    """

    jobs: int
    closed: bool

    def __len__(self) -> int: ...
    def pop(self) -> Arrival | None: ...
    def remove(self, arrival: Arrival, /) -> bool: ...
    def ticket(self) -> int: ...
    def notify(self, all: bool = False, /) -> None: ...
    def wait(self, ticket: int, seconds: float | None, /) -> None: ...


class PlainGate:
    """Where there is no native transport: nothing arrives but jobs."""

    def __init__(self) -> None:
        self.jobs = 0
        self.closed = False
        self._changes = 0
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return 0

    def pop(self) -> Arrival | None:
        return None

    def remove(self, arrival: Arrival, /) -> bool:
        return False

    def ticket(self) -> int:
        return self._changes

    def notify(self, all: bool = False, /) -> None:
        with self._changed:
            self._changes += 1
            self._changed.notify_all() if all else self._changed.notify()

    def wait(self, ticket: int, seconds: float | None, /) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._changes != ticket, seconds)


def make_gate(limit: int) -> Gate:
    """A native one where that was built.

    Args:
        limit: What may wait in all.
    """
    try:
        native: Any = importlib.import_module("proa_serving._native")
    except ImportError:
        return PlainGate()
    found: Gate = native.Inbox(limit)
    return found
