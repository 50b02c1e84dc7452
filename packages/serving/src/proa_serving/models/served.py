"""One version of a model, loaded and running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from proa_serving.backends.base import BackendOptions
from proa_serving.backends.registry import find_backend
from proa_serving.config import ServerConfig
from proa_serving.metrics import Metrics
from proa_serving.models.fit import fit_inputs, fit_outputs
from proa_serving.protocol.errors import (
    ModelFailedError,
    ModelLoadError,
    NotFoundError,
    RequestTimeoutError,
    ServingError,
)
from proa_serving.protocol.messages import (
    Array,
    InferRequest,
    InferResponse,
    Tensor,
    TensorSpec,
)
from proa_serving.schedule.merge import Arrays
from proa_serving.schedule.queue import Timing
from proa_serving.schedule.scheduler import Scheduler

_NO_WAIT = Timing(0.0, 0.0)


class ServedModel:
    """Loads ``path`` and starts its workers; blocks while it loads.

    Raises:
        NotFoundError: If there is no such file.
        ModelLoadError: If it cannot be used.
    """

    def __init__(
        self,
        name: str,
        version: str,
        path: Path,
        config: ServerConfig,
        metrics: Metrics,
    ) -> None:
        if not path.is_file():
            raise NotFoundError(f"model {name}", f"expected a file, got {path}")
        self.name, self.version = name, version
        self._timeout = config.timeout_s
        options = BackendOptions(threads=config.threads)
        self._metrics = metrics.of_model(name, version)
        try:
            model = find_backend(path).load(path, options)
            self._scheduler = Scheduler(
                name,
                model,
                instances=config.instances,
                limits=config.limits,
                observer=self._metrics,
            )
        except ServingError:
            raise
        except Exception as error:
            raise ModelLoadError(f"model {name}", f"must load: {error}") from error
        self.platform = model.platform
        self.inputs, self.outputs = tuple(model.inputs), tuple(model.outputs)
        self._metrics.watch_queue(lambda: self._scheduler.waiting)

    def close(self, grace: float) -> bool:
        """Stop its workers; True if all requests were finished in ``grace``."""
        return self._scheduler.close(grace)

    def infer(
        self, request: InferRequest, protocol: str
    ) -> InferResponse | Coroutine[Any, Any, InferResponse]:
        """Answer ``request``, at once if no thread is needed for it.

        Must be called on an event loop, and does not block it for longer than it
        would take to give the request to a worker.
        """
        began = time.monotonic()
        try:
            if request.expires is not None and began >= request.expires:
                raise RequestTimeoutError(
                    f"model {self.name}", "must run before the client stops waiting"
                )
            inputs = fit_inputs(request, self.inputs)
            wanted = fit_outputs(request, self.outputs)
            arrays = self._scheduler.run_here(inputs)
        except ServingError as error:
            self._metrics.began(protocol)
            self._metrics.failed(protocol, error.reason)
            if isinstance(error, ModelFailedError):  # It ran.
                self._metrics.waited(_NO_WAIT)
            self._metrics.ended(time.monotonic() - began)
            raise
        if arrays is None:
            return self._infer(request, protocol, inputs, wanted)
        self._metrics.began(protocol)
        self._metrics.waited(_NO_WAIT)
        self._metrics.ended(time.monotonic() - began)
        return self._response(request, wanted, arrays)

    async def _infer(
        self,
        request: InferRequest,
        protocol: str,
        inputs: Arrays,
        wanted: list[TensorSpec],
    ) -> InferResponse:
        began = time.monotonic()
        self._metrics.began(protocol)
        try:
            arrays = await self._run(inputs, self._seconds_for(request))
        except ServingError as error:
            self._metrics.failed(protocol, error.reason)
            raise
        except asyncio.CancelledError:
            self._metrics.failed(protocol, "cancelled")
            raise
        finally:
            self._metrics.ended(time.monotonic() - began)
        return self._response(request, wanted, arrays)

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

    def _seconds_for(self, request: InferRequest) -> float:
        # The protocol's scheduling extension: microseconds, in the request itself.
        seconds = self._timeout
        timeout_us = request.parameters.get("timeout")
        if type(timeout_us) is int and timeout_us > 0:
            seconds = min(seconds, timeout_us / 1e6)
        if request.expires is not None:
            seconds = min(seconds, max(0.0, request.expires - time.monotonic()))
        return seconds

    async def _run(self, inputs: Arrays, timeout: float) -> Arrays:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Arrays] = loop.create_future()

        def settle(result: Arrays | ServingError, timing: Timing) -> None:
            self._metrics.waited(timing)
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

        def expire() -> None:
            if not answer.done():
                answer.set_exception(
                    RequestTimeoutError(
                        f"model {self.name}", f"must answer within {timeout:g} s"
                    )
                )

        job = self._scheduler.submit(inputs, done)
        timer = loop.call_later(timeout, expire)
        try:
            return await answer
        except BaseException:
            self._scheduler.cancel(job)
            raise
        finally:
            timer.cancel()
