"""Reads request bodies within the limits of size and time."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from proa_serving.protocol.errors import (
    InvalidRequestError,
    RequestTimeoutError,
    TooLargeError,
    UnsupportedError,
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
# A client that sends too much is read on to here, so that it can see the answer.
_DRAIN = 4
_BIG = 2**16


class ClientGoneError(Exception):
    """The client closed the connection; there is nobody to answer."""


async def read_body(
    receive: Receive, headers: dict[bytes, bytes], limit: int, timeout: float
) -> bytes:
    """The whole body, decompressed.

    Raises:
        TooLargeError: If it is, or would be, of more than ``limit`` bytes.
        RequestTimeoutError: If it is not there in ``timeout`` seconds.
        ClientGoneError: If the client closed before the end.
    """
    task = asyncio.current_task()
    assert task is not None
    late = False

    def expire() -> None:
        nonlocal late
        late = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(timeout, expire)
    try:
        body = await _collect(receive, headers, limit)
    except asyncio.CancelledError:
        if not late:
            raise
        if hasattr(task, "uncancel"):  # Python 3.11 counts cancellations.
            task.uncancel()
        raise RequestTimeoutError(
            "request", f"body must arrive within {timeout:g} s"
        ) from None
    finally:
        timer.cancel()
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding in (b"identity", b""):
        return body
    if encoding not in (b"gzip", b"deflate"):
        raise UnsupportedError(
            "request",
            f"Content-Encoding must be gzip or deflate, got {encoding[:40]!r}",
        )
    if len(body) < _BIG:
        return _inflate(body, limit)
    return await asyncio.to_thread(_inflate, body, limit)


async def _collect(receive: Receive, headers: dict[bytes, bytes], limit: int) -> bytes:
    said = headers.get(b"content-length", b"0")
    large = said.isdigit() and int(said) > limit
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(part)
        large = large or size > limit
        if not large:
            parts.append(part)
        elif size > _DRAIN * limit:
            break
        else:
            parts.clear()
    if large:
        raise TooLargeError("request", f"body must be at most {limit} bytes")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _inflate(body: bytes, limit: int) -> bytes:
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # gzip or zlib
    try:
        data = unpack.decompress(body, limit + 1)
    except zlib.error as error:
        raise InvalidRequestError(
            "request", f"compressed body is damaged: {error}"
        ) from error
    if len(data) > limit:
        raise TooLargeError(
            "request", f"body must be at most {limit} bytes when decompressed"
        )
    if not unpack.eof or unpack.unused_data:
        raise InvalidRequestError(
            "request", "compressed body must be one complete stream"
        )
    return data
