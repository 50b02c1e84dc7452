"""Answers the calls of the protocol's gRPC service."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from proa_serving.models.service import METADATA, InferenceService
from proa_serving.protocol import rpc
from proa_serving.protocol.errors import InvalidRequestError, ServingError
from proa_serving.protocol.generated import open_inference_pb2 as pb
from proa_serving.protocol.messages import InferResponse

log = logging.getLogger("proa_serving.grpc")
Handler = Callable[[Any, Any], Awaitable[Any]]
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
_UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
# Answered while the server drains too, as they say that it does.
_ALWAYS = frozenset({"ServerLive", "ServerReady", "ModelReady", "ServerMetadata"})


class GrpcService:
    """One method for each of the service's, named as it is."""

    def __init__(self, service: InferenceService) -> None:
        self._service = service
        self._calls = 0  # in flight, of those that were not refused
        self._idle = asyncio.Event()
        self._idle.set()
        self._refusing: asyncio.Event | None = None
        self._refused: set[asyncio.Task[Any]] = set()

    async def drained(self, timeout: float) -> None:
        """Wait until no call is in flight, for ``timeout`` seconds at most."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout)

    @contextlib.asynccontextmanager
    async def last_refusals(self) -> AsyncIterator[None]:
        """Answer the calls that come meanwhile together, at the end.

        Clients that try again at once then find the port closed, and do not get
        in between the last answer and the end of the server.
        """
        self._refusing = asyncio.Event()
        yield
        self._refusing.set()
        if self._refused:
            await asyncio.wait(self._refused, timeout=1.0)

    def handler(self) -> grpc.GenericRpcHandler[Any, Any]:
        """All methods, under the protocol's public name."""
        return grpc.method_handlers_generic_handler(
            rpc.SERVICE,
            {
                name: grpc.unary_unary_rpc_method_handler(
                    self._guarded(name, request.FromString),
                    response_serializer=response.SerializeToString,
                )
                for name, (request, response) in rpc.METHODS.items()
            },
        )

    def _guarded(self, name: str, parse: Callable[[bytes], Any]) -> Handler:
        """The method ``name`` of what ``parse`` makes of the bytes, errors in kind.

        Parsing is done here, for grpc would answer bytes that are no message with
        UNKNOWN.
        """
        method: Callable[[Any], Awaitable[Any]] = getattr(self, name)

        async def call(data: bytes, context: Context) -> Any:
            if self._service.draining and name not in _ALWAYS:
                return await self._refuse(context)
            try:
                with self._in_flight(len(data)):
                    return await method(_parsed(data, parse))
            except ServingError as error:
                code, text = grpc.StatusCode[error.grpc_code], str(error)
            except Exception:
                log.exception("a gRPC call failed inside the server")
                code = grpc.StatusCode.INTERNAL
                text = "[server] failed; its log says more"
            return await _abort(context, code, text)

        return call

    @contextlib.contextmanager
    def _in_flight(self, size: int) -> Iterator[None]:
        self._service.budget.take(size)
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._service.budget.release(size)
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def _refuse(self, context: Context) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self._refused.add(task)
        task.add_done_callback(self._refused.discard)
        if self._refusing is not None:
            await self._refusing.wait()
        return await _abort(context, _UNAVAILABLE, "[server] is shutting down")

    async def ServerLive(self, _: pb.ServerLiveRequest) -> pb.ServerLiveResponse:
        return pb.ServerLiveResponse(live=True)

    async def ServerReady(self, _: pb.ServerReadyRequest) -> pb.ServerReadyResponse:
        return pb.ServerReadyResponse(ready=self._service.ready())

    async def ModelReady(
        self, request_message: pb.ModelReadyRequest
    ) -> pb.ModelReadyResponse:
        ready = self._service.model_ready(request_message.name, request_message.version)
        return pb.ModelReadyResponse(ready=ready)

    async def ServerMetadata(
        self, _: pb.ServerMetadataRequest
    ) -> pb.ServerMetadataResponse:
        return pb.ServerMetadataResponse(
            name=METADATA.name, version=METADATA.version, extensions=METADATA.extensions
        )

    async def ModelMetadata(
        self, request_message: pb.ModelMetadataRequest
    ) -> pb.ModelMetadataResponse:
        return rpc.encode_model_metadata(
            self._service.model_metadata(request_message.name, request_message.version)
        )

    async def ModelInfer(
        self, request_message: pb.ModelInferRequest
    ) -> pb.ModelInferResponse:
        try:
            request = rpc.decode_request(request_message)
        except ServingError as error:
            self._service.metrics.refused("grpc", error.reason)
            raise
        answer = self._service.infer(request, "grpc")
        if not isinstance(answer, InferResponse):
            answer = await answer
        return rpc.encode_response(answer, request)

    async def RepositoryIndex(
        self, request_message: pb.RepositoryIndexRequest
    ) -> pb.RepositoryIndexResponse:
        message = pb.RepositoryIndexResponse()
        for line in await self._service.index(request_message.ready):
            message.models.add(
                name=line.name,
                version=line.version,
                state=line.state,
                reason=line.reason,
            )
        return message

    async def RepositoryModelLoad(
        self, request_message: pb.RepositoryModelLoadRequest
    ) -> pb.RepositoryModelLoadResponse:
        await self._service.load(request_message.model_name)
        return pb.RepositoryModelLoadResponse()

    async def RepositoryModelUnload(
        self, request_message: pb.RepositoryModelUnloadRequest
    ) -> pb.RepositoryModelUnloadResponse:
        await self._service.unload(request_message.model_name)
        return pb.RepositoryModelUnloadResponse()


def _parsed(data: bytes, parse: Callable[[bytes], Any]) -> Any:
    try:
        return parse(data)
    except DecodeError as error:
        raise InvalidRequestError("grpc", f"must be a message: {error}") from error


async def _abort(context: Context, code: grpc.StatusCode, text: str) -> None:
    """End the call with an error; a client that is gone is none of ours."""
    if context.cancelled():
        raise asyncio.CancelledError
    await context.abort(code, text)
