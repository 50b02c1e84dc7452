"""Holds waiting requests and decides which run together, and when.

Requests wait in groups of one priority and one batch key each. A group may run when it
holds ``max_batch`` rows or begins with a preferred number of rows, or when its oldest
request has waited ``max_delay``. Of those that may, the one of the highest priority
goes first, then the one with the oldest request; what room it leaves is filled from
groups of its key with lower priorities. Where more rows wait than the model runs best
together, as :mod:`proa_serving.schedule.sizes` learns, so many are taken. A request
alone is never cut: one with more rows than ``max_batch`` runs by itself. A request that
has expired is not run: it is answered by its error when it would be next.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from proa_serving.protocol.errors import (
    InvalidRequestError,
    QueueFullError,
    RequestTimeoutError,
    RetiredError,
)
from proa_serving.schedule.gate import Gate, make_gate
from proa_serving.schedule.job import Job, Timing
from proa_serving.schedule.sizes import BatchSizes


@dataclass(frozen=True)
class Limits:
    """When requests wait and when they are refused.

    Args:
        max_batch: Rows that are put together at most; 1 runs each request alone.
        max_delay_us: Microseconds that the oldest request waits for others.
        queue: Requests that may wait; one more is refused.
        preferred: Rows that run at once where the first requests have as many.
        priorities: Levels that a request may choose, 1 the highest; 0 for no levels.
        priority: The level of a request that chooses none; the middle one where 0.
        wait_us: Microseconds that a request may wait for a worker; 0 for no bound
            but its own.
    """

    max_batch: int = 32
    max_delay_us: int = 0
    queue: int = 256
    preferred: tuple[int, ...] = ()
    priorities: int = 0
    priority: int = 0
    wait_us: int = 0

    def level(self, chosen: object) -> int:
        """The priority of a request whose parameter is ``chosen``.

        Raises:
            InvalidRequestError: If it is not a level, 0 or None.
        """
        if not self.priorities:
            return 0
        if chosen is None or chosen == 0:
            return self.priority or (self.priorities + 1) // 2
        if type(chosen) is not int or not 1 <= chosen <= self.priorities:
            raise InvalidRequestError(
                "request",
                f"priority must be 1 to {self.priorities}, got {chosen!r:.40}",
            )
        return chosen


@dataclass(slots=True, eq=False)
class _Group:
    jobs: deque[Job] = field(default_factory=deque)
    rows: int = 0


class JobQueue:
    """Jobs that wait for a worker. Safe to use from any thread.

    Attributes:
        gate: Where native transports put requests, which become jobs as they are taken.
        apart: Whether each job runs by itself.
    """

    def __init__(self, name: str, limits: Limits) -> None:
        self._name = name
        self.gate: Gate = make_gate(limits.queue)
        self.apart = limits.max_batch == 1
        # Whether what waits alone may be run as soon as it is there.
        self._is_plain = not (limits.priorities or limits.preferred)
        self._limits = limits
        self._delay = limits.max_delay_us / 1e6
        self._preferred = frozenset(limits.preferred)
        self._sizes = BatchSizes(limits.max_batch)
        self._groups: dict[tuple[int, Hashable], _Group] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.gate.jobs + len(self.gate)

    @property
    def closed(self) -> bool:
        """Whether it takes no more jobs."""
        return self.gate.closed

    def put(self, job: Job) -> None:
        """Let ``job`` wait.

        Raises:
            QueueFullError: If as many wait as may.
            RetiredError: If the queue is closed.
        """
        with self._lock:
            if self.gate.closed:
                raise RetiredError(f"model {self._name}", "is being unloaded")
            if len(self) >= self._limits.queue:
                raise QueueFullError(
                    f"model {self._name}",
                    f"at most {self._limits.queue} requests may wait; try again later",
                )
            self._add(job)
        self.gate.notify()

    def _add(self, job: Job) -> None:
        at = (job.priority, job.key)
        group = self._groups.get(at)
        if group is None:
            group = self._groups[at] = _Group()
        group.jobs.append(job)
        group.rows += job.rows
        self.gate.jobs += 1

    def remove(self, job: Job) -> bool:
        """Take ``job`` back; False if a worker has it already."""
        with self._lock:
            group = self._groups.get((job.priority, job.key))
            if group is None or job not in group.jobs:
                return False
            group.jobs.remove(job)
            self._took(group, job)
        # Whoever waits for a queue to drain, or on this job's delay, looks again.
        self.gate.notify(True)
        return True

    def take(self) -> list[Job] | None:
        """Wait for jobs to run together; None once closed and empty."""
        gate = self.gate
        while True:
            ticket = gate.ticket()
            expired: list[Job] = []
            wake: float | None = None
            batch = self._take_alone(expired)
            if not (batch or expired):
                with self._lock:
                    self._admit()
                    batch, wake = self._next(expired)
            if (batch or expired) and len(self):
                gate.notify()  # This worker may have used up another's signal.
            for job in expired:
                self._expire(job)
            if batch:
                return batch
            if gate.closed and not len(self):
                return None
            if not expired:
                gate.wait(ticket, wake)

    def _take_alone(self, expired: list[Job]) -> list[Job]:
        """A job that no other can share a batch with, or go before."""
        gate, count = self.gate, len(self.gate)
        if gate.jobs or not count or not self._is_plain:
            return []
        if not self.apart and (count > 1 or self._delay):
            return []
        arrival = gate.pop()
        job = None if arrival is None else arrival.job()
        if job is None:
            return []
        if job.expires > time.monotonic():
            return [job]
        expired.append(job)
        return []

    def _admit(self) -> None:
        """Put what native transports received among the jobs."""
        while (arrival := self.gate.pop()) is not None:
            job = arrival.job()
            if job is not None:
                self._add(job)

    def _expire(self, job: Job) -> None:
        waited = time.monotonic() - job.arrived
        job.done(
            RequestTimeoutError(
                f"model {self._name}",
                f"must begin in time, and has waited {waited:.3g} s",
            ),
            Timing(waited, 0.0),
        )

    def _next(self, expired: list[Job]) -> tuple[list[Job], float | None]:
        """A batch, if one is due, and the seconds until the next may be."""
        while True:
            now = time.monotonic()
            wake: float | None = None
            best: tuple[int, Hashable] | None = None
            first = (0, 0.0)
            for at, group in self._groups.items():
                due = self._due(group)
                if due > now:
                    wake = due if wake is None else min(wake, due)
                elif best is None or (at[0], group.jobs[0].arrived) < first:
                    best, first = at, (at[0], group.jobs[0].arrived)
            if best is None:
                return [], None if wake is None else wake - now
            batch = self._pop(best, now, expired)
            if batch or expired:
                return batch, None

    def ran(self, jobs: list[Job], seconds: float) -> None:
        """The model ran ``jobs`` together in ``seconds``."""
        with self._lock:
            self._sizes.ran(jobs[0].key, sum(job.rows for job in jobs), seconds)

    def close(self) -> None:
        """Take no more jobs; those that wait still run, without delay."""
        with self._lock:
            self.gate.closed = True
        self.gate.notify(True)

    def clear(self) -> list[Job]:
        """Take back every job that waits."""
        with self._lock:
            self._admit()
            jobs = [job for group in self._groups.values() for job in group.jobs]
            self._groups.clear()
            self.gate.jobs = 0
        self.gate.notify(True)
        return jobs

    def _due(self, group: _Group) -> float:
        if self.gate.closed or group.rows >= self._limits.max_batch:
            return 0.0
        if self._preferred and self._preferred_rows(group):
            return 0.0
        return group.jobs[0].arrived + self._delay

    def _preferred_rows(self, group: _Group) -> int:
        """The largest preferred number of rows that the first jobs have; 0 if none."""
        best = rows = 0
        for job in group.jobs:
            rows += job.rows
            if rows > self._limits.max_batch:
                break
            if rows in self._preferred:
                best = rows
        return best

    def _pop(
        self, at: tuple[int, Hashable], now: float, expired: list[Job]
    ) -> list[Job]:
        batch: list[Job] = []
        if self._preferred:
            limit = self._preferred_rows(self._groups[at]) or self._limits.max_batch
        else:
            limit = self._sizes.limit(at[1], self._waiting_rows(at))
        rows = self._move(self._groups[at], limit, 0, now, batch, expired)
        if self._limits.priorities and rows < limit:
            for level in range(at[0] + 1, self._limits.priorities + 1):
                group = self._groups.get((level, at[1]))
                if group is not None:
                    rows = self._move(group, limit, rows, now, batch, expired)
        return batch

    def _waiting_rows(self, at: tuple[int, Hashable]) -> int:
        """Rows that may share a batch; 1 where one request waits, whatever it has."""
        groups = [self._groups[at]]
        for level in range(at[0] + 1, self._limits.priorities + 1):
            if (level, at[1]) in self._groups:
                groups.append(self._groups[level, at[1]])
        if len(groups) == len(groups[0].jobs) == 1:
            return 1
        return sum(group.rows for group in groups)

    def _move(
        self,
        group: _Group,
        limit: int,
        rows: int,
        now: float,
        batch: list[Job],
        expired: list[Job],
    ) -> int:
        """Move jobs to ``batch``, which has ``rows``, while they fit; rows after."""
        while group.jobs:
            job = group.jobs[0]
            if job.expires <= now:
                expired.append(job)
            elif batch and rows + job.rows > limit:
                break
            else:
                batch.append(job)
                rows += job.rows
            group.jobs.popleft()
            self._took(group, job)
        return rows

    def _took(self, group: _Group, job: Job) -> None:
        group.rows -= job.rows
        self.gate.jobs -= 1
        if not group.jobs:
            del self._groups[job.priority, job.key]
