"""One HTTP connection: parses requests, and writes answers in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

import httptools

from proa_serving.http.answers import Answers
from proa_serving.http.body import IN_PLACE, Body, too_large
from proa_serving.http.heads import KnownHeads, check_head, feed, oversize
from proa_serving.http.messages import CONTINUE, Head, Reply, Request, send
from proa_serving.http.repeats import HttpRepeats
from proa_serving.http.timed import TimedConnection
from proa_serving.http.waiting import WaitingAnswer
from proa_serving.protocol.errors import InvalidRequestError, ServingError
from proa_serving.security.guard import address_of
from proa_serving.transport.owner import Owner
from proa_serving.transport.phases import (
    BLOCKED,
    BODY,
    BUSY,
    HEAD,
    IDLE,
    LINGER,
    NEW,
)
from proa_serving.transport.unread import unread_bytes

known_heads = KnownHeads()


class HttpConnection(TimedConnection):
    """Serves one client.

    Small requests are received into a buffer that connections share, as parsing ends
    before the next is read. A large body is received where its array will be.

    Args:
        owner: What the connections share.
        loop: The event loop.
        health_only: Answer health checks and nothing else, once.
    """

    __slots__ = (
        *("_client", "_deaf", "_failure", "_head_bytes", "_in_place"),
        *("_parser", "_paused", "_request", "_unknown", "_waiting"),
    )

    def __init__(
        self, owner: Owner[Answers], loop: asyncio.AbstractEventLoop, health_only: bool
    ) -> None:
        super().__init__(owner, loop, health_only)
        self._client = ""  # its address
        self._parser: Any = httptools.HttpRequestParser(self)
        self._request: Request | None = None  # what is being received
        self._waiting: deque[Request] = deque()  # complete, behind the one in progress
        self._in_place: Body | None = None  # where bytes go instead of to the parser
        self._head_bytes = 0
        self._unknown = b""  # the head that is parsed now, if it came whole
        self._deaf = False  # what the client writes is not read
        self._failure: ServingError | None = None  # answers what follows those waiting
        self._paused = False  # reading
        self._set_deadline()

    # The transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._client = address_of(transport)
        if not (self.health_only or self._owner.draining):
            self._repeats = HttpRepeats.of(
                transport,
                self._owner,
                self._take_native,
                self._give_native,
                self._touch,
            )
        if self.phase is LINGER:  # Closed before it was there.
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.forget(self)
        self.phase = LINGER
        if self.running is not None:
            # Not before it began: what it is to await would never be awaited.
            self._loop.call_soon(self.running.cancel)
        self._drop()
        self._unread.release()
        self._parser = None  # holds this connection too

    def pause_writing(self) -> None:
        self._blocked = True
        if self.phase is IDLE and not self._deaf:  # The transport answered.
            size = self._transport.get_write_buffer_size()
            self._unread.charge(size, unread_bytes(self._transport))
            self._enter(BLOCKED)
            self._read(False)
            self._set_deadline()

    def resume_writing(self) -> None:
        self._blocked = False
        self._unread.release()
        if self.phase is BLOCKED:
            self._enter(IDLE)
            self._continue()
        elif self.phase is LINGER:
            self._enter(LINGER)
        self._set_deadline()

    def get_buffer(self, size_hint: int) -> memoryview:
        return self._in_place.rest() if self._in_place else self._owner.buffer

    def buffer_updated(self, count: int) -> None:
        if self._in_place is not None:
            self._received(self._in_place, count)
        elif not self._deaf:
            data = self._owner.buffer[:count]
            # Between two requests: clients repeat their heads byte for byte.
            if self._request is None and not self.health_only:
                data = self._take_known(data)
            if data and not self._deaf:
                self._parse(data)
        self._settle()

    def _settle(self) -> None:
        """The end of this iteration of the loop."""
        self._set_deadline()
        if self._repeats and self.phase is IDLE and self._request is None:
            self._repeats.expect()

    def _take_known(self, data: memoryview) -> memoryview:
        """Take the requests whose heads were parsed before; what follows them."""
        while data and self._request is None and not self._deaf:
            head, found = known_heads.find(data)
            self._unknown = head
            taken = -1 if found is None else self._take(found, data[len(head) :])
            if found is None or taken < 0:
                break  # The parser counts it, or puts it together.
            data = data[len(head) + taken :]
            if self._repeats:
                self._repeats.learn_head(head, found)
        return data

    def _take(self, head: Head, rest: memoryview) -> int:
        """Serve a request that was parsed as far as its head; the bytes of its body.

        Returns:
            How many were taken of ``rest``; -1 if it must be parsed.
        """
        length, limit = head.length or 0, self._owner.max_request_bytes
        is_whole = length <= len(rest)
        if length > limit or not (is_whole or length > IN_PLACE):
            return -1
        request = self._request = Request.of_head(head)
        part = rest[:length]
        try:
            self._admit_client(request)
            if head.length is not None:
                request.charge(self._owner.budget, len(part))
                request.body = Body(head.length, head.skip)
                request.body.append(part)
        except ServingError as error:
            self._fail(error)
            return len(part)
        if is_whole:
            self.on_message_complete()
        else:
            self._enter(BODY)
            self._in_place = request.body
        return len(part)

    def _take_native(self, head: Head, body: int, end: int) -> bool:
        """As :meth:`_take`, of what the transport has in the buffer."""
        if self._request is not None or self.phase is not IDLE or self._deaf:
            return False
        taken = self._take(head, self._owner.buffer[body:end])
        self._settle()
        return taken >= 0

    def _give_native(self, head: Head, memory: Any, size: int, charged: int) -> None:
        """Serve a request whose body the transport has received, or begun to."""
        request = Request.of_head(head)
        request.client, request.charged = self._client, charged
        body = Body.received(memoryview(memory), head.skip, size)
        request.body, self.running = body, None
        try:
            request.charge(self._owner.budget, size - charged)
        except ServingError as error:
            self._request = request
            self._fail(error)
            return
        if body.rest():
            self._request, self._in_place = request, body
            self._enter(BODY)
        elif self._blocked:
            self._waiting.appendleft(request)
            self._read(False)
            self._enter(BLOCKED)
        else:
            self._start(request)
            self._continue()
        self._settle()

    def _touch(self) -> None:
        """The transport answered a request."""
        self.deadline = self._loop.time() + self._owner.seconds[IDLE]

    def _received(self, body: Body, count: int) -> None:
        """Bytes of a body arrived where they belong."""
        assert self._request is not None
        body.size += count
        try:
            self._request.charge(self._owner.budget, count)
        except ServingError as error:
            self._fail(error)
            return
        if not body.rest():
            self._in_place = None
            if self._request.known is None:  # The parser may have seen its head.
                self._parser = httptools.HttpRequestParser(self)
            self.on_message_complete()

    def _parse(self, data: memoryview) -> None:
        try:
            if not feed(self._parser, data):
                return
        except ServingError as error:
            if not self._deaf:
                self._fail(error)
            return
        self._unknown = b""
        request = self._request
        body = None if request is None else request.body
        if request is None or body is not None:
            self._in_place = body if body is not None and body.in_place else None
            return
        self._head_bytes += len(data)
        if refusal := oversize(self._head_bytes):
            self._fail(refusal)

    # The parser's callbacks; none may raise

    def on_message_begin(self) -> None:
        if self._deaf:
            return
        self._request = Request()
        self._head_bytes = 0
        if self.phase in (NEW, IDLE):
            self._enter(HEAD)

    def on_url(self, url: bytes) -> None:
        if self._request is not None:
            self._request.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        request = self._request
        if request is None:
            return
        name = name.lower()
        if name == b"host" and name in request.headers:
            self._fail(InvalidRequestError("http", "must have one Host, got two"))
            return
        request.headers[name] = value

    def on_headers_complete(self) -> None:
        request, parser = self._request, self._parser
        if request is None:
            return
        request.method = parser.get_method()
        request.keep_alive = parser.should_keep_alive() and not parser.should_upgrade()
        is_current = parser.get_http_version() == "1.1"
        try:
            self._admit(request, is_current)
        except ServingError as error:
            self._fail(error)
            return
        head, self._unknown = self._unknown, b""
        if head and is_current and request.keep_alive and request.refusal is None:
            parsed = known_heads.add(head, request)
            if self._repeats and parsed is not None:
                self._repeats.learn_head(head, parsed)

    def _admit(self, request: Request, is_current: bool) -> None:
        """Refuse what can be refused by its head alone."""
        check_head(request, needs_host=is_current, health_only=self.health_only)
        self._admit_client(request)
        headers, limit = request.headers, self._owner.max_request_bytes
        request.body = Body.of_head(headers, limit)
        if request.body is None:
            return
        if request.body.length != 0 and self.phase is HEAD:
            self._enter(BODY)
        waits = headers.get(b"expect", b"").lower() == b"100-continue"
        if waits and self.running is None and not self._waiting:
            self._transport.write(CONTINUE)

    def _admit_client(self, request: Request) -> None:
        """Refuse a client by its key or its rate."""
        try:
            self._owner.answers.admit(request, self._client)
        except ServingError as error:
            if not request.is_small():  # It is not worth to be received.
                raise
            request.refusal = error

    def on_body(self, data: bytes) -> None:
        request = self._request
        if request is None:
            return
        assert request.body is not None
        try:
            request.charge(self._owner.budget, len(data))
            if request.body.size + len(data) > self._owner.max_request_bytes:
                raise too_large(self._owner.max_request_bytes)
            request.body.append(data)
        except ServingError as error:
            self._fail(error)

    def on_message_complete(self) -> None:
        request = self._request
        if request is None:
            return
        self._request = None
        if self.running is not None or self._blocked:
            self._waiting.append(request)
            self._read(False)
            if self.running is None:
                self._enter(BLOCKED)
        else:
            self._start(request)

    # Answers

    def _start(self, request: Request) -> None:
        self._enter(BUSY)
        known = self._repeats.begin(request, self.answered) if self._repeats else None
        if isinstance(known, WaitingAnswer):
            self.running = known
            return
        if known is not None:
            self._enter(IDLE)
            self._transport.writelines(known)
            request.release(self._owner.budget)
            return
        answer: Reply | Coroutine[Any, Any, Reply]
        if request.refusal is None:
            answer = self._owner.answers.answer(request)
        else:
            self._owner.answers.refused(request, request.refusal)
            answer = Reply.of_error(request.refusal)
        if isinstance(answer, Reply):
            self._write(request, answer)
            return
        self.running = self._loop.create_task(answer)
        self.running.add_done_callback(lambda task: self._finish(request, task))

    def _finish(self, request: Request, task: asyncio.Task[Reply]) -> None:
        if not task.cancelled():
            self.answered(request, task.result())
            return
        self.running = None
        request.release(self._owner.budget)

    def answered(self, request: Request, reply: Reply | None) -> None:
        """The answer to the request in progress, unless it was sent or cancelled."""
        self.running = None
        if self.phase is LINGER:  # The client is gone.
            request.release(self._owner.budget)
            return
        if reply is None:
            request.release(self._owner.budget)
            self._enter(BLOCKED if self._blocked else IDLE)
        else:
            self._write(request, reply)
        self._continue()
        self._settle()

    def _continue(self) -> None:
        """Answer what arrived meanwhile, then read on."""
        while self._waiting and self.phase is IDLE:
            self._start(self._waiting.popleft())
        if self.phase is not IDLE:
            return
        if self._failure is not None:
            error, self._failure = self._failure, None
            self._write(Request(), Reply.of_error(error, close=True))
            return
        self._read(True)
        if self._request is not None:
            self._enter(HEAD if self._request.body is None else BODY)

    def _write(self, request: Request, reply: Reply) -> None:
        """Write an answer; the connection then waits for the next request."""
        close = reply.close or not request.keep_alive or self._owner.draining
        if b"origin" in request.headers:
            reply.headers += self._owner.answers.cors(request.headers[b"origin"])
        parts = reply.encode(close=close, body=request.method != b"HEAD")
        size = send(self._transport, parts)
        if self._blocked:
            self._unread.charge(size, unread_bytes(self._transport))
        request.release(self._owner.budget)
        if close:
            self._linger()
        else:
            self._enter(BLOCKED if self._blocked else IDLE)
            if self._repeats and self.phase is IDLE:
                self._repeats.learn(request)

    def _fail(self, error: ServingError) -> None:
        """Answer a request of which the rest is not read, and close."""
        self._deaf = True
        answering = self.running is not None or bool(self._waiting)
        request = self._request or Request()
        request.release(self._owner.budget)
        request.client = self._client
        self._owner.answers.refused(request, error)
        self._request = self._in_place = None
        if answering:  # Earlier requests are answered first.
            self._failure = error
        else:
            self._write(request, Reply.of_error(error, close=True))

    def _linger(self) -> None:
        """Say that no more is written, and read on until the client closes.

        Closing with bytes unread would reset the connection, and the answer be lost.
        """
        self._deaf = True
        self._enter(LINGER)
        self._drop()
        if not self._transport.can_write_eof():  # TLS reads on by itself.
            self._transport.close()
            return
        self._transport.write_eof()
        self._read(True)
        if self._blocked:  # The answer has to leave first.
            self.deadline = self._loop.time() + self._owner.seconds[BLOCKED]

    def _read(self, on: bool) -> None:
        """Read from the client, or let the kernel hold what it sends."""
        if self._paused is on and not self._transport.is_closing():
            self._paused = not on
            if on:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _drop(self) -> None:
        """Forget the requests that are not answered."""
        for held in filter(None, (self._request, *self._waiting)):
            held.release(self._owner.budget)
        self._request = self._in_place = None
        self._waiting.clear()
