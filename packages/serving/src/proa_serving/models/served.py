"""One version of a model, loaded and running."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from proa_serving.backends.base import BackendOptions, Model
from proa_serving.backends.registry import find_backend
from proa_serving.config import ServerConfig
from proa_serving.metrics import Metrics
from proa_serving.models.cache import ResponseCache, cache_key
from proa_serving.models.cores import available_cores, share_cores
from proa_serving.models.fit import fit_inputs, fit_outputs, fit_specs, seconds_for
from proa_serving.models.sequences import SequenceTable
from proa_serving.models.settings import ModelSettings
from proa_serving.models.waiting import Answered, Bounds, Deadlines, WaitingRun
from proa_serving.models.warmup import warmup_inputs
from proa_serving.protocol.answers import Answer, Answers
from proa_serving.protocol.errors import (
    ModelFailedError,
    ModelLoadError,
    RequestTimeoutError,
    RetiredError,
    ServingError,
)
from proa_serving.protocol.messages import (
    Array,
    InferRequest,
    InferResponse,
    Tensor,
    TensorSpec,
)
from proa_serving.schedule.buckets import crop_all, pad_all
from proa_serving.schedule.job import Job, Timing
from proa_serving.schedule.merge import Arrays
from proa_serving.schedule.scheduler import BatchShape, Scheduler

_NO_WAIT = Timing(0.0, 0.0)
_loads = itertools.count(1)


class Served(Answers, Protocol):
    """A loaded version of a model."""

    name: str
    version: str
    platform: str
    settings: ModelSettings
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def close(self, grace: float) -> bool:
        """Stop its workers; True if all requests were finished in ``grace``."""
        ...


@dataclass
class Context:
    """What all models of a server share.

    ``successor`` finds what replaced a model that takes no more requests.
    """

    config: ServerConfig
    metrics: Metrics
    cache: ResponseCache
    successor: Callable[[InferRequest], Answers]


class ServedModel:
    """Loads ``path`` and starts its workers; blocks while it loads and warms up.

    Args:
        name: The model's.
        version: Its version.
        path: Its file.
        settings: How it is served.
        context: What all models share.
        model: What ``path`` holds, if that is loaded already.

    Raises:
        ModelLoadError: If it cannot be used.
    """

    def __init__(
        self,
        name: str,
        version: str,
        path: Path,
        settings: ModelSettings,
        context: Context,
        model: Model | None = None,
    ) -> None:
        self.name, self.version, self.settings = name, version, settings
        self._context = context
        self._timeout = context.config.timeout_s
        self._limits = settings.limits
        self._load = next(_loads)
        instances, threads = share_cores(
            settings.instances, settings.threads, available_cores()
        )
        options = BackendOptions(threads, settings.parameters)
        self.metrics = context.metrics.of_model(name, version)
        self._sequences: SequenceTable | None = None
        try:
            if model is None:
                model = find_backend(path, settings.backend).load(path, options)
            fit_specs(name, model, settings)
            self._prepare(model)
            self.scheduler = Scheduler(
                name,
                model,
                instances=instances,
                limits=settings.limits,
                observer=self.metrics,
                warmup=warmup_inputs(settings.warmup, model.inputs, name),
                must_warm=settings.warmup is not None,
            )
        except ServingError:
            raise
        except Exception as error:
            raise ModelLoadError(f"model {name}", f"cannot load: {error}") from error
        self.metrics.watch_queue(
            lambda: self.scheduler.waiting, lambda: len(self.scheduler.gate)
        )

    def _prepare(self, model: Model) -> None:
        settings = self.settings
        self.platform = model.platform
        self.inputs, self.outputs = tuple(model.inputs), tuple(model.outputs)
        if settings.sequence is not None:
            self._sequences = SequenceTable(
                self.name, settings.sequence, self.inputs, self.outputs
            )
            self.inputs = self._sequences.inputs
            self.outputs = self._sequences.outputs
        known = {spec.name for spec in model.inputs}
        for bucket in settings.buckets:
            wanted = {bucket.input, bucket.length} - {""}
            if not wanted <= known:
                raise ModelLoadError(
                    f"model {self.name}",
                    f"buckets must name inputs, not {sorted(wanted - known)}",
                )
        lengths = {bucket.length for bucket in settings.buckets}
        self.inputs = tuple(spec for spec in self.inputs if spec.name not in lengths)
        self._plain = (
            settings.sequence is None and not settings.buckets and not settings.cache
        )

    def close(self, grace: float) -> bool:
        """Stop its workers; True if all requests were finished in ``grace``."""
        return self.scheduler.close(grace)

    def infer(self, request: InferRequest, protocol: str) -> Answer:
        """Answer ``request``, at once if no thread is needed for it.

        Must be called on an event loop, and does not block it for longer than it
        would take to give the request to a worker.

        Raises:
            RetiredError: If it takes no more requests; nothing was counted.
        """
        began = time.monotonic()
        try:
            if request.expires is not None and began >= request.expires:
                raise RequestTimeoutError(
                    f"model {self.name}", "must run before the client stops waiting"
                )
            inputs = fit_inputs(request, self.inputs)
            wanted = self.wanted(request)
            if not self._plain:
                return self._infer_specially(request, protocol, inputs, wanted, began)
            arrays = self.scheduler.run_here(inputs)
            if arrays is None:
                run = self._run(inputs, request)
                return self._infer(request, protocol, run, wanted, began)
        except RetiredError:
            raise
        except ServingError as error:
            self._count_failure(error, protocol, began)
            raise
        self.metrics.ran_at_once(protocol, began)
        if request.watch is not None:
            request.watch("compute", began, time.monotonic())
        return self._response(request, wanted, arrays)

    def wanted(self, request: InferRequest) -> list[TensorSpec]:
        """The outputs that ``request`` wants, in its order."""
        return fit_outputs(request, self.outputs)

    def infer_at_once(
        self, inputs: Arrays, protocol: str
    ) -> Mapping[str, Array] | None:
        """All outputs, if the model is idle and faster than a worker is woken.

        Args:
            inputs: As the model wants them.
            protocol: What they came by.

        Raises:
            ModelFailedError: If the model raised.
        """
        if not self._plain:
            return None
        began = time.monotonic()
        try:
            arrays = self.scheduler.run_here(inputs)
        except ServingError as error:
            self._count_failure(error, protocol, began)
            raise
        if arrays is not None:
            self.metrics.ran_at_once(protocol, began)
        return arrays

    def is_quick(self, size: int) -> bool:
        """Whether requests of ``size`` bytes are for :meth:`infer_at_once`."""
        return self.scheduler.is_quick(size)

    def infer_later(
        self,
        inputs: Arrays,
        shape: BatchShape,
        bounds: Bounds,
        deadlines: Deadlines,
        protocol: str,
        answered: Answered,
    ) -> WaitingRun | None:
        """Queue a request; None if it must be inferred as others are.

        Args:
            inputs: As the model wants them.
            shape: Their.
            bounds: As of :meth:`bounds`.
            deadlines: Of requests with the same bounds.
            protocol: What it came by.
            answered: Takes the outputs, all of them, or the error.

        Raises:
            ServingError: If it is refused.
        """
        if not self._plain:
            return None
        began = time.monotonic()
        run = WaitingRun(self.name, self.scheduler, self.metrics, protocol, answered)
        try:
            run.start(inputs, shape, bounds, deadlines)
        except RetiredError:
            self.metrics.withdrawn(protocol)
            return None  # Its successor is found there.
        except ServingError as error:
            self.metrics.failed(protocol, error.reason, began)
            self.metrics.ended(began)
            raise
        return run

    def _count_failure(self, error: ServingError, protocol: str, began: float) -> None:
        """Count the failure of a request that did not wait for a worker."""
        self.metrics.began(protocol)
        self.metrics.failed(protocol, error.reason, began)
        if isinstance(error, ModelFailedError):  # It ran.
            self.metrics.waited(_NO_WAIT)
        self.metrics.ended(began)

    async def _infer(
        self,
        request: InferRequest,
        protocol: str,
        run: Coroutine[Any, Any, Mapping[str, Array]],
        wanted: list[TensorSpec],
        began: float,
    ) -> InferResponse:
        self.metrics.began(protocol)
        try:
            arrays = await run
        except ServingError as error:
            self.metrics.failed(protocol, error.reason, began)
            raise
        except asyncio.CancelledError:
            self.metrics.failed(protocol, "cancelled", began)
            raise
        finally:
            self.metrics.ended(began)
        return self._response(request, wanted, arrays)

    async def _infer_specially(
        self,
        request: InferRequest,
        protocol: str,
        inputs: Arrays,
        wanted: list[TensorSpec],
        began: float,
    ) -> InferResponse:
        run = self._run_specially(inputs, request)
        try:
            return await self._infer(request, protocol, run, wanted, began)
        except RetiredError:
            successor = self._context.successor(request)
            if successor is self:
                raise
            answer = successor.infer(request, protocol)
            return answer if isinstance(answer, InferResponse) else await answer

    async def _run_specially(
        self, inputs: Arrays, request: InferRequest
    ) -> Mapping[str, Array]:
        """With what the settings say: from the cache, with state, and padded."""
        cache = self._context.cache
        key = cache_key(self._load, inputs) if self.settings.cache else None
        if key is not None:
            found = cache.get(key)
            if found is not None:
                self.metrics.cache_hits += 1
                return found
            self.metrics.cache_misses += 1
        if self._sequences is not None:
            outputs = await self._sequences.run(self._run_padded, inputs, request)
        else:
            outputs = await self._run_padded(inputs, request)
        if key is not None:
            cache.put(key, outputs)
        return outputs

    async def _run_padded(
        self, inputs: Arrays, request: InferRequest
    ) -> Mapping[str, Array]:
        buckets = self.settings.buckets
        if not buckets:
            return await self._run(inputs, request)
        inputs, sizes = pad_all(buckets, inputs)
        return crop_all(buckets, await self._run(inputs, request), sizes)

    def _response(
        self,
        request: InferRequest,
        wanted: list[TensorSpec],
        arrays: Mapping[str, Array],
    ) -> InferResponse:
        outputs = [
            Tensor(held.name, held.datatype, arrays[held.name]) for held in wanted
        ]
        return InferResponse(self.name, self.version, outputs, request.id)

    def _run(
        self, inputs: Arrays, request: InferRequest
    ) -> Coroutine[Any, Any, Arrays]:
        """Queue a request now, so that a model which retires later still runs it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Arrays] = loop.create_future()
        watch = request.watch

        def settle(result: Arrays | ServingError, timing: Timing) -> None:
            self.metrics.waited(timing)
            if watch is not None and timing.computed:
                ended = time.monotonic()
                begun = job.arrived + timing.queued
                watch("queue", job.arrived, begun)
                watch("compute", begun, min(ended, begun + timing.computed))
            if answer.done():
                return
            if isinstance(result, ServingError):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        def done(result: Arrays | ServingError, timing: Timing) -> None:
            try:
                loop.call_soon_threadsafe(settle, result, timing)
            except RuntimeError:  # The loop ended before the model did.
                if not loop.is_closed():
                    raise

        bounds = self.bounds(request)
        expires = time.monotonic() + bounds.begin
        job = self.scheduler.submit(inputs, done, expires, bounds.priority)
        return self._answered(answer, job, bounds.seconds)

    def bounds(self, request: InferRequest) -> Bounds:
        """What ``request`` may take.

        Raises:
            InvalidRequestError: If its priority is none.
        """
        seconds = begin = seconds_for(request, self._timeout)
        if self._limits.wait_us:
            begin = min(begin, self._limits.wait_us / 1e6)
        level = self._limits.level(request.parameters.get("priority"))
        return Bounds(seconds, begin, level)

    async def _answered(
        self, answer: asyncio.Future[Arrays], job: Job, timeout: float
    ) -> Arrays:
        def expire() -> None:
            if not answer.done():
                answer.set_exception(
                    RequestTimeoutError(
                        f"model {self.name}", f"must answer within {timeout:g} s"
                    )
                )

        timer = asyncio.get_running_loop().call_later(timeout, expire)
        try:
            return await answer
        except BaseException:
            self.scheduler.cancel(job)
            raise
        finally:
            timer.cancel()
