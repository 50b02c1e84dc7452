"""One call: the messages that arrive on its stream, and what waits to be written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from proa_serving.http2.calls import (
    INTERNAL,
    INVALID_ARGUMENT,
    RESOURCE_EXHAUSTED,
    CallHead,
    Status,
)
from proa_serving.protocol.tensors import aligned_memory

Buffer = bytes | bytearray | memoryview
PREFIX_BYTES = 5  # of a message: whether it is compressed, and its length
# Messages beyond this are received where their array will be.
IN_PLACE = 2**16
# A message's beginning that is looked at for where its raw data begins.
_LOOK = 4096


class Message:
    """A message of a stream, complete."""

    __slots__ = ("compressed", "data")

    def __init__(self, data: Buffer, compressed: bool) -> None:
        self.data, self.compressed = data, compressed


class Stream:
    """What is known of one call.

    Args:
        number: Number of the stream.
        head: Head of the call.
        send_window: Bytes that may be sent.
        now: The time, in seconds.
    """

    __slots__ = (
        *("answered", "began", "charged", "client", "ended", "expires", "feed", "head"),
        *("id", "moved", "on_written", "received", "send_window", "task"),
        *("timer", "trailers", "unsent", "unsent_bytes"),
        *("_compressed", "_filled", "_memory", "_need", "_parts", "_prefix"),
    )

    def __init__(
        self,
        number: int,
        head: CallHead,
        send_window: int,
        now: float,
    ) -> None:
        self.id, self.head = number, head
        self.send_window = send_window
        self.received = 0  # bytes that were not granted again
        self.began = self.moved = now
        self.expires = None if head.timeout is None else now + head.timeout
        self.ended = False  # the client sends no more
        self.answered = False  # the headers of the answer were written
        self.charged = 0  # bytes of the budget
        self.client = ""  # who sends it
        self.task: asyncio.Task[Any] | None = None
        self.timer: asyncio.TimerHandle | None = None
        # Where the messages of a stream of many go, None ending them.
        self.feed: Callable[[Message | None], None] | None = None
        self.unsent: deque[memoryview] = deque()
        self.unsent_bytes = 0
        self.trailers: bytes | None = None  # that follow what is unsent
        self.on_written: asyncio.Future[None] | None = None
        self._prefix = b""
        self._need = -1  # bytes of the message that is arriving
        self._compressed = False
        self._filled = 0
        self._parts: list[bytes] = []
        self._memory: memoryview | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no part of a message waits for the rest of it."""
        return self._need < 0 and not self._prefix

    def room(self, count: int) -> memoryview | None:
        """Where the next ``count`` bytes of a large message belong, if in one."""
        if self._memory is None or self._filled + count > self._need:
            return None
        return self._memory[self._filled : self._filled + count]

    def filled(self, count: int) -> Message | None:
        """Bytes were put in :meth:`room`."""
        self._filled += count
        return self._taken()

    def put(self, data: memoryview) -> bool:
        """Take ``data`` if it is from within a large message."""
        end = self._filled + len(data)
        if self._memory is None or end >= self._need:
            return False
        self._memory[self._filled : end] = data
        self._filled = end
        return True

    def receive(
        self, data: memoryview, limit: int, find_raw: Callable[[memoryview], int]
    ) -> Iterator[Message]:
        """The messages that end in ``data``, one by one.

        Args:
            limit: Bytes of a message.
            find_raw: Takes the beginning of a message: where data begins that is to be
                aligned in memory.

        Raises:
            Status: If a message is too large, or its prefix wrong.
        """
        while len(data):
            if self._need < 0:
                missing = PREFIX_BYTES - len(self._prefix)
                self._prefix += bytes(data[:missing])
                data = data[missing:]
                if len(self._prefix) < PREFIX_BYTES:
                    break
                self._begin(limit)
            if self._need > IN_PLACE and self._memory is None and len(data):
                self._memory = aligned_memory(self._need, find_raw(data[:_LOOK]))
            part = data[: self._need - self._filled]
            data = data[len(part) :]
            if self._memory is not None:
                self._memory[self._filled : self._filled + len(part)] = part
            else:
                self._parts.append(bytes(part))
            message = self.filled(len(part))
            if message is not None:
                yield message

    def _begin(self, limit: int) -> None:
        flag = self._prefix[0]
        need = int.from_bytes(self._prefix[1:], "big")
        if flag > 1:
            raise Status(INTERNAL, f"[grpc] a flag must be 0 or 1, got {flag}")
        if need > limit:
            raise Status(
                RESOURCE_EXHAUSTED,
                f"[grpc] a message must be at most {limit} bytes, got {need}",
                "too_large",
            )
        if flag and self.head.encoding == b"identity":
            raise Status(
                INTERNAL, "[grpc] a compressed message must have a grpc-encoding"
            )
        self._prefix, self._need, self._filled = b"", need, 0
        self._compressed = flag == 1

    def _taken(self) -> Message | None:
        if self._filled < self._need:
            return None
        data: Buffer
        if self._memory is not None:
            data = self._memory
        else:
            data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._need, self._parts, self._memory = -1, [], None
        return Message(data, self._compressed)

    def finish(self) -> None:
        """The client ends its messages.

        Raises:
            Status: If one was cut short.
        """
        self.ended = True
        if not self.is_empty:
            raise Status(INVALID_ARGUMENT, "[grpc] the last message must be complete")
