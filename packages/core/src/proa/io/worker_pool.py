"""The main process's side of a loader's workers."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
import weakref
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from proa.errors import UnavailableError
from proa.io.transport import Reader
from proa.io.worker import Job, run


def _exit_text(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"exit code {code}"


def _stop(owner: int, processes: list[Any], connections: list[Connection]) -> None:
    """End workers: request it, wait a little, then kill."""
    if os.getpid() != owner:
        return  # a forked child must leave its parent's workers alone
    for c in connections:
        with contextlib.suppress(OSError, ValueError):
            c.send(("stop", 0, None))
    for c in connections:
        c.close()
    end = time.monotonic() + 2.0
    for p in processes:
        p.join(max(end - time.monotonic(), 0.01))
        if p.is_alive():
            p.kill()
            p.join()


class WorkerPool:
    """Workers that turn requests into batches, returned in the order of requests."""

    def __init__(self, jobs: list[Job], prefetch: int, timeout: float) -> None:
        context = multiprocessing.get_context("fork")
        self._prefetch, self._timeout = prefetch, timeout
        self._streams = jobs[0].iterate is not None
        self._processes: list[Any] = []
        self._connections: list[Connection] = []
        for job in jobs:
            ours, theirs = context.Pipe(duplex=True)
            self._connections.append(ours)
            p = context.Process(
                target=run,
                args=(theirs, list(self._connections), job),
                daemon=True,
                name=f"proa-loader-{job.info.id}",
            )
            p.start()
            theirs.close()
            self._processes.append(p)
        self._readers = [Reader(c) for c in self._connections]
        self._number = 0
        self._stale: set[int] = set()
        self._finalizer = weakref.finalize(
            self, _stop, os.getpid(), self._processes, self._connections
        )

    def close(self) -> None:
        """End the workers."""
        self._finalizer()

    @property
    def alive(self) -> bool:
        """Whether the workers are there."""
        return bool(self._finalizer.alive)

    def run(self, requests: Iterator[Any]) -> Iterator[Any]:
        """The batches of the requests, in their order."""
        waiting: deque[tuple[int, int]] = deque()  # (number, worker) in order
        done: dict[int, tuple[str, Any]] = {}
        open_workers = deque(range(len(self._processes)))
        if self._streams:
            for w in open_workers:
                self._send(w, ("epoch", 0, None))
        exhausted = False
        capacity = self._prefetch * len(self._processes)
        try:
            while True:
                while not exhausted and len(waiting) < capacity and open_workers:
                    try:
                        request = next(requests)
                    except StopIteration:
                        exhausted = True
                        break
                    worker = open_workers[0]
                    open_workers.rotate(-1)
                    waiting.append((self._request(worker, request), worker))
                if not waiting:
                    return
                number, worker = waiting[0]
                if number not in done:
                    self._receive(worker, done)
                    continue
                waiting.popleft()
                kind, value = done.pop(number)
                if kind == "error":
                    value.raise_again(worker)
                elif kind == "end":
                    if worker in open_workers:
                        open_workers.remove(worker)
                else:
                    yield value
        finally:
            # What was requested and is not wanted any more is discarded later.
            self._stale.update(n for n, _ in waiting if n not in done)

    def _send(self, worker: int, message: tuple[str, int, Any]) -> None:
        try:
            self._connections[worker].send(message)
        except (BrokenPipeError, ConnectionResetError):
            self._report(worker)

    def _request(self, worker: int, request: Any) -> int:
        self._number += 1
        self._send(worker, ("get", self._number, request))
        return self._number

    def _receive(self, wanted: int, done: dict[int, tuple[str, Any]]) -> None:
        """Take what has arrived, waiting for something first."""
        ends = {p.sentinel: i for i, p in enumerate(self._processes)}
        sources = {c: i for i, c in enumerate(self._connections)}
        ready = wait([*sources, *ends], self._timeout or None)
        if not ready:
            self.close()
            raise UnavailableError(
                f"[DataLoader] worker {wanted} timed out: no batch within "
                f"{self._timeout} s"
            )
        arrived = [sources[r] for r in ready if r in sources]
        for worker in arrived:
            try:
                kind, number, value, slot = self._readers[worker].receive()
            except (EOFError, OSError):
                self._report(worker)
            if slot is not None:
                self._send(worker, ("free", slot, None))
            if number in self._stale:
                self._stale.discard(number)
            else:
                done[number] = (kind, value)
        if not arrived:
            self._report(next(ends[r] for r in ready))

    def _report(self, worker: int) -> None:
        """Raise for a worker that has ended by itself."""
        process = self._processes[worker]
        process.join(1.0)
        text = _exit_text(process.exitcode)
        self.close()
        raise UnavailableError(
            f"[DataLoader] worker {worker} (pid {process.pid}) died: {text}; a kill "
            "often means that memory ran out"
        )
