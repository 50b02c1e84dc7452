"""Answers the calls of the protocol's gRPC service, whatever engine carries them."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
import zlib
from collections.abc import Callable, Coroutine
from typing import Any

from google.protobuf.message import DecodeError

from proa_serving.grpc.fast_path import GrpcFastPath
from proa_serving.http2.calls import (
    INTERNAL,
    INVALID_ARGUMENT,
    UNAVAILABLE,
    UNIMPLEMENTED,
    CallHead,
    Status,
)
from proa_serving.http2.dispatch import Parts, Receive, Send
from proa_serving.http2.stream import Buffer, Message
from proa_serving.models.service import InferenceService
from proa_serving.protocol import rpc, rpc_bytes
from proa_serving.protocol.errors import (
    InvalidRequestError,
    ServingError,
    TooLargeError,
    UnavailableError,
    UnsupportedError,
)
from proa_serving.protocol.generated import open_inference_pb2 as pb
from proa_serving.protocol.messages import InferRequest, InferResponse
from proa_serving.schedule.budget import ByteBudget
from proa_serving.security.guard import Guard
from proa_serving.security.keys import Caller

log = logging.getLogger("proa_serving.grpc")
Answer = Parts | Coroutine[Any, Any, Parts]
# (the message, when the client stops waiting, the head, who sent it)
Method = Callable[[Buffer, float | None, CallHead, str], Answer]
# The numbers of the codes that errors have.
CODES = {
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "OUT_OF_RANGE": 11,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}
_PREFIX = f"/{rpc.SERVICE}/"
STREAM_INFER = _PREFIX + rpc.STREAM_INFER
INFER = _PREFIX + "ModelInfer"
HEALTH = "/grpc.health.v1.Health/Check"
# Answered while the server drains too, as they say that it does.
_HEALTH = frozenset(
    {HEALTH, *(_PREFIX + name for name in ("ServerLive", "ServerReady", "ModelReady"))}
)
# For administrators.
_CONTROL = frozenset(
    _PREFIX + name for name in ("RepositoryModelLoad", "RepositoryModelUnload")
)
ALWAYS = _HEALTH | {_PREFIX + "ServerMetadata"}
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"
# Compressed messages beyond this are decompressed off the event loop.
_BIG = 2**16


class GrpcMethods:
    """One method for each of the service's, named as it is.

    Args:
        service: What does the work.
        guard: Lets calls in.
    """

    def __init__(self, service: InferenceService, guard: Guard) -> None:
        self._service, self._guard = service, guard
        self._budget: ByteBudget = service.budget
        self._limit = service.config.max_request_bytes
        self.find_raw = rpc_bytes.find_raw
        self._calls: dict[str, Method] = {
            INFER: self._infer,
            HEALTH: self._health,
            **{
                _PREFIX + name: self._plain(name, request.FromString)
                for name, (request, _) in rpc.METHODS.items()
                if name != "ModelInfer"
            },
        }

    @property
    def paths(self) -> tuple[str, ...]:
        """The methods of one request and one answer."""
        return tuple(self._calls)

    # What an engine calls

    def check(self, head: CallHead, client: str, health_only: bool) -> tuple[str, bool]:
        """Refuse a call by its head; else who sends it, and if it has many messages.

        Args:
            head: What it says.
            client: The address that it comes from.
            health_only: Refuse all but health checks.

        Raises:
            Status: If it is refused.
        """
        try:
            return self._check(head, client, health_only), head.path == STREAM_INFER
        except Status as status:
            self.refused(head, status, client)
            raise

    def refused(self, head: CallHead, status: Status, client: str) -> None:
        """Count a call that ends with ``status`` before it reached a method."""
        self._service.count_refusal("grpc", status.reason, status.message, "", client)

    def _check(self, head: CallHead, client: str, health_only: bool) -> str:
        path = head.path
        if path not in self._calls and path != STREAM_INFER:
            text = f"[grpc] expected a method, got {path[:200]!r}"
            raise Status(UNIMPLEMENTED, text, UnsupportedError.reason)
        if health_only and path not in _HEALTH:
            text = "[server] has as many connections as it may; try again later"
            raise Status(UNAVAILABLE, text, UnavailableError.reason)
        if self._service.draining and path not in ALWAYS:
            text = "[server] is shutting down"
            raise Status(UNAVAILABLE, text, UnavailableError.reason)
        if path in _CONTROL or not (self._guard.is_open or path in _HEALTH):
            return self._admit(head, client).name
        return client

    def _admit(self, head: CallHead, client: str) -> Caller:
        try:
            caller = self._guard.admit(head.authorization, head.api_key, client)
            if head.path in _CONTROL:
                controls = self._service.config.model_control
                self._guard.check_control(caller, controls)
        except ServingError as error:
            raise _status(error) from None
        return caller

    def call(
        self, head: CallHead, message: Message, expires: float | None, client: str
    ) -> Answer:
        """The parts of the message that answers ``message``, or what becomes them.

        Raises:
            Status: If the call fails, as its coroutine does.
        """
        try:
            if message.compressed:
                answer: Answer = self._inflated(head, message, expires, client)
            else:
                answer = self._calls[head.path](message.data, expires, head, client)
        except Exception as error:
            raise _status(error) from error
        return answer if isinstance(answer, list) else _guarded(answer)

    def fast_path(
        self, head: CallHead, message: memoryview
    ) -> Callable[[bytes], Parts | None] | None:
        """What gives the message that answers raw tensors, as ``message`` has them.

        Args:
            head: Head of the call.
            message: It was answered.

        Returns:
            None where calls like it are answered one by one.
        """
        if head.path != INFER or not self._guard.is_open:
            return None
        places = rpc_bytes.raw_ranges(message)
        if not places:
            return None
        try:
            request = rpc_bytes.decode_request(message)
        except ServingError:
            return None
        first = places[0][0]
        if any(held.datatype == "BYTES" for held in request.inputs):
            return None
        found = self._service.fast_path(
            request, [begin - first for begin, _ in places], "grpc"
        )
        if found is None:
            return None
        answer = GrpcFastPath(found, request)

        def call(data: bytes) -> Parts | None:
            try:
                return answer(data)
            except ServingError as error:
                raise _status(error) from error

        return call

    async def converse(
        self, head: CallHead, client: str, receive: Receive, send: Send
    ) -> None:
        """Infer for each message that arrives; an error is an answer like others."""
        infer = dataclasses.replace(head, path=INFER)
        is_first, sender = True, client  # it was admitted with the head
        while (message := await receive()) is not None:
            try:
                if not (is_first or self._guard.is_open):
                    sender, _ = self.check(infer, client, False)
                is_first = False
                answer = self.call(infer, message, None, sender)
                parts = answer if isinstance(answer, list) else await answer
                response = pb.ModelInferResponse.FromString(b"".join(parts))
                found = pb.ModelStreamInferResponse(infer_response=response)
            except Status as status:
                found = pb.ModelStreamInferResponse(error_message=status.message)
            await send([found.SerializeToString()])

    async def _inflated(
        self, head: CallHead, message: Message, expires: float | None, client: str
    ) -> Parts:
        # Zeros become a thousand times as many.
        bound = min(self._limit, 1032 * len(message.data))
        try:
            self._budget.take(bound)
        except ServingError as error:
            self.refused(head, _status(error), client)
            raise
        try:
            try:
                data = await self._inflate(message.data)
            except (ServingError, Status) as error:
                self.refused(head, _status(error), client)
                raise
            answer = self._calls[head.path](data, expires, head, client)
            return answer if isinstance(answer, list) else await answer
        finally:
            self._budget.release(bound)

    async def _inflate(self, data: Buffer) -> bytes:
        if len(data) > _BIG:
            return await asyncio.to_thread(_inflate, data, self._limit)
        return _inflate(data, self._limit)

    # The methods

    def _infer(
        self, data: Buffer, expires: float | None, head: CallHead, client: str
    ) -> Answer:
        arrived = time.monotonic() if self._service.tracer is not None else 0.0
        try:
            request = rpc_bytes.decode_request(data)
        except ServingError as error:
            self.refused(head, _status(error), client)
            raise
        request.expires, request.headers = expires, head.headers
        request.arrived, request.client = arrived, client
        answer = self._service.infer(request, "grpc")
        if isinstance(answer, InferResponse):
            return rpc_bytes.encode_response(answer, request)
        return self._wait(answer, request)

    async def _wait(
        self, answer: Coroutine[Any, Any, InferResponse], request: InferRequest
    ) -> Parts:
        return rpc_bytes.encode_response(await answer, request)

    def _health(self, data: Buffer, *_: object) -> Parts:
        # HealthCheckRequest has the one field, a name, that ModelReadyRequest has too.
        name = _parsed(data, pb.ModelReadyRequest.FromString).name
        if name in ("", rpc.SERVICE):
            ready = self._service.ready()
        else:
            ready = self._service.model_ready(name)
        return [_SERVING if ready else _NOT_SERVING]

    def _plain(self, name: str, parse: Callable[[bytes], Any]) -> Method:
        """The method ``name``, of bytes that are its message."""
        method: Callable[[Any], Any] = getattr(self, name)

        def call(data: Buffer, *_: object) -> Answer:
            answer = method(_parsed(data, parse))
            if asyncio.iscoroutine(answer):
                return _serialized(answer)
            return [answer.SerializeToString()]

        return call

    def ServerLive(self, _: pb.ServerLiveRequest) -> pb.ServerLiveResponse:
        return pb.ServerLiveResponse(live=True)

    def ServerReady(self, _: pb.ServerReadyRequest) -> pb.ServerReadyResponse:
        return pb.ServerReadyResponse(ready=self._service.ready())

    def ModelReady(self, request: pb.ModelReadyRequest) -> pb.ModelReadyResponse:
        ready = self._service.model_ready(request.name, request.version)
        return pb.ModelReadyResponse(ready=ready)

    def ServerMetadata(self, _: pb.ServerMetadataRequest) -> pb.ServerMetadataResponse:
        held = self._service.metadata()
        return pb.ServerMetadataResponse(
            name=held.name, version=held.version, extensions=held.extensions
        )

    def ModelMetadata(
        self, request: pb.ModelMetadataRequest
    ) -> pb.ModelMetadataResponse:
        held = self._service.model_metadata(request.name, request.version)
        return rpc.encode_model_metadata(held)

    def ModelConfig(self, request: pb.ModelConfigRequest) -> pb.ModelConfigResponse:
        held = self._service.model_config(request.name, request.version)
        return rpc.encode_model_config(held)

    def ModelStatistics(
        self, request: pb.ModelStatisticsRequest
    ) -> pb.ModelStatisticsResponse:
        found = self._service.statistics(request.name, request.version)
        return rpc.encode_statistics([held.to_json() for held in found])

    async def RepositoryIndex(
        self, request: pb.RepositoryIndexRequest
    ) -> pb.RepositoryIndexResponse:
        message = pb.RepositoryIndexResponse()
        for line in await self._service.index(request.ready):
            message.models.add(
                name=line.name,
                version=line.version,
                state=line.state,
                reason=line.reason,
            )
        return message

    async def RepositoryModelLoad(
        self, request: pb.RepositoryModelLoadRequest
    ) -> pb.RepositoryModelLoadResponse:
        await self._service.load(request.model_name)
        return pb.RepositoryModelLoadResponse()

    async def RepositoryModelUnload(
        self, request: pb.RepositoryModelUnloadRequest
    ) -> pb.RepositoryModelUnloadResponse:
        await self._service.unload(request.model_name)
        return pb.RepositoryModelUnloadResponse()

    def SystemSharedMemoryStatus(
        self, request: pb.SystemSharedMemoryStatusRequest
    ) -> pb.SystemSharedMemoryStatusResponse:
        message = pb.SystemSharedMemoryStatusResponse()
        for held in self._service.shared_memory().status(request.name):
            line = message.regions[held.name]
            line.name, line.key = held.name, held.key
            line.offset, line.byte_size = held.offset, held.byte_size
        return message

    async def SystemSharedMemoryRegister(
        self, request: pb.SystemSharedMemoryRegisterRequest
    ) -> pb.SystemSharedMemoryRegisterResponse:
        await self._service.register_memory(
            request.name, request.key, request.offset, request.byte_size
        )
        return pb.SystemSharedMemoryRegisterResponse()

    async def SystemSharedMemoryUnregister(
        self, request: pb.SystemSharedMemoryUnregisterRequest
    ) -> pb.SystemSharedMemoryUnregisterResponse:
        await self._service.unregister_memory(request.name)
        return pb.SystemSharedMemoryUnregisterResponse()


async def _serialized(answer: Coroutine[Any, Any, Any]) -> Parts:
    message = await answer
    return [message.SerializeToString()]


async def _guarded(answer: Coroutine[Any, Any, Parts]) -> Parts:
    try:
        return await answer
    except Exception as error:
        raise _status(error) from error


def _status(error: Exception) -> Status:
    if isinstance(error, Status):
        return error
    if isinstance(error, ServingError):
        code = CODES.get(error.grpc_code, INTERNAL)
        return Status(code, str(error), error.reason)
    log.error("a gRPC call failed inside the server", exc_info=error)
    return Status(INTERNAL, "[server] failed; its log says more")


def _parsed(data: Buffer, parse: Callable[[bytes], Any]) -> Any:
    try:
        return parse(bytes(data))
    except DecodeError as error:
        text = f"the message cannot be parsed: {error}"
        raise InvalidRequestError("grpc", text) from error


def _inflate(data: Buffer, limit: int) -> bytes:
    """A message without its gzip or deflate."""
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # gzip or zlib
    try:
        found = unpack.decompress(data, limit + 1)
    except zlib.error as error:
        raise Status(
            INTERNAL, f"[grpc] a compressed message is damaged: {error}"
        ) from error
    if len(found) > limit:
        raise TooLargeError(
            "request", f"must be at most {limit} bytes when decompressed"
        )
    if not unpack.eof or unpack.unused_data:
        raise Status(
            INVALID_ARGUMENT, "[grpc] a compressed message must be one whole stream"
        )
    return found
