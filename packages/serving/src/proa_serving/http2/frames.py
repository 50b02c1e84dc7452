"""Frames of HTTP/2 (RFC 9113, section 6): their numbers, and those that are sent."""

from __future__ import annotations

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 5, 6, 7, 8, 9

ACK = END_STREAM = 0x1
END_HEADERS, PADDED, HAS_PRIORITY = 0x4, 0x8, 0x20

# Error codes, section 7.
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0, 1, 2, 3
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL = 5, 6, 7, 8
COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 9, 11

# Settings, section 6.5.2.
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS = 1, 2, 3
INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 4, 5, 6

DEFAULT_WINDOW = 2**16 - 1
MAX_WINDOW = 2**31 - 1
MIN_FRAME, MAX_FRAME = 2**14, 2**24 - 1
HEAD_BYTES = 9

_HEAD = struct.Struct(">IBI")
_FOUR = struct.Struct(">I")


class Http2Error(Exception):
    """The connection cannot go on; ``code`` is what GOAWAY says."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class StreamError(Exception):
    """One stream cannot go on; ``code`` is what RST_STREAM says."""

    def __init__(self, stream: int, code: int) -> None:
        super().__init__(code)
        self.stream, self.code = stream, code


def parse_head(data: memoryview, at: int) -> tuple[int, int, int, int]:
    """The length, type, flags and stream of the frame at ``at``."""
    first, flags, stream = _HEAD.unpack_from(data, at)
    return first >> 8, first & 0xFF, flags, stream & MAX_WINDOW


def head(length: int, kind: int, flags: int, stream: int) -> bytes:
    return _HEAD.pack(length << 8 | kind, flags, stream)


def parse_number(payload: bytes) -> int:
    """The four bytes of a WINDOW_UPDATE or an RST_STREAM."""
    number: int = _FOUR.unpack(payload)[0]
    return number


def settings(values: dict[int, int]) -> bytes:
    payload = b"".join(struct.pack(">HI", *each) for each in values.items())
    return head(len(payload), SETTINGS, 0, 0) + payload


def parse_settings(payload: bytes) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">HI", payload))


SETTINGS_ACK = head(0, SETTINGS, ACK, 0)


def ping_ack(payload: bytes) -> bytes:
    return head(8, PING, ACK, 0) + payload


def window_update(stream: int, count: int) -> bytes:
    return head(4, WINDOW_UPDATE, 0, stream) + _FOUR.pack(count)


def rst_stream(stream: int, code: int) -> bytes:
    return head(4, RST_STREAM, 0, stream) + _FOUR.pack(code)


def goaway(last_stream: int, code: int, message: str = "") -> bytes:
    payload = struct.pack(">II", last_stream, code) + message.encode()
    return head(len(payload), GOAWAY, 0, 0) + payload
