"""Header blocks to the calls that they begin, for one connection."""

from __future__ import annotations

from proa_serving.http2.calls import CallHead, Status, is_well_formed, parse_call
from proa_serving.http2.hpack import Decoder
from proa_serving.http2.reader import MAX_HEADER_BYTES

# Blocks that are remembered.
_MAX_BLOCKS = 64
TOO_LARGE = CallHead(
    "",
    None,
    b"identity",
    b"",
    status=Status(8, f"[grpc] headers must be at most {MAX_HEADER_BYTES} bytes"),
)


class CallHeads:
    """Decodes blocks; one that is repeated is looked up by its bytes."""

    __slots__ = ("_at", "_decoder", "_known")

    def __init__(self) -> None:
        self._decoder = Decoder(MAX_HEADER_BYTES)
        self._known: dict[bytes, CallHead] = {}
        self._at = 0  # changes of the decoder's table when they were decoded

    @property
    def changes(self) -> int:
        """Changes of the dynamic table: until the next, a block means the same."""
        return self._decoder.changes

    def known(self, block: bytes) -> CallHead | None:
        """The call of a block that would change nothing, if it was decoded before."""
        if self._at != self._decoder.changes:
            return None
        return self._known.get(block)

    def decode(self, block: bytes) -> CallHead | None:
        """The call of a block; None if it is malformed.

        Raises:
            CompressionError: If it cannot be decoded.
        """
        known = self.known(block)
        if known is not None:
            return known
        headers = self._decoder.decode(block)
        if headers is None:
            return TOO_LARGE
        if not is_well_formed(headers):
            return None
        head = parse_call(headers)
        if self._at != self._decoder.changes or len(self._known) >= _MAX_BLOCKS:
            self._known.clear()
            self._at = self._decoder.changes
        else:
            self._known[block] = head
        return head

    def are_trailers(self, block: bytes) -> bool:
        """Whether a block is well-formed trailers.

        Raises:
            CompressionError: If it cannot be decoded.
        """
        headers = self._decoder.decode(block)
        return headers is not None and is_well_formed(headers, trailers=True)
