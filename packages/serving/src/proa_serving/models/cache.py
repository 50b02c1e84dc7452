"""Keeps answers, so that equal requests are not computed again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping

from proa_serving.protocol.messages import Array
from proa_serving.schedule.merge import Arrays

# About what Python takes for an entry and for one array of it.
_ENTRY_BYTES = 512
_ARRAY_BYTES = 256
# Hashing more would hold the event loop for longer than a millisecond.
_MAX_KEY_BYTES = 2**20


def cache_key(load: int, inputs: Arrays) -> bytes | None:
    """Equal for requests of equal inputs to one load of a model; None if too large.

    It is a BLAKE2b digest of 256 bits of names, dtypes, shapes and elements.
    """
    if sum(array.nbytes for array in inputs.values()) > _MAX_KEY_BYTES:
        return None
    digest = hashlib.blake2b(load.to_bytes(8, "little"), digest_size=32)
    for name, array in inputs.items():
        digest.update(f"{name}\0{array.dtype.str}{array.shape}\0".encode())
        if array.dtype.kind == "O":
            for item in array.ravel():
                data = item if isinstance(item, bytes) else str(item).encode()
                digest.update(len(data).to_bytes(8, "little") + data)
        else:
            digest.update(array.tobytes())
    return digest.digest()


def _size(outputs: Mapping[str, Array]) -> int:
    size = _ENTRY_BYTES
    for array in outputs.values():
        size += _ARRAY_BYTES + array.nbytes
        if array.dtype.kind == "O":
            size += sum(64 + len(item) for item in array.ravel())
    return size


class ResponseCache:
    """Answers of all models that have it on; used on the event loop alone.

    The answer that was not needed for longest is dropped first.

    Args:
        limit: Bytes that it may hold.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[bytes, tuple[int, Mapping[str, Array]]] = OrderedDict()
        self.used = 0

    def get(self, key: bytes) -> Mapping[str, Array] | None:
        """The outputs kept for ``key``."""
        found = self._held.get(key)
        if found is None:
            return None
        self._held.move_to_end(key)
        return found[1]

    def put(self, key: bytes, outputs: Mapping[str, Array]) -> None:
        """Keep ``outputs``, which nothing may change later."""
        # A view could keep a whole batch, or a buffer that is used again.
        own = {
            name: array if array.base is None else array.copy()
            for name, array in outputs.items()
        }
        size = _size(own)
        if size > self._limit or key in self._held:
            return
        self._held[key] = (size, own)
        self.used += size
        while self.used > self._limit:
            self.used -= self._held.popitem(last=False)[1][0]
