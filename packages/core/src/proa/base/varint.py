"""Numbers as protocol buffers encode them: groups of 7 bits, the low ones first."""

from __future__ import annotations

_BITS = (1 << 64) - 1


def encoded(number: int) -> bytes:
    """The bytes of a number of 64 bits; a negative one has its two's complement."""
    number &= _BITS
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
