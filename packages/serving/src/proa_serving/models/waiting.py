"""Requests that wait for a worker, and whose answers callbacks take.

For requests that repeat one that was answered: a task, a future and a timer for each
cost more than all else that is done for them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from proa_serving.metrics import ModelMetrics
from proa_serving.protocol.errors import RequestTimeoutError, ServingError
from proa_serving.schedule.job import Job, Timing
from proa_serving.schedule.merge import Arrays
from proa_serving.schedule.scheduler import BatchShape, Scheduler

#: Is given the outputs or the error, once; by a worker, or on the event loop.
Answered = Callable[[Arrays | ServingError], None]


class Bounds(NamedTuple):
    """What a request may take.

    Args:
        seconds: Until it is answered.
        begin: Until it is begun.
        priority: Its level in the queue.
    """

    seconds: float
    begin: float
    priority: int


class Expiring(Protocol):
    """What is ended where it takes too long."""

    def expire(self) -> None: ...


class Deadlines:
    """Ends the runs that take longer than they may, by one timer for all of them.

    Used on the event loop alone, for runs of the same bounds; by the native transport
    too, which does what :meth:`add` and :meth:`remove` do.
    """

    __slots__ = ("runs", "timer")

    def __init__(self) -> None:
        self.runs: dict[Expiring, float] = {}  # the first ends first
        self.timer: asyncio.TimerHandle | None = None

    def add(self, run: Expiring, at: float) -> None:
        """End ``run`` at that time, of ``time.monotonic``, unless it is removed."""
        self.runs[run] = at
        if self.timer is None:
            self.wait(at - time.monotonic())

    def remove(self, run: Expiring) -> None:
        self.runs.pop(run, None)

    def wait(self, seconds: float) -> None:
        """Look in so many seconds."""
        loop = asyncio.get_running_loop()
        self.timer = loop.call_later(max(0.0, seconds), self._expire)

    def _expire(self) -> None:
        now = time.monotonic()
        for run in [run for run, at in self.runs.items() if at <= now]:
            del self.runs[run]
            run.expire()
        self.timer = None
        for at in self.runs.values():
            self.wait(at - now)
            break


class WaitingRun:
    """One request of a model; made, started and ended on the event loop.

    Args:
        name: The model's, for messages.
        scheduler: Its.
        metrics: Its.
        protocol: What the request came by.
        answered: Takes the answer.
    """

    __slots__ = (
        *("_answered", "_began", "_deadlines", "_job", "_metrics"),
        *("_name", "_protocol", "_scheduler", "_seconds", "_undecided"),
    )

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        metrics: ModelMetrics,
        protocol: str,
        answered: Answered,
    ) -> None:
        self._name, self._scheduler, self._metrics = name, scheduler, metrics
        self._protocol, self._answered = protocol, answered
        self._undecided = threading.Lock()  # whoever acquires it decides the answer
        self._job: Job | None = None

    def start(
        self, inputs: Arrays, shape: BatchShape, bounds: Bounds, deadlines: Deadlines
    ) -> None:
        """Queue it.

        Args:
            inputs: As the model wants them.
            shape: Their.
            bounds: What it may take.
            deadlines: End it; shared by requests of the same bounds.

        Raises:
            RetiredError: If the model takes no more requests; nothing is counted.
            ServingError: If the queue refuses it.
        """
        self._began, self._seconds = time.monotonic(), bounds.seconds
        self._deadlines = deadlines
        self._metrics.began(self._protocol)
        deadlines.add(self, self._began + bounds.seconds)
        try:
            # The last thing that is done, as a worker may run at once.
            self._job = self._scheduler.submit(
                inputs, self._ran, self._began + bounds.begin, bounds.priority, shape
            )
        except BaseException:
            deadlines.remove(self)
            raise

    def settle(self) -> None:
        """The answer was taken, on the event loop."""
        self._deadlines.remove(self)
        # It refers to this, and would hold the inputs until both are collected.
        self._job = None

    def cancel(self) -> bool:
        """End it without an answer; False if it has one."""
        if not self._undecided.acquire(blocking=False):
            return False
        self._end("cancelled")
        return True

    def expire(self) -> None:
        """Answer that it took too long, unless it has an answer."""
        if self._undecided.acquire(blocking=False):
            error = RequestTimeoutError(
                f"model {self._name}", f"must answer within {self._seconds:g} s"
            )
            self._end(error.reason)
            self._answered(error)

    def _end(self, reason: str) -> None:
        self._metrics.failed(self._protocol, reason, self._began)
        self._metrics.ended(self._began)
        if self._job is not None:
            self._scheduler.cancel(self._job)
        self.settle()

    def _ran(self, result: Arrays | ServingError, timing: Timing) -> None:
        """A worker has the answer."""
        if not self._undecided.acquire(blocking=False):
            self._metrics.waited(timing)
            return
        if isinstance(result, ServingError):
            self._metrics.failed(self._protocol, result.reason, self._began)
        self._metrics.ended(self._began, timing)
        self._answered(result)
