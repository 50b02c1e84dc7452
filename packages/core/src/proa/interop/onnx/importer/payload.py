"""Takes the elements of initializers out of a model before its message is parsed.

A message holds its strings of bytes a second time, and hands out copies of them. So the
fields `ModelProto.graph.initializer.raw_data` are found in the encoded file, and their
elements are read straight into the arrays that Layers keep.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BufferedIOBase

from proa.base.varint import encoded

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
#: Fields of fewer bytes stay in the message.
_SMALL = 1024

#: Where the elements of an initializer are in the file; None if in the message.
Span = tuple[int, int] | None


def split(stream: BufferedIOBase, size: int) -> tuple[bytes, list[Span]]:
    """A model without the elements of large initializers, and where those are.

    What is not the encoding of such a message is returned as it is.
    """
    spans: list[Span] = []

    def in_tensor(number: int, start: int, stop: int) -> bytes | None:
        if number != _RAW_DATA or stop - start < _SMALL:
            return None
        spans[-1] = start, stop
        return b""

    def in_graph(number: int, start: int, stop: int) -> bytes | None:
        if number != _INITIALIZER:
            return None
        spans.append(None)
        return _copied(stream, stop, in_tensor)

    def in_model(number: int, start: int, stop: int) -> bytes | None:
        return _copied(stream, stop, in_graph) if number == _GRAPH else None

    try:
        stream.seek(0)
        return _copied(stream, size, in_model), spans
    except ValueError:
        stream.seek(0)
        return stream.read(), []


def _copied(
    stream: BufferedIOBase, end: int, change: Callable[[int, int, int], bytes | None]
) -> bytes:
    """The fields up to a position, some of them changed.

    Args:
        change: Called with the number and place of a field of bytes; gives what it has
            instead, or None to leave it.
    """
    parts = []
    while (begin := stream.tell()) < end:
        tag = _number(stream)
        kind = tag & 7
        if kind == 0:
            _number(stream)
        elif kind in (1, 5):
            stream.seek(8 if kind == 1 else 4, 1)
        elif kind == 2:
            count = _number(stream)
            start = stream.tell()
            if start + count > end:
                raise ValueError("a field that is longer than what it is in")
            other = change(tag >> 3, start, start + count)
            stream.seek(start + count)
            if other is not None:
                parts += [encoded(tag), encoded(len(other)), other]
                continue
        else:
            raise ValueError(f"a field of wire type {kind}")
        stop = stream.tell()
        stream.seek(begin)
        parts.append(stream.read(stop - begin))
    if begin != end:
        raise ValueError("a field that is longer than what it is in")
    return b"".join(parts)


def _number(stream: BufferedIOBase) -> int:
    """A number in groups of 7 bits, the low ones first."""
    found = shift = 0
    while True:
        byte = stream.read(1)
        if not byte or shift > 63:
            raise ValueError("an unterminated varint")
        found |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return found
        shift += 7
