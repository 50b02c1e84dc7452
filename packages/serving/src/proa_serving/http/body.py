"""The bytes of a request body: where they are received, and what they decompress to."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from proa_serving.protocol.errors import (
    InvalidRequestError,
    TooLargeError,
    UnsupportedError,
)
from proa_serving.protocol.rest import HEADER_LENGTH
from proa_serving.protocol.tensors import aligned_memory

Buffer = bytes | bytearray | memoryview
# Bodies beyond this are received in place; smaller ones come through the parser.
IN_PLACE = 2**16
# A chunk costs as much work as thousands of bytes do, so that beyond the first of them
# chunks must be of so many bytes on average.
_FREE_CHUNKS, _CHUNK_BYTES = 4096, 16
_LENGTH = HEADER_LENGTH.lower().encode()


def too_large(limit: int) -> TooLargeError:
    """The error of a body with more than ``limit`` bytes."""
    return TooLargeError("request", f"body must be at most {limit} bytes")


class Body:
    """A body while it arrives.

    Args:
        length: Bytes of all of it; None where the head does not say.
        header_length: Bytes of the JSON before the raw tensors, which are aligned in
            memory so that arrays can be made of them without a copy.
    """

    __slots__ = ("_parts", "_view", "header_length", "length", "size")

    def __init__(self, length: int | None, header_length: int) -> None:
        self.length, self.header_length = length, header_length
        self.size = 0
        self._parts: list[bytes] = []
        self._view: memoryview | None = None
        if length is not None and length > IN_PLACE:
            self._view = aligned_memory(length, header_length)

    @classmethod
    def of_head(cls, headers: Mapping[bytes, bytes], limit: int) -> Body | None:
        """What the headers say will come; None if nothing.

        Raises:
            TooLargeError: If it is more than ``limit`` bytes.
            InvalidRequestError: If it is coded otherwise than in chunks.
        """
        said = headers.get(b"content-length")
        coding = headers.get(b"transfer-encoding")
        if said is None and coding is None:
            return None
        if coding is not None and coding.strip().lower() != b"chunked":
            raise InvalidRequestError(
                "http", f"Transfer-Encoding must be chunked, got {coding[:40]!r}"
            )
        # The parser took it for digits that are in range.
        length = None if said is None else int(said)
        if length is not None and length > limit:
            raise too_large(limit)
        text = headers.get(_LENGTH, b"")
        return cls(length, int(text) if text.isdigit() and len(text) < 10 else 0)

    @classmethod
    def received(cls, view: memoryview, header_length: int, size: int) -> Body:
        """A body of which ``size`` bytes are in ``view``, where all of it belongs."""
        self = cls(None, header_length)
        self.length, self.size = len(view), size
        self._view = view
        return self

    @property
    def in_place(self) -> bool:
        """Whether the rest may be received into :meth:`rest`."""
        return self._view is not None

    def rest(self) -> memoryview:
        """Where the next bytes belong; empty at the end."""
        assert self._view is not None
        return self._view[self.size :]

    def append(self, data: bytes | memoryview) -> None:
        """Take bytes that came elsewhere.

        Raises:
            InvalidRequestError: If chunks are too small.
        """
        chunks = 0 if self.length is not None else len(self._parts)
        if chunks >= _FREE_CHUNKS and self.size < _CHUNK_BYTES * chunks:
            raise InvalidRequestError(
                "http", f"chunks must be of {_CHUNK_BYTES} bytes on average"
            )
        if self._view is None:
            self._parts.append(bytes(data))
        else:
            self._view[self.size : self.size + len(data)] = data
        self.size += len(data)

    def data(self) -> Buffer:
        """All of it, at the end."""
        if self._view is not None:
            return self._view
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


def inflate(body: Buffer, encoding: bytes, limit: int) -> Buffer:
    """``body`` without its Content-Encoding.

    Raises:
        UnsupportedError: If the encoding is neither gzip nor deflate.
        TooLargeError: If it would be of more than ``limit`` bytes.
        InvalidRequestError: If it is damaged.
    """
    if encoding not in (b"gzip", b"deflate"):
        raise UnsupportedError(
            "request",
            f"Content-Encoding must be gzip or deflate, got {encoding[:40]!r}",
        )
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
