"""The head of a gRPC call, and the blocks of headers that answer one."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote_from_bytes

from proa_serving.http2.hpack import Header, encode

# Status codes of gRPC.
OK, CANCELLED, INVALID_ARGUMENT, DEADLINE_EXCEEDED = 0, 1, 3, 4
RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 8, 12, 13, 14

CONTENT_TYPE = b"application/grpc"
ENCODINGS = (b"identity", b"gzip", b"deflate")
_UNITS = {
    b"H": 3600.0,
    b"M": 60.0,
    b"S": 1.0,
    b"m": 1e-3,
    b"u": 1e-6,
    b"n": 1e-9,
}
_MAX_MESSAGE = 1024  # bytes of a status message, before it is coded
# Headers of a connection, not of a request: malformed in HTTP/2 (RFC 9113, 8.2.2).
_FORBIDDEN = frozenset(
    {
        b"connection",
        b"proxy-connection",
        b"keep-alive",
        b"transfer-encoding",
        b"upgrade",
    }
)
_PSEUDO = frozenset({b":method", b":scheme", b":path", b":authority"})
_UPPER_CASE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_BAD_NAME = frozenset(range(0x21)) | _UPPER_CASE | frozenset(range(0x7F, 0x100))
_BAD_VALUE = frozenset(b"\0\r\n")


class Status(Exception):
    """How a call ends that has no answer: the code and message of gRPC.

    ``reason`` is the word that counts it in the metrics.
    """

    def __init__(self, code: int, message: str, reason: str = "invalid") -> None:
        super().__init__(message)
        self.code, self.message, self.reason = code, message, reason


@dataclass(frozen=True)
class CallHead:
    """What the headers of a call say.

    Args:
        path: ``/package.Service/Method``.
        timeout: Seconds the client waits, or None.
        encoding: Encoding of messages that are flagged as compressed.
        authorization: The header of that name.
        api_key: The header ``x-api-key``.
        http_status: What answers it where it is no call of gRPC; 200 otherwise.
        status: What answers it where it can be refused by its head; else None.
        headers: All of them, in lower case.
    """

    path: str
    timeout: float | None
    encoding: bytes
    authorization: bytes
    api_key: bytes = b""
    http_status: int = 200
    status: Status | None = None
    headers: Mapping[bytes, bytes] = field(default_factory=dict)


def is_well_formed(headers: list[Header], *, trailers: bool = False) -> bool:
    """Whether ``headers`` are a request, or its trailers, of HTTP/2 (section 8)."""
    pseudo: set[bytes] = set()
    regular = False
    for name, value in headers:
        if name[:1] == b":":
            if regular or trailers or name not in _PSEUDO or name in pseudo:
                return False
            pseudo.add(name)
        else:
            regular = True
            if name in _FORBIDDEN or (name == b"te" and value != b"trailers"):
                return False
            if not name or not _BAD_NAME.isdisjoint(name) or b":" in name:
                return False
        if not _BAD_VALUE.isdisjoint(value) or value != value.strip(b" \t"):
            return False
    if trailers:
        return True
    held = dict(headers)
    path = held.get(b":path", b"")
    return {b":method", b":scheme"} <= pseudo and path[:1] in (b"/", b"*")


def parse_call(headers: list[Header]) -> CallHead:
    """The call that well-formed headers begin."""
    held = dict(headers)
    http_status, status = 200, None
    kind = held.get(b"content-type", b"")
    if held[b":method"] != b"POST":
        http_status = 405
    elif kind != CONTENT_TYPE and kind[:17] not in (
        CONTENT_TYPE + b"+",
        CONTENT_TYPE + b";",
    ):
        http_status = 415
    timeout = None
    text = held.get(b"grpc-timeout")
    if text is not None:
        digits, unit = text[:-1], text[-1:]
        if unit in _UNITS and digits.isdigit() and len(digits) <= 8:
            timeout = int(digits) * _UNITS[unit]
        else:
            status = Status(INTERNAL, "[grpc] grpc-timeout must be digits and a unit")
    encoding = held.get(b"grpc-encoding", b"identity")
    if encoding not in ENCODINGS:
        status = Status(
            UNIMPLEMENTED, "[grpc] grpc-encoding must be identity, gzip or deflate"
        )
    return CallHead(
        held[b":path"].decode("latin-1"),
        timeout,
        encoding,
        held.get(b"authorization", b""),
        held.get(b"x-api-key", b""),
        http_status,
        status,
        held,
    )


_BEGIN: list[Header] = [(b":status", b"200"), (b"content-type", CONTENT_TYPE)]
ANSWER = encode(_BEGIN)
OK_TRAILERS = encode([(b"grpc-status", b"0")])


@functools.lru_cache(maxsize=64)
def error_headers(code: int, message: str, trailers: bool) -> bytes:
    """The block that ends a call with an error; all of the answer, or trailers."""
    # Percent-encoded but for printable ASCII (without the percent sign).
    text = message.encode("utf-8", "replace")[:_MAX_MESSAGE]
    coded = quote_from_bytes(text, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~")
    headers = [(b"grpc-status", b"%d" % code), (b"grpc-message", coded.encode())]
    if code == UNIMPLEMENTED:
        headers.append((b"grpc-accept-encoding", b",".join(ENCODINGS)))
    return encode(headers if trailers else _BEGIN + headers)


@functools.cache
def http_headers(status: int) -> bytes:
    """The block that answers what is no call of gRPC."""
    return encode([(b":status", b"%d" % status)])
