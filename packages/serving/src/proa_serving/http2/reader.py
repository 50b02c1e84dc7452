"""Bytes to frames: what arrives on a connection, checked as far as a frame says."""

from __future__ import annotations

from typing import Protocol

from proa_serving.http2 import frames
from proa_serving.http2.frames import (
    CONTINUATION,
    DATA,
    ENHANCE_YOUR_CALM,
    FRAME_SIZE_ERROR,
    HEADERS,
    PADDED,
    PROTOCOL_ERROR,
    SETTINGS,
    Http2Error,
)

MAX_HEADER_BYTES = 16 * 1024
_MAX_CONTINUATIONS = 8
# One DATA frame may be as large, so that a message is received in few of them.
MAX_DATA_BYTES = 2**20


class Frames(Protocol):
    """Where frames go. DATA comes in chunks, between its beginning and its end."""

    def on_begin(self) -> None: ...
    def on_data_begin(self, number: int, length: int) -> None: ...
    def on_data(self, data: memoryview) -> None: ...
    def on_data_end(self, number: int, ends: bool) -> None: ...
    def on_headers(self, number: int, block: bytes, ends: bool) -> None: ...
    def on_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None: ...


class FrameReader:
    """Takes what arrives on one connection apart.

    Args:
        target: Where frames go; may raise.
    """

    __slots__ = (
        *("_block", "_block_ends", "_block_size", "_block_stream", "_data_ends"),
        *("_data_stream", "_pad", "_prefaced", "_rest", "_target", "begun", "left"),
    )

    def __init__(self, target: Frames) -> None:
        self._target = target
        self.begun = False  # the preface and the settings arrived
        self.left = 0  # of the payload that is arriving
        self._prefaced = False
        self._rest = b""  # of a frame that is not complete
        self._block: list[bytes] = []  # parts of a header block
        self._block_stream, self._block_ends, self._block_size = 0, False, 0
        self._pad = 0  # after the payload
        self._data_stream, self._data_ends = -1, False  # -1: its frame is ignored

    def feed(self, data: memoryview) -> None:
        """Take the next bytes.

        Raises:
            Http2Error: If they are not what RFC 9113 allows.
        """
        if self._rest:
            data = memoryview(self._rest + data)
            self._rest = b""
        at, end = 0, len(data)
        if not self._prefaced:
            at = self._preface(data)
        while at < end:
            if self.left or self._pad:
                at += self._payload(data[at:])
                continue
            taken = self._next(data, at, end)
            if not taken:
                self._rest = bytes(data[at:])
                return
            at += taken

    @property
    def at_boundary(self) -> bool:
        """Whether the next byte begins a frame."""
        return not (self._rest or self._block or self.left or self._pad)

    def skipped(self, count: int) -> None:
        """Payload was received elsewhere."""
        self.left -= count
        if not self.left and not self._pad:
            self._end()

    def _preface(self, data: memoryview) -> int:
        size = len(frames.PREFACE)
        if bytes(data[:size]) != frames.PREFACE[: len(data)]:
            raise Http2Error(PROTOCOL_ERROR, "the preface of HTTP/2 must come first")
        if len(data) < size:
            self._rest = bytes(data)
            return len(data)
        self._prefaced = True
        self._target.on_begin()
        return size

    def _next(self, data: memoryview, at: int, end: int) -> int:
        """Bytes of the frame at ``at`` that were taken; 0 if it is not complete."""
        if end - at < frames.HEAD_BYTES:
            return 0
        length, kind, flags, number = frames.parse_head(data, at)
        if self._block and kind != CONTINUATION:
            raise Http2Error(PROTOCOL_ERROR, "CONTINUATION must follow")
        if not self.begun:
            if kind != SETTINGS or flags & frames.ACK:
                raise Http2Error(PROTOCOL_ERROR, "SETTINGS must come first")
            self.begun = True
        body = at + frames.HEAD_BYTES
        if kind == DATA and length <= end - body and not flags & PADDED:
            # All of it is here, as most DATA is.
            if length > MAX_DATA_BYTES:
                raise Http2Error(FRAME_SIZE_ERROR, "a frame is too large")
            self._target.on_data_begin(number, length)
            if length:
                self._target.on_data(data[body : body + length])
            self._target.on_data_end(number, bool(flags & frames.END_STREAM))
            return frames.HEAD_BYTES + length
        if kind == DATA or kind > CONTINUATION:
            return self._begin(length, kind, flags, number, data[body : body + 1])
        if length > MAX_HEADER_BYTES:
            raise Http2Error(FRAME_SIZE_ERROR, "a frame is too large")
        if end - body < length:
            return 0
        payload = bytes(data[body : body + length])
        if kind == HEADERS:
            self._headers(flags, number, payload)
        elif kind == CONTINUATION:
            self._continuation(flags, number, payload)
        else:
            self._target.on_frame(kind, flags, number, payload)
        return frames.HEAD_BYTES + length

    # DATA, and frames that are ignored: their payload comes in chunks

    def _begin(
        self, length: int, kind: int, flags: int, number: int, first: memoryview
    ) -> int:
        if length > MAX_DATA_BYTES:
            raise Http2Error(FRAME_SIZE_ERROR, "a frame is too large")
        taken = frames.HEAD_BYTES
        pad = 0
        if kind != DATA:
            self._target.on_frame(kind, flags, number, b"")
            self._data_stream = -1
            self.left = length
            return taken
        if flags & PADDED:
            if length and not first:
                return 0
            pad = 1 + first[0] if length else 1
            if pad > length:
                raise Http2Error(PROTOCOL_ERROR, "padding must fit its frame")
            taken += 1
        self._target.on_data_begin(number, length)
        self._data_stream = number
        self._data_ends = bool(flags & frames.END_STREAM)
        self.left, self._pad = length - pad, max(0, pad - 1)
        if not self.left and not self._pad:
            self._end()
        return taken

    def _payload(self, data: memoryview) -> int:
        part = data[: self.left]
        if part:
            self.left -= len(part)
            if self._data_stream >= 0:
                self._target.on_data(part)
        padding = min(self._pad, len(data) - len(part)) if not self.left else 0
        self._pad -= padding
        if not self.left and not self._pad:
            self._end()
        return len(part) + padding

    def _end(self) -> None:
        number, self._data_stream = self._data_stream, -1
        if number >= 0:
            self._target.on_data_end(number, self._data_ends)

    # Header blocks

    def _headers(self, flags: int, number: int, payload: bytes) -> None:
        at, end = 0, len(payload)
        if flags & PADDED:
            if not payload or payload[0] >= end:
                raise Http2Error(PROTOCOL_ERROR, "padding must fit its frame")
            at, end = 1, end - payload[0]
        if flags & frames.HAS_PRIORITY:
            at += 5
        if at > end:
            raise Http2Error(FRAME_SIZE_ERROR, "HEADERS must hold their fields")
        block = payload[at:end]
        ends = bool(flags & frames.END_STREAM)
        if flags & frames.END_HEADERS:
            self._target.on_headers(number, block, ends)
            return
        self._block, self._block_size = [block], len(block)
        self._block_stream, self._block_ends = number, ends

    def _continuation(self, flags: int, number: int, payload: bytes) -> None:
        if not self._block or number != self._block_stream:
            raise Http2Error(PROTOCOL_ERROR, "CONTINUATION must follow its HEADERS")
        self._block.append(payload)
        self._block_size += len(payload)
        if (
            self._block_size > MAX_HEADER_BYTES
            or len(self._block) > _MAX_CONTINUATIONS + 1
        ):
            raise Http2Error(ENHANCE_YOUR_CALM, "a header block is too large")
        if flags & frames.END_HEADERS:
            block, self._block = b"".join(self._block), []
            self._target.on_headers(number, block, self._block_ends)
