"""Header compression (RFC 7541): a decoder with its table, and literals to send."""

from __future__ import annotations

from proa_serving.http2.huffman import decode as decode_huffman

Header = tuple[bytes, bytes]
TABLE_BYTES = 4096  # what a peer may use of the table, unless settings say otherwise
# So far beyond its bound the list of a block ends the connection: an index is one byte,
# whatever it stands for, and decoding on is for the table alone.
_MAX_EXCESS = 2**16
_OVERHEAD = 32  # of an entry, by definition
# Integers are sizes and indices; more continuation bytes than this code nothing useful.
_MAX_SHIFT = 28

# The static table: name, then its values, in the order of appendix A.
_STATIC_ROWS = (
    ":authority", ":method GET POST", ":path / /index.html", ":scheme http https",
    ":status 200 204 206 304 400 404 500", "accept-charset",
    "accept-encoding gzip,_deflate", "accept-language", "accept-ranges", "accept",
    "access-control-allow-origin", "age", "allow", "authorization", "cache-control",
    "content-disposition", "content-encoding", "content-language", "content-length",
    "content-location", "content-range", "content-type", "cookie", "date", "etag",
    "expect", "expires", "from", "host", "if-match", "if-modified-since",
    "if-none-match", "if-range", "if-unmodified-since", "last-modified", "link",
    "location", "max-forwards", "proxy-authenticate", "proxy-authorization", "range",
    "referer", "refresh", "retry-after", "server", "set-cookie",
    "strict-transport-security", "transfer-encoding", "user-agent", "vary", "via",
    "www-authenticate",
)  # fmt: skip
STATIC: tuple[Header, ...] = tuple(
    (row.split()[0].encode(), value.replace("_", " ").encode())
    for row in _STATIC_ROWS
    for value in row.split()[1:] or [""]
)


class CompressionError(Exception):
    """A header block that cannot be decoded; the connection is lost with it."""


class Decoder:
    """The headers of one direction of one connection.

    Args:
        max_list: Bytes of the headers of one block, names and values and 32 for each;
            a block with more is decoded for its effect on the table alone.
    """

    __slots__ = ("_entries", "_limit", "_max_list", "_size", "changes")

    def __init__(self, max_list: int) -> None:
        self._entries: list[Header] = []  # the newest first
        self._size, self._limit = 0, TABLE_BYTES
        self._max_list = max_list
        self.changes = 0  # of the table: blocks mean the same until the next

    def decode(self, block: bytes) -> list[Header] | None:
        """The headers of ``block``; None if they are too many.

        Raises:
            CompressionError: If it is malformed, or they are by far too many.
        """
        found: list[Header] = []
        left = self._max_list
        at, end = 0, len(block)
        while at < end:
            first = block[at]
            if first >= 0x80:
                index, at = _integer(block, at, 7)
                header = self._entry(index)
            elif first & 0xE0 == 0x20:
                size, at = _integer(block, at, 5)
                if found or left != self._max_list or size > TABLE_BYTES:
                    raise CompressionError("table size must come first, in bounds")
                self._limit = size
                self._evict(0)
                self.changes += 1
                continue
            else:
                bits = 6 if first >= 0x40 else 4
                index, at = _integer(block, at, bits)
                if index:
                    name = self._entry(index)[0]
                else:
                    name, at = _string(block, at)
                value, at = _string(block, at)
                header = (name, value)
                if bits == 6:
                    self._add(header)
            left -= len(header[0]) + len(header[1]) + _OVERHEAD
            if left >= 0:
                found.append(header)
            elif left < -_MAX_EXCESS:
                raise CompressionError("the headers of a block are too long")
        return found if left >= 0 else None

    def _entry(self, index: int) -> Header:
        if 0 < index <= len(STATIC):
            return STATIC[index - 1]
        index -= len(STATIC) + 1
        if not 0 <= index < len(self._entries):
            raise CompressionError("index must be in the table")
        return self._entries[index]

    def _add(self, header: Header) -> None:
        size = len(header[0]) + len(header[1]) + _OVERHEAD
        self._evict(size)
        if size <= self._limit:
            self._entries.insert(0, header)
            self._size += size
        self.changes += 1

    def _evict(self, size: int) -> None:
        """Drop the oldest entries until ``size`` bytes are free."""
        while self._entries and self._size + size > self._limit:
            name, value = self._entries.pop()
            self._size -= len(name) + len(value) + _OVERHEAD


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """An integer with a prefix of ``bits``, and where it ends."""
    mask = (1 << bits) - 1
    value = block[at] & mask
    at += 1
    if value < mask:
        return value, at
    for shift in range(0, _MAX_SHIFT, 7):
        if at >= len(block):
            raise CompressionError("a block must not end inside an integer")
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise CompressionError("integers must be below 2**28")


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    if at >= len(block):
        raise CompressionError("a block must not end before a string")
    coded = block[at] >= 0x80
    size, at = _integer(block, at, 7)
    end = at + size
    if end > len(block):
        raise CompressionError("a block must not end inside a string")
    data = block[at:end]
    if coded:
        text = decode_huffman(data)
        if text is None:
            raise CompressionError("a string must be a valid Huffman code")
        return text, end
    return data, end


def encode(headers: list[Header]) -> bytes:
    """``headers`` for the peer, without the table: the same bytes on any connection."""
    found = bytearray()
    for name, value in headers:
        if (name, value) in STATIC:
            found += _prefixed(STATIC.index((name, value)) + 1, 7, 0x80)
            continue
        names = [each for each, _ in STATIC]
        if name in names:
            found += _prefixed(names.index(name) + 1, 4, 0)
        else:
            found += b"\0" + _prefixed(len(name), 7, 0) + name
        found += _prefixed(len(value), 7, 0) + value
    return bytes(found)


def _prefixed(value: int, bits: int, first: int) -> bytes:
    mask = (1 << bits) - 1
    if value < mask:
        return bytes([first | value])
    found = bytearray([first | mask])
    value -= mask
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
