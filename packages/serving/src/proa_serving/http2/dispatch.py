"""Gives the messages of calls to the service, and its answers to the client."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from proa_serving.http2.calls import (
    DEADLINE_EXCEEDED,
    INTERNAL,
    OK_TRAILERS,
    RESOURCE_EXHAUSTED,
    UNAVAILABLE,
    CallHead,
    Status,
)
from proa_serving.http2.outgoing import Outgoing
from proa_serving.http2.stream import Buffer, Message, Stream
from proa_serving.protocol.errors import QueueFullError
from proa_serving.transport.owner import Owner

log = logging.getLogger("proa_serving.grpc")
# Bytes of the budget for a call's headers and what is stored with its message,
_STREAM_BYTES = 2048
# and for each message of a call that has many.
_MESSAGE_BYTES = 256
# A message at the limit, and the fields around it.
_MESSAGE_OVERHEAD = 4096

Parts = list[Buffer]
Receive = Callable[[], Awaitable[Message | None]]
Send = Callable[[Parts], Awaitable[None]]


class Answers(Protocol):
    """The service. What it raises is a :class:`Status`."""

    def check(self, head: CallHead, client: str, health_only: bool) -> tuple[str, bool]:
        """Refuse a call by its head; else who sends it, and if it has many messages."""
        ...

    def refused(self, head: CallHead, status: Status, client: str) -> None:
        """A call ends with ``status`` before it reached a method."""
        ...

    def find_raw(self, data: memoryview) -> int:
        """Where in a message that begins with ``data`` its raw bytes begin."""
        ...

    def call(
        self, head: CallHead, message: Message, expires: float | None, client: str
    ) -> Parts | Coroutine[Any, Any, Parts]:
        """The message that answers ``message``."""
        ...

    def fast_path(
        self, head: CallHead, message: memoryview
    ) -> Callable[[bytes], Parts | None] | None:
        """What gives the message that answers raw tensors, as ``message`` has them.

        It raises a Status where the call fails, and returns None where the call must be
        answered as others are; so does this where all are.
        """
        ...

    def converse(
        self, head: CallHead, client: str, receive: Receive, send: Send
    ) -> Coroutine[Any, Any, None]:
        """Answer messages until there are no more."""
        ...


class Dispatcher:
    """The calls of one connection.

    Args:
        owner: What connections share.
        out: Where answers go.
        loop: The event loop.
        health_only: Whether health checks alone are answered.
    """

    def __init__(
        self,
        owner: Owner[Answers],
        out: Outgoing,
        loop: asyncio.AbstractEventLoop,
        health_only: bool,
    ) -> None:
        self._owner, self._out, self._loop = owner, out, loop
        self._health_only = health_only
        self.client = ""  # its address, once connected
        self._limit = owner.max_request_bytes + _MESSAGE_OVERHEAD
        self._messages: dict[int, Message] = {}  # of calls that have one, by stream

    # What arrives

    def open(self, stream: Stream) -> None:
        """The head of a call arrived."""
        head = stream.head
        if head.http_status != 200:
            self._out.refuse_http(stream, head.http_status)
            return
        try:
            if head.status is not None:
                raise head.status
            self._charge(stream, _STREAM_BYTES)
        except Status as status:
            self._refuse(stream, status)
            return
        try:
            stream.client, many = self._owner.answers.check(
                head, self.client, self._health_only
            )
        except Status as status:
            self._fail(stream, status)
            return
        if many:
            self._converse(stream)

    def receive(self, stream: Stream, data: memoryview) -> None:
        """Bytes of a call's messages arrived."""
        find_raw = self._owner.answers.find_raw
        try:
            self._charge(stream, len(data))
            if stream.put(data):
                return
            for message in stream.receive(data, self._limit, find_raw):
                self._take(stream, message)
        except Status as status:
            self._refuse(stream, status)

    def filled(self, stream: Stream, count: int) -> None:
        """Bytes of a call's message arrived where they belong."""
        try:
            message = stream.filled(count)
            self._charge(stream, count)
            if message is not None:
                self._take(stream, message)
        except Status as status:
            self._refuse(stream, status)

    def end(self, stream: Stream) -> None:
        """The client sends no more."""
        try:
            stream.finish()
            if stream.feed is not None:
                stream.feed(None)
                return
            message = self._messages.pop(stream.id, None)
            if message is None:
                raise Status(INTERNAL, "[grpc] a call must have a message, got none")
            if stream.expires is not None and time.monotonic() >= stream.expires:
                raise _too_late(stream)
        except Status as status:
            self._refuse(stream, status)
            return
        self._run(stream, message)

    def expire(self, stream: Stream, now: float, limit: float) -> None:
        """End a call whose message does not arrive in time."""
        late = stream.expires is not None and now > stream.expires
        if late or now - stream.began > limit:
            text = f"[request] body must arrive within {limit:g} s"
            self._refuse(stream, Status(DEADLINE_EXCEEDED, text, "timeout"))

    def forget(self, stream: Stream) -> None:
        """A call is answered."""
        self._owner.budget.release(stream.charged)
        stream.charged = 0
        self._messages.pop(stream.id, None)
        if stream.timer is not None:
            stream.timer.cancel()
        task, stream.task = stream.task, None
        if task is not None and not task.done():
            # Not before it began: what it is to await would never be awaited.
            self._loop.call_soon(task.cancel)

    cancel = forget

    # Calls of one message

    def _take(self, stream: Stream, message: Message) -> None:
        if stream.feed is not None:
            self._charge(stream, _MESSAGE_BYTES)
            stream.feed(message)
        elif stream.id in self._messages:
            raise Status(INTERNAL, "[grpc] a call must have one message, got more")
        else:
            self._messages[stream.id] = message

    def _run(self, stream: Stream, message: Message) -> None:
        try:
            answer = self._owner.answers.call(
                stream.head, message, stream.expires, stream.client
            )
        except Status as status:
            self._fail(stream, status)
            return
        if isinstance(answer, list):
            self._out.finish(stream, answer)
            return
        task = stream.task = self._loop.create_task(answer)
        task.add_done_callback(functools.partial(self._answered, stream))
        self._set_timer(stream)

    def _answered(self, stream: Stream, task: asyncio.Task[Parts]) -> None:
        if stream.task is not task:  # It was cancelled, or is too late.
            if not task.cancelled():
                task.exception()
            return
        stream.task = None
        try:
            self._out.finish(stream, task.result())
        except asyncio.CancelledError:
            self._fail(stream, _CUT)
        except Status as status:
            self._fail(stream, status)
        except Exception:
            log.exception("a gRPC call failed inside the server")
            self._fail(stream, Status(INTERNAL, "[server] failed; its log says more"))
        self._out.flush()

    def _set_timer(self, stream: Stream) -> None:
        if stream.expires is not None:
            left = stream.expires - time.monotonic()
            stream.timer = self._loop.call_later(max(0.0, left), self._expired, stream)

    def _expired(self, stream: Stream) -> None:
        if stream.task is not None:
            self._fail(stream, _too_late(stream))
            self._out.flush()

    def _refuse(self, stream: Stream, status: Status) -> None:
        """End a call that reached no method."""
        self._owner.answers.refused(stream.head, status, stream.client or self.client)
        self._fail(stream, status)

    def _fail(self, stream: Stream, status: Status) -> None:
        self._out.fail(stream, status.code, status.message)

    # Calls of many messages

    def _converse(self, stream: Stream) -> None:
        arrived: asyncio.Queue[Message | None] = asyncio.Queue()
        stream.feed = arrived.put_nowait
        held = 0

        async def receive() -> Message | None:
            nonlocal held
            self._release(stream, held)  # the one before is answered
            message = await arrived.get()
            held = 0 if message is None else len(message.data) + _MESSAGE_BYTES
            return message

        async def send(parts: Parts) -> None:
            if stream.task is None:
                raise asyncio.CancelledError
            self._out.send(stream, parts)
            self._out.flush()
            if stream.unsent:
                stream.on_written = self._loop.create_future()
                await stream.on_written

        answers = self._owner.answers
        talk = answers.converse(stream.head, self.client, receive, send)
        stream.task = self._loop.create_task(talk)
        stream.task.add_done_callback(functools.partial(self._conversed, stream))
        self._set_timer(stream)

    def _conversed(self, stream: Stream, task: asyncio.Task[None]) -> None:
        if stream.task is not task:
            if not task.cancelled():
                task.exception()
            return
        stream.task = None
        try:
            task.result()
            self._out.end(stream, OK_TRAILERS)
        except asyncio.CancelledError:
            self._fail(stream, _CUT)
        except Status as status:
            self._fail(stream, status)
        except Exception:
            log.exception("a gRPC call failed inside the server")
            self._fail(stream, Status(INTERNAL, "[server] failed; its log says more"))
        self._out.flush()

    # Memory

    def _charge(self, stream: Stream, count: int) -> None:
        try:
            self._owner.budget.take(count)
        except QueueFullError as error:
            raise Status(RESOURCE_EXHAUSTED, str(error), error.reason) from None
        stream.charged += count

    def _release(self, stream: Stream, count: int) -> None:
        count = min(count, stream.charged)
        self._owner.budget.release(count)
        stream.charged -= count


_CUT = Status(UNAVAILABLE, "[server] is shutting down; the request was cut")


def _too_late(stream: Stream) -> Status:
    return Status(
        DEADLINE_EXCEEDED,
        f"[grpc] must answer within the client's {stream.head.timeout:g} s",
        "timeout",
    )
