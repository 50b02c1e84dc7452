"""What the protocol offers, whichever way a request came."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from proa_serving import __version__
from proa_serving.config import ServerConfig
from proa_serving.metrics import Metrics
from proa_serving.models.repository import ModelRepository
from proa_serving.models.triton_config import config_for_triton
from proa_serving.observe.statistics import ModelStatistics
from proa_serving.observe.timeline import Timeline
from proa_serving.observe.trace import Tracer
from proa_serving.protocol.errors import (
    ForbiddenError,
    RetiredError,
    ServingError,
    UnavailableError,
)
from proa_serving.protocol.messages import (
    IndexEntry,
    InferRequest,
    InferResponse,
    ModelMetadata,
    ServerMetadata,
)
from proa_serving.schedule.budget import ByteBudget

METADATA = ServerMetadata(
    "proa-serving",
    __version__,
    (
        *("binary_tensor_data", "model_configuration", "model_repository"),
        *("schedule_policy", "sequence", "statistics"),
    ),
)


class InferenceService:
    """All that the REST and the gRPC front ends do; its methods never block."""

    def __init__(
        self, config: ServerConfig, repository: ModelRepository, metrics: Metrics
    ) -> None:
        self.config, self.metrics = config, metrics
        self._repository = repository
        self.budget = ByteBudget(config.max_in_flight_bytes)
        metrics.in_flight_bytes = lambda: self.budget.used
        self.draining = False
        self.tracer: Tracer | None = None
        self.timeline: Timeline | None = None

    def drain(self) -> None:
        """Answer what is in flight and refuse what is new."""
        self.draining = True

    def ready(self) -> bool:
        return not self.draining and bool(self._repository.names())

    def model_ready(self, name: str, version: str = "") -> bool:
        """Raises NotFoundError if there is no such model."""
        try:
            self._repository.find(name, version)
        except UnavailableError:
            return False
        return not self.draining

    def model_metadata(self, name: str, version: str = "") -> ModelMetadata:
        model = self._repository.find(name, version)
        return ModelMetadata(
            name,
            self._repository.versions(name),
            model.platform,
            model.inputs,
            model.outputs,
        )

    def infer(
        self, request: InferRequest, protocol: str
    ) -> InferResponse | Coroutine[Any, Any, InferResponse]:
        """The answer, or where it must wait for a worker what will become it."""
        try:
            if self.draining:
                raise UnavailableError("server", "is shutting down")
            model = self._repository.answers(request)
        except ServingError as error:
            self.metrics.refused(protocol, error.reason)
            raise
        try:
            if self.tracer is not None:
                return self.tracer.infer(model, request, protocol)
            return model.infer(request, protocol)
        except RetiredError as error:
            # It was replaced just now; if not, it is being unloaded.
            successor = self._repository.answers(request)
            if successor is model:
                self.metrics.refused(protocol, error.reason)
                raise
        return successor.infer(request, protocol)

    def statistics(self, name: str = "", version: str = "") -> list[ModelStatistics]:
        """Of all versions that are or were served, those that are named.

        Raises:
            NotFoundError: If there is no such model or version.
        """
        if name:
            self._repository.find(name, version)
        return [
            ModelStatistics.of(*held)
            for held in self.metrics.held()
            if name in ("", held[0]) and version in ("", held[1])
        ]

    def model_config(self, name: str, version: str = "") -> dict[str, Any]:
        """The configuration of a model, in the form of Triton's."""
        return config_for_triton(self._repository.find(name, version))

    def shadow_report(self, name: str) -> dict[str, Any]:
        """How a model's shadow differs.

        Raises:
            NotFoundError: If it has none.
        """
        return self._repository.shadow_report(name).to_json()

    async def index(self, ready_only: bool) -> list[IndexEntry]:
        return await asyncio.to_thread(self._repository.index, ready_only)

    async def load(self, name: str) -> None:
        self._check_control()
        await asyncio.to_thread(self._repository.load, name)

    async def unload(self, name: str) -> None:
        self._check_control()
        await asyncio.to_thread(self._repository.unload, name)

    def _check_control(self) -> None:
        if not self.config.model_control:
            raise ForbiddenError(
                "server", "must be started with --model-control to load or unload"
            )
