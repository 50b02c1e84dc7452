"""Heads of requests that were parsed before, by their bytes.

A client that keeps its connection sends the same head again and again, and parsing it
costs as much as all else that is done for a small request.
"""

from __future__ import annotations

import logging
from typing import Any

import httptools

from proa_serving.http.messages import Head, Request
from proa_serving.protocol.errors import (
    HeadTooLargeError,
    InvalidRequestError,
    ServingError,
    UnavailableError,
)

log = logging.getLogger("proa_serving.http")
MAX_HEAD_BYTES = 64 * 1024

# Longer heads are parsed each time.
MAX_KNOWN_BYTES = 2048
_MAX_HEADS = 256
_END = b"\r\n\r\n"
# They change how the body is received, or what else is to be answered.
UNUSUAL = (b"transfer-encoding", b"expect", b"upgrade")
# Answered where there are as many connections as there may be.
_HEALTH = (b"/v2/health/live", b"/v2/health/ready", b"/metrics")


def oversize(size: int) -> HeadTooLargeError | None:
    """The error of a head of so many bytes, if that is more than it may have."""
    if size <= MAX_HEAD_BYTES:
        return None
    return HeadTooLargeError("http", f"head must be at most {MAX_HEAD_BYTES} bytes")


def check_head(request: Request, *, needs_host: bool, health_only: bool) -> None:
    """Refuse what can be refused by its head, whoever sent it.

    Raises:
        HeadTooLargeError: If it is larger than heads may be: one read may bring more.
        InvalidRequestError: If it has no Host and must have one.
        UnavailableError: If only health checks are answered.
    """
    fields = sum(len(name) + len(value) + 4 for name, value in request.headers.items())
    if error := oversize(len(request.target) + fields):
        raise error
    if needs_host and b"host" not in request.headers:
        raise InvalidRequestError("http", "must have a Host in HTTP/1.1, got none")
    if health_only:
        request.keep_alive = False
        if request.target not in _HEALTH:
            raise UnavailableError(
                "server", "has as many connections as it may; try again later"
            )


def feed(parser: Any, data: memoryview) -> bool:
    """Have ``parser``, which is httptools', parse ``data``.

    Returns:
        False after a request to upgrade, which is answered as if it were none.

    Raises:
        InvalidRequestError: If they are not HTTP/1.1.
        ServingError: If a callback of the parser failed.
    """
    try:
        parser.feed_data(data)
    except httptools.HttpParserCallbackError as error:
        log.error("an HTTP connection failed inside the server", exc_info=error)
        raise ServingError("server", "failed; its log says more") from error
    except httptools.HttpParserUpgrade:
        return False
    except httptools.HttpParserError as error:
        raise InvalidRequestError("http", f"must be HTTP/1.1: {error}") from error
    return True


class KnownHeads:
    """A bounded cache of heads; used on event loops alone."""

    def __init__(self) -> None:
        self._heads: dict[bytes, Head] = {}

    def find(self, received: memoryview) -> tuple[bytes, Head | None]:
        """The head that ``received`` begins with, and what it means if that is known.

        The head is empty if it is not all there, or not one that may be kept.
        """
        data = bytes(received[:MAX_KNOWN_BYTES])
        end = data.find(_END)
        if end < 0:
            return b"", None
        head = data[: end + len(_END)]
        found = self._heads.get(head)
        if found is None and not _is_plain(head):
            return b"", None
        return head, found

    def add(self, head: bytes, request: Request) -> Head | None:
        """Remember that ``head`` was parsed as that of ``request``, and allowed."""
        if any(name in request.headers for name in UNUSUAL):
            return None
        if len(self._heads) >= _MAX_HEADS:
            self._heads.clear()
        length, skip = None, 0
        if request.body is not None:
            length, skip = request.body.length, request.body.header_length
        found = self._heads[head] = Head(
            request.method, request.target, request.headers, length, skip
        )
        return found


def _is_plain(head: bytes) -> bool:
    """Whether a parser cannot see another end in it: no line ends by LF alone."""
    return head[:1].isalpha() and head.count(b"\n") == head.count(b"\r\n")
