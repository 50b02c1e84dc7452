"""What a loader's worker process does."""

from __future__ import annotations

import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from proa import _core
from proa.base import autocast
from proa.base import random as stream
from proa.io.collate import as_arrays
from proa.io.transport import Writer


@dataclass
class WorkerInfo:
    """Which worker this process is.

    Attributes:
        id: Its number, from 0.
        num_workers: How many there are.
        dataset: Its copy of the dataset.
        seed: The seed of its random numbers.
    """

    id: int
    num_workers: int
    dataset: Any
    seed: int


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process what it is; None in the main process."""
    return _info


@dataclass
class Job:
    """Everything a worker is started with."""

    fetch: Callable[[Any], Any]
    iterate: Callable[[], Iterator[Any]] | None
    info: WorkerInfo
    init: Callable[[int], Any] | None
    share: bool


@dataclass
class Failure:
    """An exception on its way to the main process."""

    error: BaseException | None
    name: str
    trace: str

    def raise_again(self, worker: int) -> None:
        """Raise what the worker raised, its trace in the message."""
        note = f"[DataLoader] worker {worker} raised {self.name}:\n{self.trace}"
        if self.error is not None:
            try:
                again = type(self.error)(note)
            except Exception:
                again = None
            if again is not None:
                raise again from self.error
        raise RuntimeError(note)


def _failure(error: BaseException) -> Failure:
    trace = "".join(traceback.format_exception(error))
    import pickle

    carried: BaseException | None = error
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        carried = None
    return Failure(carried, type(error).__name__, trace)


def _prepare(job: Job) -> None:
    global _info
    # Ctrl-C goes to the main process, which ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _info = job.info
    seed = job.info.seed
    stream.seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    _core.set_num_threads(1)
    autocast.switch((False, None, None))  # whatever was on when the epoch began
    if job.init is not None:
        job.init(job.info.id)


def run(connection: Connection, others: list[Connection], job: Job) -> None:
    """Answer requests until the main process closes the connection or ends."""
    for other in others:
        other.close()
    parent = os.getppid()
    writer = Writer(connection, job.share)
    try:
        _prepare(job)
        failed: Failure | None = None
    except Exception as error:
        failed = _failure(error)
    batches: Iterator[Any] | None = None
    try:
        while True:
            while not connection.poll(2.0):
                if os.getppid() != parent:
                    return
            kind, number, request = connection.recv()
            if kind == "free":
                writer.release(number)
                continue
            if kind == "stop":
                return
            if kind == "epoch":
                batches = None
                continue
            if failed is not None:
                writer.send("error", number, failed)
                continue
            try:
                if job.iterate is None:
                    value = job.fetch(request)
                else:
                    batches = job.iterate() if batches is None else batches
                    value = next(batches)
                writer.send("batch", number, as_arrays(value))
            except StopIteration:
                writer.send("end", number, None)
            except Exception as error:
                writer.send("error", number, _failure(error))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
