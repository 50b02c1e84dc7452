"""Cross-origin resource sharing: what pages of other origins may do (Fetch, 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proa_serving.protocol.rest import HEADER_LENGTH

ANY = "*"
_SECONDS = 600
# What answers a preflight request, besides the headers of every answer.
PREFLIGHT = (
    "access-control-allow-methods: GET, POST\r\n"
    f"access-control-allow-headers: Content-Type, Authorization, X-API-Key, "
    f"{HEADER_LENGTH}\r\n"
    f"access-control-max-age: {_SECONDS}\r\n"
)


def is_preflight(headers: Mapping[bytes, bytes]) -> bool:
    """Whether an OPTIONS request is a browser's question if a page may call."""
    return b"origin" in headers and b"access-control-request-method" in headers


def cors_headers(origin: bytes, allowed: Sequence[str]) -> str:
    """The headers of an answer to a page of ``origin``; none if it is not allowed."""
    text = origin.decode("latin-1")
    if not allowed:
        return ""
    if ANY in allowed:
        held = ANY
    elif text in allowed:
        held = text
    else:
        return "vary: Origin\r\n"
    return (
        f"access-control-allow-origin: {held}\r\n"
        f"access-control-expose-headers: {HEADER_LENGTH}\r\n"
        "vary: Origin\r\n"
    )
