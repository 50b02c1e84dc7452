"""Answers on their way to one client, within the windows it grants."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from proa_serving.http2 import frames
from proa_serving.http2.calls import ANSWER, OK_TRAILERS, error_headers, http_headers
from proa_serving.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    HEADERS,
    MAX_WINDOW,
    NO_ERROR,
    PROTOCOL_ERROR,
    Http2Error,
    StreamError,
)
from proa_serving.http2.stream import Buffer, Stream
from proa_serving.schedule.budget import ByteBudget

# Answers up to this are joined, so that one write sends them.
_JOINED = 2**15
_ENDED = END_HEADERS | END_STREAM


class Outgoing:
    """Frames to write, and the answers that wait for the client to grant a window.

    Args:
        budget: Is charged for what waits.
        ended: Called with each stream whose answer is written to its end.
    """

    def __init__(self, budget: ByteBudget, ended: Callable[[Stream], None]) -> None:
        self._ended = ended
        self.transport: Any = None  # a Transport once connected
        self.window = frames.DEFAULT_WINDOW
        self.initial_window = frames.DEFAULT_WINDOW  # of each stream
        self.max_frame = frames.MIN_FRAME
        self.blocked = False  # the client does not read
        self.unsent: dict[int, Stream] = {}
        self._budget = budget
        self._charged = 0  # for what the transport holds
        self._parts: list[Buffer] = []

    def control(self, frame: bytes) -> None:
        """Write a frame at the next :meth:`flush`."""
        self._parts.append(frame)

    def flush(self) -> None:
        """Write what was collected."""
        parts = self._parts
        if not parts:
            return
        self._parts = []
        if self.transport.is_closing():
            return
        if len(parts) == 1 or sum(map(len, parts)) <= _JOINED:
            self.transport.write(b"".join(parts))
        else:
            self.transport.writelines(parts)
        if self.blocked:
            size = sum(map(len, parts))
            self._budget.used += size
            self._charged += size

    def resumed(self) -> None:
        """The client read what was written."""
        self.blocked = False
        self._budget.release(self._charged)
        self._charged = 0
        self.pump()

    def finish(self, stream: Stream, message: Sequence[Buffer]) -> None:
        """Answer a call with its one message and success."""
        size = sum(map(len, message))
        length = size + 5
        if not (
            stream.unsent
            or stream.answered
            or self.blocked
            or length > self.window
            or length > stream.send_window
            or length > self.max_frame
        ):
            self.window -= length
            stream.answered = True
            self._parts += _whole(stream.id, message, size)
            self._ended(stream)
            return
        self.send(stream, message)
        self.end(stream, OK_TRAILERS)

    def whole(self, number: int, message: Sequence[Buffer]) -> list[Buffer] | None:
        """The frames that answer a call, which are the caller's to write.

        Returns:
            None where the windows do not let all of it be sent.
        """
        size = sum(map(len, message))
        allowed = min(self.window, self.initial_window, self.max_frame)
        if size + 5 > allowed or self.blocked or self._parts:
            return None
        self.window -= size + 5
        return _whole(number, message, size)

    def send(self, stream: Stream, message: Sequence[Buffer]) -> None:
        """Send a message of a call."""
        self._begin(stream)
        size = sum(map(len, message))
        stream.unsent.append(memoryview(b"\0" + size.to_bytes(4, "big")))
        stream.unsent += (memoryview(part).cast("B") for part in message if len(part))
        stream.unsent_bytes += size + 5
        self._budget.used += size + 5
        stream.moved = time.monotonic()
        self.unsent[stream.id] = stream
        self._pump(stream)

    def end(self, stream: Stream, trailers: bytes) -> None:
        """End a call after what was sent of it."""
        stream.trailers = trailers
        if not stream.unsent:
            self._end(stream)

    def fail(self, stream: Stream, code: int, message: str) -> None:
        """End a call with an error; what is unsent of it is dropped."""
        self.drop(stream)
        block = error_headers(code, message, stream.answered)
        self._refuse(stream, block)

    def refuse_http(self, stream: Stream, status: int) -> None:
        """Answer what is no call of gRPC."""
        self._refuse(stream, http_headers(status))

    def drop(self, stream: Stream) -> None:
        """Forget what is unsent of a call."""
        self._budget.release(stream.unsent_bytes)
        stream.unsent_bytes = 0
        stream.unsent.clear()
        stream.trailers = None
        self.unsent.pop(stream.id, None)
        _wake(stream)

    def lost(self) -> None:
        """The connection is gone."""
        self._parts = []
        self._budget.release(self._charged)
        self._charged = 0
        for stream in list(self.unsent.values()):
            self.drop(stream)

    def _begin(self, stream: Stream) -> None:
        if not stream.answered:
            stream.answered = True
            head = frames.head(len(ANSWER), HEADERS, END_HEADERS, stream.id)
            self._parts.append(head + ANSWER)

    def _refuse(self, stream: Stream, block: bytes) -> None:
        self._parts.append(frames.head(len(block), HEADERS, _ENDED, stream.id) + block)
        if not stream.ended:  # What else the client sends of it is not wanted.
            self._parts.append(frames.rst_stream(stream.id, NO_ERROR))
        self._ended(stream)

    def _end(self, stream: Stream) -> None:
        block = stream.trailers
        assert block is not None
        stream.trailers = None
        self._begin(stream)
        self._refuse(stream, block)

    # Windows

    def grant(self, stream: Stream | None, count: int) -> None:
        """A WINDOW_UPDATE; of the connection where ``stream`` is None."""
        if stream is None:
            self.window += count
            if self.window > MAX_WINDOW:
                raise Http2Error(FLOW_CONTROL_ERROR, "a window must be below 2**31")
            self.pump()
            return
        stream.send_window += count
        if stream.send_window > MAX_WINDOW:
            raise StreamError(stream.id, FLOW_CONTROL_ERROR)
        if stream.unsent:
            self._pump(stream)

    def apply(self, settings: list[tuple[int, int]], streams: list[Stream]) -> None:
        """The client's settings.

        Raises:
            Http2Error: If a value is out of its range.
        """
        for key, value in settings:
            if key == frames.ENABLE_PUSH and value > 1:
                raise Http2Error(PROTOCOL_ERROR, "ENABLE_PUSH must be 0 or 1")
            if key == frames.MAX_FRAME_SIZE:
                if not frames.MIN_FRAME <= value <= frames.MAX_FRAME:
                    raise Http2Error(PROTOCOL_ERROR, "MAX_FRAME_SIZE is out of range")
                self.max_frame = value
            if key == frames.INITIAL_WINDOW_SIZE:
                if value > MAX_WINDOW:
                    raise Http2Error(FLOW_CONTROL_ERROR, "windows must be below 2**31")
                change = value - self.initial_window
                self.initial_window = value
                for stream in streams:
                    stream.send_window += change
                    if stream.send_window > MAX_WINDOW:
                        raise Http2Error(
                            FLOW_CONTROL_ERROR, "windows must be below 2**31"
                        )
        self.pump()

    def pump(self) -> None:
        """Write what the windows allow, a frame of each stream in turn."""
        waiting = list(self.unsent.values())
        while waiting and self.window > 0 and not self.blocked:
            waiting = [stream for stream in waiting if self._chunk(stream)]

    def _pump(self, stream: Stream) -> None:
        while self.window > 0 and not self.blocked and self._chunk(stream):
            pass

    def _chunk(self, stream: Stream) -> bool:
        """Write one frame; whether there may be another."""
        allowed = min(stream.send_window, self.window, self.max_frame)
        allowed = min(allowed, stream.unsent_bytes)
        if allowed <= 0:
            return False
        self._parts.append(frames.head(allowed, DATA, 0, stream.id))
        stream.send_window -= allowed
        self.window -= allowed
        stream.unsent_bytes -= allowed
        self._budget.release(allowed)
        while allowed:
            part = stream.unsent[0]
            if len(part) <= allowed:
                self._parts.append(stream.unsent.popleft())
            else:
                self._parts.append(part[:allowed])
                stream.unsent[0] = part[allowed:]
            allowed -= min(allowed, len(part))
        stream.moved = time.monotonic()
        if stream.unsent:
            return True
        self.unsent.pop(stream.id, None)
        _wake(stream)
        if stream.trailers is not None:
            self._end(stream)
        return False


def _whole(number: int, message: Sequence[Buffer], size: int) -> list[Buffer]:
    """The frames of an answer that is one message of ``size`` bytes, and success."""
    head = (
        frames.head(len(ANSWER), HEADERS, END_HEADERS, number)
        + ANSWER
        + frames.head(size + 5, DATA, 0, number)
        + b"\0"
        + size.to_bytes(4, "big")
    )
    tail = frames.head(len(OK_TRAILERS), HEADERS, _ENDED, number) + OK_TRAILERS
    return [head, *message, tail]


def _wake(stream: Stream) -> None:
    """What waited for the stream to be written continues."""
    if stream.on_written is not None and not stream.on_written.done():
        stream.on_written.set_result(None)
