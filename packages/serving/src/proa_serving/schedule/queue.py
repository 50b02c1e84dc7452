"""Holds waiting requests and decides which run together, and when.

Requests wait in groups of one batch key each. A group may run when it holds
``max_batch`` rows, or when its oldest request has waited ``max_delay``; of those
that may, the one with the oldest request goes first. A request alone is never cut:
one with more rows than ``max_batch`` runs by itself.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from proa_serving.protocol.errors import (
    QueueFullError,
    ServingError,
    UnavailableError,
)
from proa_serving.schedule.merge import Arrays


@dataclass(frozen=True)
class Limits:
    """When requests wait and when they are refused.

    Args:
        max_batch: Rows that are put together at most; 1 runs each request alone.
        max_delay_us: Microseconds that the oldest request waits for others.
        queue: Requests that may wait; one more is refused.
    """

    max_batch: int = 32
    max_delay_us: int = 0
    queue: int = 256


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds that a request waited and was computed."""

    queued: float
    computed: float


Done = Callable[[Arrays | ServingError, Timing], None]


@dataclass(slots=True, eq=False)
class Job:
    """A request that waits or runs. ``done`` is called once, from a worker."""

    inputs: Arrays
    rows: int
    key: Hashable
    done: Done
    arrived: float = field(default_factory=time.monotonic)


@dataclass(slots=True, eq=False)
class _Group:
    jobs: deque[Job] = field(default_factory=deque)
    rows: int = 0


class JobQueue:
    """Jobs that wait for a worker. Safe to use from any thread."""

    def __init__(self, name: str, limits: Limits) -> None:
        self._name = name
        self._limits = limits
        self._delay = limits.max_delay_us / 1e6
        self._groups: dict[Hashable, _Group] = {}
        self._count = 0
        self._closed = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return self._count

    @property
    def closed(self) -> bool:
        """Whether it takes no more jobs."""
        return self._closed

    def put(self, job: Job) -> None:
        """Let ``job`` wait.

        Raises:
            QueueFullError: If as many wait as may.
            UnavailableError: If the queue is closed.
        """
        with self._changed:
            if self._closed:
                raise UnavailableError(f"model {self._name}", "is being unloaded")
            if self._count >= self._limits.queue:
                raise QueueFullError(
                    f"model {self._name}",
                    f"at most {self._limits.queue} requests may wait; try again later",
                )
            group = self._groups.get(job.key)
            if group is None:
                group = self._groups[job.key] = _Group()
            group.jobs.append(job)
            group.rows += job.rows
            self._count += 1
            self._changed.notify()

    def remove(self, job: Job) -> bool:
        """Take ``job`` back; False if a worker has it already."""
        with self._changed:
            group = self._groups.get(job.key)
            if group is None or job not in group.jobs:
                return False
            group.jobs.remove(job)
            self._took(job.key, group, job)
            # Whoever waits for a queue to drain, or on this job's delay, looks again.
            self._changed.notify_all()
            return True

    def take(self) -> list[Job] | None:
        """Wait for jobs to run together; None once closed and empty."""
        with self._changed:
            while True:
                now = time.monotonic()
                wake: float | None = None
                best: Hashable = None
                oldest = float("inf")
                for key, group in self._groups.items():
                    due = self._due(group)
                    if due > now:
                        wake = due if wake is None else min(wake, due)
                    elif group.jobs[0].arrived < oldest:
                        best, oldest = key, group.jobs[0].arrived
                if oldest != float("inf"):
                    batch = self._pop(best)
                    if self._count:  # This worker may have used up another's signal.
                        self._changed.notify()
                    return batch
                if self._closed and not self._count:
                    return None
                self._changed.wait(None if wake is None else wake - now)

    def close(self) -> None:
        """Take no more jobs; those that wait still run, without delay."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def clear(self) -> list[Job]:
        """Take back every job that waits."""
        with self._changed:
            jobs = [job for group in self._groups.values() for job in group.jobs]
            self._groups.clear()
            self._count = 0
            self._changed.notify_all()
            return jobs

    def _due(self, group: _Group) -> float:
        if self._closed or group.rows >= self._limits.max_batch:
            return 0.0
        return group.jobs[0].arrived + self._delay

    def _pop(self, key: Hashable) -> list[Job]:
        group = self._groups[key]
        batch: list[Job] = []
        rows = 0
        while group.jobs:
            job = group.jobs[0]
            if batch and rows + job.rows > self._limits.max_batch:
                break
            group.jobs.popleft()
            batch.append(job)
            rows += job.rows
            self._took(key, group, job)
        return batch

    def _took(self, key: Hashable, group: _Group, job: Job) -> None:
        group.rows -= job.rows
        self._count -= 1
        if not group.jobs:
            del self._groups[key]
