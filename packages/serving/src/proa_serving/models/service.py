"""What the protocol offers, whichever way a request came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from proa_serving import __version__
from proa_serving.config import ServerConfig
from proa_serving.metrics import Metrics
from proa_serving.models.fast_path import FastPath
from proa_serving.models.repository import ModelRepository
from proa_serving.models.served import ServedModel
from proa_serving.models.shared_memory import SharedMemory
from proa_serving.observe.statistics import ModelStatistics
from proa_serving.observe.timeline import Timeline
from proa_serving.observe.trace import Tracer
from proa_serving.protocol.answers import Answers
from proa_serving.protocol.errors import (
    RetiredError,
    ServingError,
    TooLargeError,
    UnavailableError,
    UnsupportedError,
)
from proa_serving.protocol.messages import (
    IndexEntry,
    InferRequest,
    InferResponse,
    ModelMetadata,
    ServerMetadata,
    Tensor,
)
from proa_serving.schedule.budget import ByteBudget

_EXTENSIONS = (
    *("binary_tensor_data", "model_configuration", "model_repository"),
    *("schedule_policy", "sequence", "statistics"),
)
# Tensors beyond this many bytes are copied from and to shared memory by a thread.
_BIG = 2**20
Result = TypeVar("Result")


class InferenceService:
    """All that the REST and the gRPC front ends do; its methods never block."""

    def __init__(
        self, config: ServerConfig, repository: ModelRepository, metrics: Metrics
    ) -> None:
        self.config, self.metrics = config, metrics
        self.repository = repository
        self.budget = ByteBudget(config.max_in_flight_bytes)
        metrics.in_flight_bytes = lambda: self.budget.used
        self._memory = SharedMemory() if config.shared_memory else None
        self.draining = False
        self.tracer: Tracer | None = None
        self.timeline: Timeline | None = None

    def metadata(self) -> ServerMetadata:
        extensions: tuple[str, ...] = _EXTENSIONS
        if self._memory is not None:
            extensions += ("system_shared_memory",)
        return ServerMetadata("proa-serving", __version__, extensions)

    def drain(self) -> None:
        """Answer what is in flight and refuse what is new."""
        self.draining = True

    def close(self) -> None:
        """Unmap the regions that clients registered, once nothing is in flight."""
        if self._memory is not None:
            self._memory.unregister()

    def ready(self) -> bool:
        return not self.draining and self.repository.is_ready()

    def models(self) -> list[str]:
        """The names of those that are loaded."""
        return self.repository.names()

    def model_ready(self, name: str, version: str = "") -> bool:
        """Raises NotFoundError if there is no such model."""
        try:
            self.repository.find(name, version)
        except UnavailableError:
            return False
        return not self.draining

    def model_metadata(self, name: str, version: str = "") -> ModelMetadata:
        model = self.repository.find(name, version)
        return ModelMetadata(
            name,
            self.repository.versions(name),
            model.platform,
            model.inputs,
            model.outputs,
        )

    def infer(
        self, request: InferRequest, protocol: str
    ) -> InferResponse | Coroutine[Any, Any, InferResponse]:
        """The answer, or where it must wait for a worker what will become it."""
        if request.is_shared:
            return self._infer_shared(request, protocol)
        try:
            if self.draining:
                raise UnavailableError("server", "is shutting down")
            model = self.repository.answers(request)
        except ServingError as error:
            self.refused(protocol, error, request)
            raise
        try:
            if self.tracer is not None:
                return self.tracer.infer(model, request, protocol)
            return model.infer(request, protocol)
        except RetiredError as error:
            # It was replaced just now; if not, it is being unloaded.
            successor = self.repository.answers(request)
            if successor is model:
                self.refused(protocol, error, request)
                raise
        return successor.infer(request, protocol)

    def refused(
        self, protocol: str, error: ServingError, request: InferRequest
    ) -> None:
        """Count a request that reaches no model, and write it in the access log."""
        self.count_refusal(
            protocol, error.reason, str(error), request.model, request.client
        )

    def count_refusal(
        self, protocol: str, reason: str, message: str, model: str, client: str
    ) -> None:
        """As :meth:`refused`, of what is not decoded.

        Args:
            protocol: What it came by.
            reason: Why, as :attr:`ServingError.reason`.
            message: The error's.
            model: What it names, if that is known.
            client: Who sent it.
        """
        self.metrics.refused(protocol, reason)
        if self.tracer is not None:
            self.tracer.refused(protocol, reason, message, model, client)

    def answers(self, request: InferRequest) -> Answers:
        """What answers ``request``, as :meth:`ModelRepository.answers` says."""
        return self.repository.answers(request)

    def fast_path(
        self, request: InferRequest, places: Sequence[int], protocol: str
    ) -> FastPath | None:
        """What answers requests that repeat ``request`` with other numbers.

        Args:
            request: Its inputs are raw and not BYTES.
            places: Where the bytes of each will begin.
            protocol: What they come by.

        Returns:
            None if its model is none that runs by itself and gives raw outputs, or if
            it is in error.
        """
        if request.id or request.is_shared:
            return None
        try:
            model = self.answers(request)
            if not isinstance(model, ServedModel):
                return None
            path = FastPath(self, model, request, places, protocol)
        except ServingError:
            return None
        if any(held.datatype == "BYTES" for held in path.outputs):
            return None
        return path

    def statistics(self, name: str = "", version: str = "") -> list[ModelStatistics]:
        """Statistics of the named versions, of all that are or were served.

        Raises:
            NotFoundError: If there is no such model or version.
        """
        if name:
            self.repository.find(name, version)
        return [
            ModelStatistics.of(*held)
            for held in self.metrics.held()
            if name in ("", held[0]) and version in ("", held[1])
        ]

    def model_config(self, name: str, version: str = "") -> dict[str, Any]:
        """The configuration of a model, in the form of Triton's."""
        # Late, as it would be part of the start of every server.
        from proa_serving.models.triton_config import config_for_triton

        return config_for_triton(self.repository.find(name, version))

    def shadow_report(self, name: str) -> dict[str, Any]:
        """How a model's shadow differs.

        Raises:
            NotFoundError: If it has none.
        """
        return self.repository.shadow_report(name).to_json()

    async def _infer_shared(
        self, request: InferRequest, protocol: str
    ) -> InferResponse:
        """Infer with inputs from, and outputs to, shared memory."""
        size = sum(each.slice.byte_size for each in request.shared_inputs)
        try:
            memory = self.shared_memory()
            limit = self.config.max_request_bytes
            if size > limit:
                raise TooLargeError(
                    "request", f"shared inputs must be at most {limit} bytes"
                )
            self.budget.take(size)
        except ServingError as error:
            self.refused(protocol, error, request)
            raise
        try:
            return await self._infer_in(memory, size, request, protocol)
        finally:
            self.budget.release(size)

    async def _infer_in(
        self, memory: SharedMemory, size: int, request: InferRequest, protocol: str
    ) -> InferResponse:
        try:
            inputs = await _copied(size, lambda: memory.read(request.shared_inputs))
        except ServingError as error:
            self.refused(protocol, error, request)
            raise
        plain = replace(
            request,
            inputs=request.inputs + inputs,
            shared_inputs=[],
            outputs=[replace(output, slice=None) for output in request.outputs],
        )
        answer = self.infer(plain, protocol)
        response = answer if isinstance(answer, InferResponse) else await answer
        targets = {held.name: held.slice for held in request.outputs}

        def put(tensor: Tensor) -> Tensor:
            target = targets.get(tensor.name)
            return tensor if target is None else memory.write(tensor, target)

        response.outputs = await _copied(
            sum(held.array.nbytes for held in response.outputs),
            lambda: [put(tensor) for tensor in response.outputs],
        )
        return response

    def shared_memory(self) -> SharedMemory:
        """The regions that clients registered.

        Raises:
            UnsupportedError: If the server is without.
        """
        if self._memory is None:
            raise UnsupportedError(
                "server", "must be started with --shared-memory to use shared memory"
            )
        return self._memory

    async def register_memory(
        self, name: str, key: str, offset: int, byte_size: int
    ) -> None:
        """Let requests use shared memory, as :meth:`SharedMemory.register` does."""
        memory = self.shared_memory()
        await asyncio.to_thread(memory.register, name, key, offset, byte_size)

    async def unregister_memory(self, name: str) -> None:
        """Forget a region, or with no name all of them."""
        await asyncio.to_thread(self.shared_memory().unregister, name)

    async def index(self, ready_only: bool) -> list[IndexEntry]:
        return await asyncio.to_thread(self.repository.index, ready_only)

    async def load(self, name: str) -> None:
        await asyncio.to_thread(self.repository.load, name)

    async def unload(self, name: str) -> None:
        await asyncio.to_thread(self.repository.unload, name)


async def _copied(size: int, copy: Callable[[], Result]) -> Result:
    """What ``copy`` returns, off the event loop if it is of many bytes."""
    return await asyncio.to_thread(copy) if size > _BIG else copy()
