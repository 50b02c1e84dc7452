"""Worker threads that take batches from a queue and run a model's instances."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future
from itertools import count
from typing import NamedTuple, Protocol

from proa_serving.backends.base import Instance, Model
from proa_serving.protocol.errors import (
    ModelFailedError,
    ModelLoadError,
    RequestTimeoutError,
    UnavailableError,
)
from proa_serving.protocol.messages import Array
from proa_serving.schedule.gate import Gate
from proa_serving.schedule.job import Done, Job, Timing
from proa_serving.schedule.merge import (
    Arrays,
    batch_key,
    can_batch,
    merge,
    rows_of,
    split,
)
from proa_serving.schedule.queue import JobQueue, Limits
from proa_serving.schedule.quick import QuickRuns

log = logging.getLogger("proa_serving.schedule")
# One request of so many that find the workers busy waits for them, at most so long.
_BUSY_TIMES, _BUSY_SECONDS = 64, 2e-3


class BatchShape(NamedTuple):
    """Which requests may share a batch with one, and how much of it that takes.

    Args:
        rows: Its rows; None if it runs alone.
        key: Equal for those that may share it.
    """

    rows: int | None
    key: Hashable

    @classmethod
    def of(cls, inputs: Arrays) -> BatchShape:
        """That of the inputs of a request."""
        return cls(rows_of(inputs), batch_key(inputs))


class BatchObserver(Protocol):
    """Observes every run of the model."""

    def ran(self, rows: int, seconds: float) -> None: ...


class Scheduler:
    """Runs one model. Requests come from any thread; answers leave from workers.

    Args:
        name: The model's, for messages.
        model: What to run.
        instances: Worker threads, each with an instance of its own.
        limits: Limits of the queue and of batches.
        observer: Called after every run.
        warmup: Inputs that every instance runs before the first request.
        must_warm: Whether a run of these that fails is an error.

    Raises:
        ModelLoadError: If an instance cannot be made, or a run of ``warmup`` fails.
    """

    def __init__(
        self,
        name: str,
        model: Model,
        *,
        instances: int,
        limits: Limits,
        observer: BatchObserver,
        warmup: Sequence[Arrays] = (),
        must_warm: bool = True,
    ) -> None:
        self._name = name
        self._observer = observer
        self._batches = limits.max_batch > 1 and can_batch(model)
        self._queue = JobQueue(name, limits)
        self._queue.apart = not self._batches
        self._alone = count()
        self._running: dict[Instance, list[Job]] = {}
        self._changing = threading.Lock()  # of what runs
        self._outputs = {spec.name for spec in model.outputs}
        self._delayed = limits.max_delay_us > 0
        self._quick = QuickRuns(model.instance)
        self._found_busy = 0  # by requests that could have run on the event loop
        # Made here so that an instance that cannot be made fails the load.
        results = [model.instance() for _ in range(instances)]
        ready: list[Future[None]] = [Future() for _ in results]
        self._threads = [
            threading.Thread(
                target=self._work,
                args=(instance, warmup, future),
                name=f"proa-serve-{name}-{at}",
                daemon=True,
            )
            for at, (instance, future) in enumerate(zip(results, ready, strict=True))
        ]
        for thread in self._threads:
            thread.start()
        try:
            for future in ready:
                future.result()
        except Exception as error:
            if not must_warm:
                log.info("model %s: a run of zeros failed: %s", name, error)
                return
            self._queue.close()
            raise ModelLoadError(
                f"model {name}", f"failed to warm up: {error!s:.500}"
            ) from error

    @property
    def waiting(self) -> int:
        """Requests that wait for a worker."""
        return len(self._queue)

    @property
    def gate(self) -> Gate:
        """Where native transports put requests."""
        return self._queue.gate

    def submit(
        self,
        inputs: Arrays,
        done: Done,
        expires: float = float("inf"),
        priority: int = 0,
        shape: BatchShape | None = None,
    ) -> Job:
        """Queue a request; ``done`` gets its outputs or error, from a worker.

        Args:
            inputs: Arrays by name, in the model's order.
            done: Called once, unless the job is cancelled before it begins.
            expires: The time, of ``time.monotonic``, from which it is not begun.
            priority: Its level; lower ones go first.
            shape: Of the inputs, where it is known.

        Raises:
            QueueFullError: If too many wait.
            RetiredError: If the scheduler is closing.
        """
        job = self.job(inputs, done, expires, priority, shape)
        self._queue.put(job)
        return job

    def job(
        self,
        inputs: Arrays,
        done: Done,
        expires: float,
        priority: int,
        shape: BatchShape | None = None,
    ) -> Job:
        """What waits for a worker: as for :meth:`submit`, which puts it there."""
        if self._batches and shape is None:
            shape = BatchShape.of(inputs)
        if not self._batches or shape is None or shape.rows is None:
            # A key of its own: a group of one, which is due at once by its rows.
            return Job(inputs, 2**62, next(self._alone), done, expires, priority)
        return Job(inputs, shape.rows, shape.key, done, expires, priority)

    def is_quick(self, size: int) -> bool:
        """Whether requests of ``size`` bytes run where they are received."""
        return self._quick.instance(size) is not None

    def run_here(self, inputs: Arrays) -> Mapping[str, Array] | None:
        """The outputs of a request, on the calling thread, if that is faster.

        It is where the model is idle and runs faster than a worker would be woken.
        Otherwise None, and the request belongs in the queue. One thread alone may
        call this.

        Raises:
            ModelFailedError: If the model raised.
        """
        if self._delayed or self._queue.closed:
            return None
        size = sum(array.nbytes for array in inputs.values())
        instance = self._quick.instance(size)
        if instance is None or not (self._is_idle() or self._becomes_idle()):
            return None
        begin = time.monotonic()
        try:
            outputs = self._checked(instance(inputs))
        except Exception as error:
            raise self._failed(error) from error
        seconds = time.monotonic() - begin
        self._quick.ran_here(size, seconds)
        self._observer.ran(_rows(inputs), seconds)
        return outputs

    def _is_idle(self) -> bool:
        return not (self._running or len(self._queue))

    def _becomes_idle(self) -> bool:
        """Wait for the workers, now and then.

        Requests that find them busy are queued and keep them busy, for ever under load,
        though each could run here in less time than it takes to queue it.
        """
        self._found_busy += 1
        if self._found_busy % _BUSY_TIMES:
            return False
        end = time.monotonic() + _BUSY_SECONDS
        while time.monotonic() < end:
            time.sleep(_BUSY_SECONDS / 50)
            if self._is_idle():
                return True
        return False

    def cancel(self, job: Job) -> bool:
        """Take ``job`` back if it has not begun; its ``done`` is then not called.

        If it runs alone, on an instance that can be stopped, its run ends.
        """
        if self._queue.remove(job):
            job.inputs = {}
            return True
        self._stop([job])
        return False

    def _stop(self, only: list[Job] | None = None) -> None:
        """Stop the run of exactly these jobs, or every run, where that is possible."""
        with self._changing:
            for instance, jobs in self._running.items():
                stop = getattr(instance, "stop", None)
                if stop is not None and only in (None, jobs):
                    stop()

    def close(self, grace: float) -> bool:
        """Finish what waits and runs, within ``grace`` seconds; True if all was.

        What has not begun by then is answered with an UnavailableError. A run that
        does not end is stopped, or left to its thread where it cannot be.
        """
        end = time.monotonic() + grace
        self._queue.close()
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        left = self._queue.clear()
        error = UnavailableError(f"model {self._name}", "the server is shutting down")
        for job in left:
            job.done(error, Timing(time.monotonic() - job.arrived, 0.0))
        self._stop()
        return not left and not any(thread.is_alive() for thread in self._threads)

    def _work(
        self, instance: Instance, warmup: Sequence[Arrays], ready: Future[None]
    ) -> None:
        try:
            for inputs in warmup:
                self._checked(instance(dict(inputs)))
        except Exception as error:
            ready.set_exception(error)
        else:
            ready.set_result(None)
        while self._run_next(instance):
            pass

    def _run_next(self, instance: Instance) -> bool:
        """Whether there was one; its requests are not held in memory beyond it."""
        jobs = self._queue.take()
        if jobs is None:
            return False
        if len(jobs) == 1:
            self._run_one(instance, jobs[0])
        else:
            self._run(instance, jobs)
        for job in jobs:
            job.inputs = {}  # Who waited for the job may refer to it in a cycle.
        return True

    def _run_one(self, instance: Instance, job: Job) -> None:
        """As :meth:`_run`, with less to do."""
        begin = time.monotonic()
        try:
            outputs = self._call(instance, [job], job.inputs)
        except Exception as error:
            job.done(self._failed(error), Timing(begin - job.arrived, 0.0))
            return
        seconds = time.monotonic() - begin
        self._observer.ran(_rows(job.inputs), seconds)
        job.done(dict(outputs), Timing(begin - job.arrived, seconds))
        # What is learned can wait until the client has its answer.
        if self._batches:
            self._queue.ran([job], seconds)
        size = sum(array.nbytes for array in job.inputs.values())
        self._quick.ran_in_worker(size, seconds)

    def _run(self, instance: Instance, jobs: list[Job]) -> None:
        begin = time.monotonic()
        try:
            inputs = merge([job.inputs for job in jobs])
            result = self._call(instance, jobs, inputs)
            parts = split(result, [job.rows for job in jobs])
        except Exception:  # One request must not fail its neighbours.
            log.info("model %s: a batch failed, running it singly", self._name)
            return self._run_singly(instance, jobs)
        if parts is None:
            if self._batches:
                log.warning(
                    "model %s: outputs are not one row per input row; "
                    "it is not batched from now on",
                    self._name,
                )
            self._batches = False
            self._queue.apart = True
            return self._run_singly(instance, jobs)
        seconds = time.monotonic() - begin
        self._observer.ran(sum(_rows(job.inputs) for job in jobs), seconds)
        for job, part in zip(jobs, parts, strict=True):
            job.done(part, Timing(begin - job.arrived, seconds))
        # As above.
        if self._batches:
            self._queue.ran(jobs, seconds)
        return None

    def _run_singly(self, instance: Instance, jobs: list[Job]) -> None:
        for job in jobs:
            now = time.monotonic()
            if job.expires <= now:
                error = RequestTimeoutError(f"model {self._name}", "must begin in time")
                job.done(error, Timing(now - job.arrived, 0.0))
            else:
                self._run_one(instance, job)

    def _call(
        self, instance: Instance, jobs: list[Job], inputs: Arrays
    ) -> Mapping[str, Array]:
        with self._changing:
            self._running[instance] = jobs
        try:
            outputs = instance(inputs)
        finally:
            with self._changing:
                del self._running[instance]
        return self._checked(outputs)

    def _checked(self, outputs: Mapping[str, Array]) -> Mapping[str, Array]:
        if outputs.keys() != self._outputs:
            raise ValueError(
                f"outputs must be {sorted(self._outputs)}, got {sorted(outputs)}"
            )
        return outputs

    def _failed(self, error: Exception) -> ModelFailedError:
        log.warning("model %s failed: %s", self._name, error)
        return ModelFailedError(f"model {self._name}", f"failed: {error!s:.500}")


def _rows(inputs: Arrays) -> int:
    """Rows for the metrics, also of a request that is never batched."""
    array = next(iter(inputs.values()), None)
    return array.shape[0] if array is not None and array.ndim else 1
