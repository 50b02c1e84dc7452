"""One gRPC connection: its streams, windows and limits."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from typing import Any

from proa_serving.http2 import frames
from proa_serving.http2.call_heads import CallHeads
from proa_serving.http2.calls import CallHead
from proa_serving.http2.dispatch import Answers, Dispatcher, Parts
from proa_serving.http2.frames import (
    CANCEL,
    COMPRESSION_ERROR,
    ENHANCE_YOUR_CALM,
    FRAME_SIZE_ERROR,
    INTERNAL_ERROR,
    NO_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    STREAM_CLOSED,
    Http2Error,
    StreamError,
)
from proa_serving.http2.hpack import CompressionError
from proa_serving.http2.outgoing import Outgoing
from proa_serving.http2.reader import MAX_DATA_BYTES, MAX_HEADER_BYTES, FrameReader
from proa_serving.http2.repeats import KnownCall, learn_call
from proa_serving.http2.stream import Stream
from proa_serving.security.guard import address_of
from proa_serving.transport.owner import Owner
from proa_serving.transport.phases import (
    BLOCKED,
    BODY,
    BUSY,
    IDLE,
    LINGER,
    NEW,
    has_unread,
)
from proa_serving.transport.repeats import Repeats
from proa_serving.transport.unread import unread_bytes

log = logging.getLogger("proa_serving.grpc")

# What a client may send before it is granted more.
_STREAM_WINDOW = 4 * 2**20
_WINDOW = 16 * 2**20
_MAX_STREAMS = 256
# A payload is received in place if as much of it is missing.
_IN_PLACE_LEFT = 2**15
# Frames that cause work but belong to no message: as many at once, and a second.
_FRAMES_AT_ONCE, _FRAMES_A_SECOND = 2000, 1000
_CHECK_SECONDS = 0.25  # how often the times of calls are looked at
_LAST_STREAM = 2**31 - 1
ALPN = "h2"
_SETTINGS = frames.settings(
    {
        frames.MAX_CONCURRENT_STREAMS: _MAX_STREAMS,
        frames.INITIAL_WINDOW_SIZE: _STREAM_WINDOW,
        frames.MAX_FRAME_SIZE: MAX_DATA_BYTES,
        frames.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
    }
) + frames.window_update(0, _WINDOW - frames.DEFAULT_WINDOW)


class Http2Connection(asyncio.BufferedProtocol):
    """Serves one client.

    Bytes are received into a buffer that all connections share, as parsing ends before
    the next are read. The rest of a large DATA frame is received where its array will
    be.

    Args:
        owner: What the connections of one listener share.
        loop: The event loop.
        health_only: Answer health checks and nothing else.
    """

    def __init__(
        self, owner: Owner[Answers], loop: asyncio.AbstractEventLoop, health_only: bool
    ) -> None:
        self._owner, self._loop = owner, loop
        self.health_only = health_only
        self.sock: socket.socket | None = None
        self._transport: Any = None  # a Transport once connected
        self._out = Outgoing(owner.budget, self._ended)
        self._calls = Dispatcher(owner, self._out, loop, health_only)
        self._reader = FrameReader(self)
        self._heads = CallHeads()
        self._streams: dict[int, Stream] = {}
        self._last = 0  # the highest stream that the client opened
        self._stream: Stream | None = None  # whose DATA is arriving
        self._in_place: memoryview | None = None
        self._received = 0  # bytes that were not granted again
        self._frames, self._frames_since = float(_FRAMES_AT_ONCE), loop.time()
        self._unwritten = 0  # bytes when last looked at
        self._repeats: Repeats | None = None  # where the transport answers them
        self._enter(NEW)

    # Time

    def _enter(self, phase: str) -> None:
        self.phase = phase
        seconds = _CHECK_SECONDS if phase is BUSY else self._owner.seconds[phase]
        self.deadline = self._loop.time() + seconds

    def expire(self) -> None:
        """The time of the phase is over."""
        if self.phase is BUSY:
            self._enter(BUSY)
            self._expire_calls()
            self._out.flush()
        elif self.phase is BLOCKED:
            left = unread_bytes(self._transport)
            if left >= self._unwritten:
                self.abort()
                return
            self._unwritten = left
            self._enter(BLOCKED)
        elif self.phase is LINGER:
            self.abort()
        elif self._reader.begun and has_unread(self.sock):
            self._enter(self.phase)
        else:
            self.close()

    def _expire_calls(self) -> None:
        now = time.monotonic()
        for stream in list(self._streams.values()):
            if stream.unsent and now - stream.moved > self._owner.seconds[BLOCKED]:
                self._reset(stream, CANCEL)
            elif not stream.ended and stream.feed is None:
                self._calls.expire(stream, now, self._owner.seconds[BODY])

    def drain(self) -> None:
        """Make the client send its next call elsewhere; answer those on their way."""
        if self._repeats is not None:
            self._repeats.forget()
            self._repeats = None
        if self._reader.begun and self.phase is not LINGER:
            self._out.control(frames.goaway(_LAST_STREAM, NO_ERROR))
            self._out.flush()

    def cut(self) -> None:
        """End the calls in progress; they are answered that they were cut."""
        for stream in list(self._streams.values()):
            if stream.task is not None:
                stream.task.cancel()

    def close(self) -> None:
        """Close a connection that has nothing to answer."""
        self._owner.forget(self)
        if self._transport is None:
            self.phase = LINGER
            return
        if self._reader.begun:
            self._out.control(frames.goaway(self._last, NO_ERROR))
            self._out.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once, whatever is in progress."""
        self._owner.forget(self)
        if self._transport is None:
            self.phase = LINGER
        else:
            self._transport.abort()

    # The transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._out.transport = transport
        self._calls.client = address_of(transport)
        if not (self.health_only or self._owner.draining):
            self._repeats = Repeats.of(transport)
        secured = transport.get_extra_info("ssl_object")
        # RFC 9113, section 3.2: over TLS, HTTP/2 is negotiated.
        if secured is not None and secured.selected_alpn_protocol() != ALPN:
            self.abort()
        if self.phase is LINGER:  # Closed before it was there.
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.forget(self)
        self.phase = LINGER
        self._drop_all()

    def pause_writing(self) -> None:
        # What is read would only be answered into the same full buffer.
        self._out.blocked = True
        self._unwritten = unread_bytes(self._transport)
        if self.phase is not LINGER:
            self._enter(BLOCKED)
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._out.resumed()
        if self.phase is BLOCKED:
            self._enter(BUSY if self._streams else IDLE)
            self._transport.resume_reading()
        self._out.flush()

    def get_buffer(self, size_hint: int) -> memoryview:
        held = self._in_place
        return self._owner.buffer if held is None else held

    def buffer_updated(self, count: int) -> None:
        if self.phase is LINGER:
            return
        try:
            if self._in_place is None:
                data = self._owner.buffer[:count]
                self._reader.feed(data)
                if self._repeats and self.phase is IDLE and self._reader.at_boundary:
                    find = self._owner.answers.fast_path
                    self._repeats.expect()
                    learn_call(self._repeats, data, self._heads, find, self._repeat)
            else:
                self._filled(count)
            self._receive_in_place()
        except Http2Error as error:
            self._fail(error.code, str(error))
        except CompressionError as error:
            self._fail(COMPRESSION_ERROR, str(error))
        except Exception:
            log.exception("a gRPC connection failed inside the server")
            self._fail(INTERNAL_ERROR, "failed")
        self._out.flush()

    def _fail(self, code: int, message: str) -> None:
        """End the connection, and say why; then wait for the client to close."""
        log.debug("a gRPC connection ends: %s", message)
        self._drop_all()
        self._out.control(frames.goaway(self._last, code, message))
        self._out.flush()
        self._enter(LINGER)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def _count_frame(self) -> None:
        """Bound the frames that make no progress."""
        self._frames -= 1
        if self._frames < 0:
            now = self._loop.time()
            free = (now - self._frames_since) * _FRAMES_A_SECOND
            self._frames, self._frames_since = min(free, _FRAMES_AT_ONCE), now
            if self._frames < 1:
                raise Http2Error(ENHANCE_YOUR_CALM, "too many frames without effect")

    # Frames

    def on_begin(self) -> None:
        self._out.control(_SETTINGS)

    def on_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == frames.WINDOW_UPDATE:
            self._on_window_update(number, payload)
            return
        self._count_frame()
        if kind == frames.PING:
            if number or len(payload) != 8:
                raise _frame_error(number, "PING")
            if not flags & frames.ACK:
                self._out.control(frames.ping_ack(payload))
        elif kind == frames.SETTINGS:
            self._on_settings(flags, number, payload)
        elif kind == frames.RST_STREAM:
            self._on_reset(number, payload)
        elif kind == frames.PUSH_PROMISE:
            raise Http2Error(PROTOCOL_ERROR, "a client must not push")
        elif kind == frames.GOAWAY and number:
            raise Http2Error(PROTOCOL_ERROR, "GOAWAY must be on stream 0")
        elif kind == frames.PRIORITY:
            if not number:
                raise Http2Error(PROTOCOL_ERROR, "PRIORITY must be of a stream")
            if len(payload) != 5:
                self._stream_error(StreamError(number, FRAME_SIZE_ERROR))

    def _on_settings(self, flags: int, number: int, payload: bytes) -> None:
        ack = flags & frames.ACK
        if number:
            raise Http2Error(PROTOCOL_ERROR, "SETTINGS must be on stream 0")
        if len(payload) % 6 or (ack and payload):
            raise Http2Error(FRAME_SIZE_ERROR, "SETTINGS must be of 6 bytes each")
        if ack:
            return
        values = frames.parse_settings(payload)
        self._out.apply(values, list(self._streams.values()))
        self._out.control(frames.SETTINGS_ACK)
        if self.phase is NEW:
            if self._owner.draining:
                self._out.control(frames.goaway(_LAST_STREAM, NO_ERROR))
            self._enter(IDLE)

    def _on_window_update(self, number: int, payload: bytes) -> None:
        self._count_frame()
        if len(payload) != 4:
            raise Http2Error(FRAME_SIZE_ERROR, "WINDOW_UPDATE must be of 4 bytes")
        count = frames.parse_number(payload) & frames.MAX_WINDOW
        self._check_opened(number)
        stream = self._streams.get(number)
        if not count:
            if not number:
                raise Http2Error(PROTOCOL_ERROR, "WINDOW_UPDATE must be of 1 or more")
            self._stream_error(StreamError(number, PROTOCOL_ERROR))
        elif not number:
            self._out.grant(None, count)
        elif stream is not None:
            try:
                self._out.grant(stream, count)
            except StreamError as error:
                self._stream_error(error)

    def _on_reset(self, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(FRAME_SIZE_ERROR, "RST_STREAM must be of 4 bytes")
        if not number:
            raise Http2Error(PROTOCOL_ERROR, "RST_STREAM must be of a stream")
        self._check_opened(number)
        stream = self._streams.get(number)
        if stream is not None:
            self._drop(stream)

    def _check_opened(self, number: int) -> None:
        if number > self._last:
            raise Http2Error(PROTOCOL_ERROR, "a stream must be opened by HEADERS")

    # Calls

    def on_headers(self, number: int, block: bytes, ends: bool) -> None:
        stream = self._streams.get(number)
        if stream is not None:
            self._on_trailers(stream, block, ends)
            return
        if not number % 2:
            raise Http2Error(PROTOCOL_ERROR, "streams of a client must be odd")
        if number <= self._last:
            raise Http2Error(STREAM_CLOSED, "HEADERS must open a new stream")
        self._last = number
        head = self._heads.decode(block)
        if head is None:
            self._count_frame()
            self._out.control(frames.rst_stream(number, PROTOCOL_ERROR))
            return
        if len(self._streams) >= _MAX_STREAMS:
            self._count_frame()
            self._out.control(frames.rst_stream(number, REFUSED_STREAM))
            return
        stream = self._open(number, head)
        self._calls.open(stream)
        if ends and number in self._streams:
            self._calls.end(stream)

    def _open(self, number: int, head: CallHead) -> Stream:
        if not self._streams and self.phase is not BLOCKED:
            self._enter(BUSY)
        window = self._out.initial_window
        stream = self._streams[number] = Stream(number, head, window, time.monotonic())
        return stream

    def _repeat(
        self,
        known: KnownCall,
        answer: Callable[[bytes], Parts | None],
        data: bytes,
        number: int,
    ) -> Parts | None:
        """The frames that answer a repeated call; None where it is as any other."""
        if number <= self._last or not number % 2 or self.phase is not IDLE:
            return None
        if known.changes != self._heads.changes:
            return None
        message, status = known.call(answer, data)
        if message is None and status is None:
            return None
        self._last = number
        self._count_received(known.length)
        self._enter(IDLE)
        parts = None if message is None else self._out.whole(number, message)
        if parts is not None:
            return parts
        stream = self._open(number, known.head)
        stream.ended = True
        if status is not None:
            self._out.fail(stream, status.code, status.message)
        elif message is not None:
            self._out.finish(stream, message)
        self._out.flush()
        return []

    def _on_trailers(self, stream: Stream, block: bytes, ends: bool) -> None:
        are_trailers = self._heads.are_trailers(block)
        if stream.ended:
            self._stream_error(StreamError(stream.id, STREAM_CLOSED))
        elif not ends or not are_trailers:
            self._stream_error(StreamError(stream.id, PROTOCOL_ERROR))
        else:
            self._calls.end(stream)

    def on_data_begin(self, number: int, length: int) -> None:
        if not number:
            raise Http2Error(PROTOCOL_ERROR, "DATA must be of a stream")
        self._check_opened(number)
        self._count_received(length)
        if not length:
            self._count_frame()
        stream = self._stream = self._streams.get(number)
        if stream is None or stream.ended:
            self._stream = None
            self._count_frame()
            self._stream_error(StreamError(number, STREAM_CLOSED))
            return
        stream.received += length

    def _count_received(self, length: int) -> None:
        # Granted again as it arrives: what is kept of it is bounded by the budget.
        self._received += length
        if self._received > _WINDOW // 2:
            self._out.control(frames.window_update(0, self._received))
            self._received = 0

    def on_data(self, data: memoryview) -> None:
        if self._stream is not None:
            self._calls.receive(self._stream, data)

    def on_data_end(self, number: int, ends: bool) -> None:
        stream, self._stream = self._stream, None
        if stream is None or self._streams.get(number) is not stream:
            return
        if ends:
            self._calls.end(stream)
        elif stream.received > _STREAM_WINDOW // 2:
            self._out.control(frames.window_update(number, stream.received))
            stream.received = 0

    def _receive_in_place(self) -> None:
        """Let the rest of a large payload be received where its array will be."""
        self._in_place = None
        left, stream = self._reader.left, self._stream
        if left > _IN_PLACE_LEFT and stream is not None and stream.id in self._streams:
            self._in_place = stream.room(left)

    def _filled(self, count: int) -> None:
        stream = self._stream
        if stream is not None:
            self._calls.filled(stream, count)
        self._reader.skipped(count)

    # The end of calls

    def _ended(self, stream: Stream) -> None:
        """Its answer is written."""
        self._forget(stream)
        self._frames = min(self._frames + 4, _FRAMES_AT_ONCE)
        self._calls.forget(stream)
        if not self._streams and self.phase is BUSY:
            self._enter(IDLE)

    def _drop(self, stream: Stream) -> None:
        """The client cancelled it, or is gone."""
        self._forget(stream)
        self._out.drop(stream)
        self._calls.cancel(stream)
        if not self._streams and self.phase is BUSY:
            self._enter(IDLE)

    def _forget(self, stream: Stream) -> None:
        self._streams.pop(stream.id, None)
        if self._stream is stream:
            self._stream = None

    def _drop_all(self) -> None:
        for stream in list(self._streams.values()):
            self._drop(stream)
        self._stream = self._in_place = None
        self._out.lost()

    def _reset(self, stream: Stream, code: int) -> None:
        self._drop(stream)
        self._out.control(frames.rst_stream(stream.id, code))

    def _stream_error(self, error: StreamError) -> None:
        stream = self._streams.get(error.stream)
        if stream is not None:
            self._drop(stream)
        self._out.control(frames.rst_stream(error.stream, error.code))


def _frame_error(number: int, name: str) -> Http2Error:
    if number:
        return Http2Error(PROTOCOL_ERROR, f"{name} must be on stream 0")
    return Http2Error(FRAME_SIZE_ERROR, f"{name} must be of 8 bytes")
