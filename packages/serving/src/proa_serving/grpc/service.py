"""The gRPC service on grpcio's server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import grpc

from proa_serving.grpc.methods import ALWAYS, STREAM_INFER, GrpcMethods
from proa_serving.http2.calls import RESOURCE_EXHAUSTED, CallHead, Status
from proa_serving.http2.dispatch import Parts
from proa_serving.http2.stream import Message
from proa_serving.models.service import InferenceService
from proa_serving.protocol.errors import QueueFullError

Handler = Callable[[Any, Any], Awaitable[Any]]
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class GrpcService:
    """Carries the calls of grpcio's server to the methods.

    Args:
        service: What draining is known of.
        methods: What answers.
    """

    def __init__(self, service: InferenceService, methods: GrpcMethods) -> None:
        self._service, self._methods = service, methods
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

    def handlers(self) -> list[grpc.GenericRpcHandler[Any, Any]]:
        """All methods, by service."""
        found: dict[str, dict[str, Any]] = {}
        for path in self._methods.paths:
            _, service, name = path.split("/")
            handler = grpc.unary_unary_rpc_method_handler(self._unary(path))
            found.setdefault(service, {})[name] = handler
        _, service, name = STREAM_INFER.split("/")
        found[service][name] = grpc.stream_stream_rpc_method_handler(self._stream)
        return [
            grpc.method_handlers_generic_handler(service, handlers)
            for service, handlers in found.items()
        ]

    def _unary(self, path: str) -> Handler:
        async def call(data: bytes, context: Context) -> Any:
            if self._service.draining and path not in ALWAYS:
                await self._refuse()
            head = _head(path, context)
            try:
                with self._in_flight(len(data)):
                    client, _ = self._methods.check(head, _address(context), False)
                    left = context.time_remaining()
                    expires = None if left is None else time.monotonic() + left
                    message = Message(data, False)
                    answer = self._methods.call(head, message, expires, client)
                    parts: Parts = answer if isinstance(answer, list) else await answer
                    return b"".join(parts)
            except QueueFullError as error:
                await self._abort_full(head, context, error)
            except Status as status:
                await _abort(context, _CODES[status.code], status.message)

        return call

    async def _abort_full(
        self, head: CallHead, context: Context, error: QueueFullError
    ) -> None:
        status = Status(RESOURCE_EXHAUSTED, str(error), error.reason)
        self._methods.refused(head, status, _address(context))
        await _abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, status.message)

    async def _stream(self, messages: AsyncIterator[bytes], context: Context) -> None:
        head, client = _head(STREAM_INFER, context), _address(context)
        arrived = aiter(messages)
        held = 0

        async def receive() -> Message | None:
            nonlocal held
            self._service.budget.release(held)
            held = 0
            try:
                data = await anext(arrived)
            except StopAsyncIteration:
                return None
            self._service.budget.take(len(data))
            held = len(data)
            return Message(data, False)

        async def send(parts: Parts) -> None:
            await context.write(b"".join(parts))

        try:
            with self._in_flight(0):
                self._methods.check(head, client, False)
                await self._methods.converse(head, client, receive, send)
        except QueueFullError as error:
            await self._abort_full(head, context, error)
        except Status as status:
            await _abort(context, _CODES[status.code], status.message)
        finally:
            self._service.budget.release(held)

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

    async def _refuse(self) -> None:
        """Hold a call back that the methods refuse, where others are too."""
        task = asyncio.current_task()
        assert task is not None
        self._refused.add(task)
        task.add_done_callback(self._refused.discard)
        if self._refusing is not None:
            await self._refusing.wait()


def _head(path: str, context: Context) -> CallHead:
    metadata = dict(context.invocation_metadata() or ())
    authorization, api_key = (
        text if isinstance(text, bytes) else str(text).encode("latin-1", "replace")
        for text in (metadata.get("authorization", ""), metadata.get("x-api-key", ""))
    )
    headers = {
        key.encode("latin-1"): value
        if isinstance(value, bytes)
        else value.encode("latin-1", "replace")
        for key, value in metadata.items()
    }
    return CallHead(path, None, b"identity", authorization, api_key, headers=headers)


def _address(context: Context) -> str:
    """The client's address; the port is not part of who it is."""
    kind, _, rest = context.peer().partition(":")
    return "unix" if kind == "unix" else rest.rpartition(":")[0]


async def _abort(context: Context, code: grpc.StatusCode, text: str) -> None:
    """End the call with an error; a client that is gone is none of ours."""
    if context.cancelled():
        raise asyncio.CancelledError
    await context.abort(code, text)
