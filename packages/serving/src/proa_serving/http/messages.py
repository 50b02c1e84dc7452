"""HTTP requests as they were parsed, and answers before they are written."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

from proa_serving.http.body import IN_PLACE, Body, Buffer
from proa_serving.protocol.errors import (
    RateLimitedError,
    ServingError,
    UnauthenticatedError,
)
from proa_serving.protocol.rest import JSON_TYPE, dump_json
from proa_serving.schedule.budget import ByteBudget
from proa_serving.security.keys import Caller

log = logging.getLogger("proa_serving.http")
_LINES = {
    held.value: f"HTTP/1.1 {held.value} {held.phrase}\r\n".encode()
    for held in HTTPStatus
}
CONTINUE = _LINES[100] + b"\r\n"
_CLOSE = b"connection: close\r\n"
# Answers up to this are joined, so that one write sends them.
_JOINED = 2**15


def send(transport: Any, parts: Sequence[Buffer]) -> int:
    """Write ``parts``; their bytes."""
    size = sum(map(len, parts))
    if len(parts) == 1 or size <= _JOINED:
        transport.write(b"".join(parts))
    else:
        transport.writelines(parts)
    return size


# By the JSON of requests: bytes of their raw tensors, and what answers them.
KnownTarget = dict[bytes, tuple[int, Any]]


class Head(NamedTuple):
    """A head as it was parsed; it is shared, and must not be changed."""

    method: bytes
    target: bytes
    headers: dict[bytes, bytes]
    length: int | None  # of the body
    skip: int  # bytes of it before those that are aligned in memory
    known: KnownTarget | None = None  # what is known of requests with it


class Request:
    """A request; its body may still be arriving."""

    __slots__ = (
        *("body", "caller", "charged", "client", "headers", "keep_alive"),
        *("known", "method", "refusal", "target"),
    )

    def __init__(self) -> None:
        self.method = self.target = b""
        self.headers: dict[bytes, bytes] = {}
        self.body: Body | None = None
        self.keep_alive = True
        self.charged = 0  # bytes of the server's budget
        self.client = ""  # its address
        self.caller: Caller | None = None  # where keys are checked
        self.refusal: ServingError | None = None  # what answers it, whatever it is
        self.known: KnownTarget | None = None  # what is known of requests like it

    @classmethod
    def of_head(cls, head: Head) -> Request:
        """A request with a head that was parsed before; its body is yet to come."""
        request = cls()
        request.method, request.target = head.method, head.target
        request.headers, request.known = head.headers, head.known
        return request

    def charge(self, budget: ByteBudget, count: int) -> None:
        """Take ``count`` bytes of the budget, until :meth:`release`."""
        budget.take(count)
        self.charged += count

    def release(self, budget: ByteBudget) -> None:
        """Return what it took."""
        if self.charged:
            budget.release(self.charged)
            self.charged = 0

    @property
    def sender(self) -> str:
        """Who sent it: the name of a key, or an address."""
        return self.client if self.caller is None else self.caller.name

    def is_small(self) -> bool:
        """Whether its body is so short that reading it is cheaper than a connection."""
        headers = self.headers
        if b"transfer-encoding" in headers or b"expect" in headers:
            return False
        return int(headers.get(b"content-length", b"0")) <= IN_PLACE

    def data(self) -> Buffer:
        """The body as it came."""
        return b"" if self.body is None else self.body.data()


class Reply:
    """An answer: its status, its body in parts, and headers beyond the usual."""

    __slots__ = ("close", "content_type", "headers", "parts", "status")

    def __init__(
        self,
        parts: list[Buffer],
        *,
        status: int = 200,
        content_type: str = JSON_TYPE,
        headers: str = "",
        close: bool = False,
    ) -> None:
        self.status, self.parts, self.close = status, parts, close
        self.content_type, self.headers = content_type, headers

    @classmethod
    def of_json(cls, held: object, status: int = 200) -> Reply:
        return cls([dump_json(held)], status=status)

    @classmethod
    def of_error(cls, error: ServingError, *, close: bool = False) -> Reply:
        text = dump_json({"error": str(error)})
        headers = ""
        if isinstance(error, RateLimitedError):
            headers = f"retry-after: {math.ceil(error.seconds)}\r\n"
        elif isinstance(error, UnauthenticatedError):
            headers = "www-authenticate: Bearer\r\n"
        return cls([text], status=error.http_status, headers=headers, close=close)

    @classmethod
    def of_failure(cls, error: Exception) -> Reply:
        """What answers a request that raised, which is logged if it is no refusal."""
        if isinstance(error, ServingError):
            return cls.of_error(error)
        log.error("an HTTP request failed inside the server", exc_info=error)
        return cls.of_json({"error": "[server] failed; its log says more"}, 500)

    def encode(self, *, close: bool, body: bool) -> list[Buffer]:
        """The bytes to write: the head, then the parts of the body if ``body``."""
        size = sum(map(len, self.parts))
        head = (
            f"content-type: {self.content_type}\r\n"
            f"content-length: {size}\r\n{self.headers}"
        ).encode("latin-1")
        head = b"".join((_LINES[self.status], head, _CLOSE if close else b"", b"\r\n"))
        return [head, *self.parts] if body else [head]
