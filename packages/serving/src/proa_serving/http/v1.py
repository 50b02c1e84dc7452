"""The paths of the V1 protocol, of KServe and TensorFlow Serving, where it is on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeVar

from proa_serving.http.body import IN_PLACE, Buffer
from proa_serving.http.messages import Reply, Request
from proa_serving.http.routes import Route
from proa_serving.models.service import InferenceService
from proa_serving.protocol.errors import NotFoundError, UnavailableError
from proa_serving.protocol.messages import InferResponse
from proa_serving.protocol.rest_v1 import (
    decode_predict,
    encode_predictions,
    model_status,
    signature_metadata,
)

Result = TypeVar("Result")
Action = Callable[[Route, Request], Reply | Coroutine[Any, Any, Reply]]


class Decode(Protocol):
    """Decodes a body, off the event loop where that takes long."""

    async def __call__(
        self, request: Request, decode: Callable[[Buffer], Result], text: str | None, /
    ) -> Result: ...


class V1Actions:
    """Answers requests of the V1 protocol.

    Args:
        service: What does the work.
        decode: Gets what a function makes of a request's body.
        coded: Runs a function off the event loop.
    """

    def __init__(
        self,
        service: InferenceService,
        decode: Decode,
        coded: Callable[..., Coroutine[Any, Any, Any]],
    ) -> None:
        self._service, self._decode, self._coded = service, decode, coded
        actions: dict[str, Action] = {
            "v1_alive": self._alive,
            "v1_models": self._models,
            "v1_status": self._status,
            "v1_metadata": self._metadata,
            "v1_predict": self._predict,
        }
        if not service.config.v1:
            actions = dict.fromkeys(actions, _off)
        self.by_name = actions

    def _alive(self, *_: object) -> Reply:
        return Reply.of_json({"status": "alive"})

    def _models(self, *_: object) -> Reply:
        return Reply.of_json({"models": self._service.models()})

    def _status(self, route: Route, _: Request) -> Reply:
        problem = None
        versions: tuple[str, ...] = (route.version,) if route.version else ()
        try:
            held = self._service.model_metadata(route.model, route.version)
            versions = versions or held.versions
            if self._service.draining:
                raise UnavailableError("server", "is shutting down")
        except UnavailableError as error:
            problem = error
        status = model_status(route.model, versions, problem)
        return Reply.of_json(status, 200 if problem is None else 503)

    def _metadata(self, route: Route, _: Request) -> Reply:
        held = self._service.model_metadata(route.model, route.version)
        version = route.version or held.versions[-1]
        return Reply.of_json(signature_metadata(held, version))

    async def _predict(self, route: Route, request: Request) -> Reply:
        model = self._service.model_metadata(route.model, route.version)
        read = partial(decode_predict, model, route.version)
        decoded, by_row = await self._decode(request, read, None)
        decoded.headers, decoded.client = request.headers, request.sender
        answer = self._service.infer(decoded, "http")
        response = answer if isinstance(answer, InferResponse) else await answer
        write = partial(encode_predictions, response, by_row=by_row)
        if sum(held.array.size for held in response.outputs) > IN_PLACE:
            return Reply([await self._coded(write)])
        return Reply([write()])


def _off(_: Route, __: Request) -> Reply:
    raise NotFoundError("http", "the server must be started with --v1 for this path")
