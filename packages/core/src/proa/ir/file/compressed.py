"""Compressed model files, as FORMAT.md has them: a model file as a deflate stream."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise

from proa.errors import InvalidArgumentError

SIGNATURE = b"PROADEFL"
_HEAD_BYTES = 16
_RAW = -15  # no header or checksum of zlib's: the model file has its own
_MAX_RATIO = 1032  # of deflate: 258 bytes in two bits


def compress(model: bytes, starts: Sequence[int]) -> bytes:
    """The compressed file of a model file.

    Args:
        model: The model file.
        starts: Where blocks of the stream begin, each with Huffman codes of its own.
    """
    stream = zlib.compressobj(9, zlib.DEFLATED, _RAW, 9)
    parts = [SIGNATURE + struct.pack("<Q", len(model))]
    for begin, end in pairwise((0, *starts, len(model))):
        if begin:
            parts.append(stream.flush(zlib.Z_BLOCK))
        parts.append(stream.compress(model[begin:end]))
    return b"".join((*parts, stream.flush()))


def expand(raw: memoryview, where: str) -> memoryview:
    """The model file in a compressed one; another file's bytes as they are.

    Raises:
        InvalidArgumentError: If the stream is broken.
    """
    if len(raw) < _HEAD_BYTES or raw[:8] != SIGNATURE:
        return raw
    (size,) = struct.unpack_from("<Q", raw, 8)
    stream = zlib.decompressobj(_RAW)
    found = b""
    if size // _MAX_RATIO <= len(raw):
        try:
            # One byte more than stated, so that a longer stream is not at its end.
            found = stream.decompress(raw[_HEAD_BYTES:], size + 1)
        except zlib.error:
            found = b""
    if len(found) != size or not stream.eof or stream.unused_data:
        raise InvalidArgumentError(
            f"[{where}] a compressed model file must have a deflate stream of {size} "
            "bytes, got another or a broken one"
        )
    return memoryview(found)
