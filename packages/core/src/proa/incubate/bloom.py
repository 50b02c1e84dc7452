"""A Bloom filter, a set in few bits without false negatives, and its hash."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proa.errors import InvalidArgumentError, ShapeError

__all__ = ["BloomFilter", "murmurhash3_x64_128"]

Words = NDArray[np.uint64]

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)


def _rotate_left(x: Words, by: int) -> Words:
    """Rotate every word left by some bits."""
    rotated: Words = (x << np.uint64(by)) | (x >> np.uint64(64 - by))
    return rotated


def _mixed(k: Words) -> Words:
    """Every bit of a word spread over all of them."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        k = (k ^ (k >> np.uint64(33))) * np.uint64(factor)
    mixed: Words = k ^ (k >> np.uint64(33))
    return mixed


def _first(k: Words) -> Words:
    words: Words = _rotate_left(k * _C1, 31) * _C2
    return words


def _second(k: Words) -> Words:
    words: Words = _rotate_left(k * _C2, 33) * _C1
    return words


def murmurhash3_x64_128(keys: ArrayLike, seed: int = 0) -> Words:
    """128 bits of MurmurHash3 (Appleby, 2011, for 64-bit machines) of each key.

    All keys are hashed together, word by word.

    Args:
        keys: (n, length): a key in each row, whose bytes are hashed. Bytes, or numbers
            of a fixed size as stored in memory (little-endian).
        seed: 0 to 2**32 - 1.

    Returns:
        (n, 2) uint64, the low word first.

    Raises:
        ShapeError: If keys has not two axes.
        InvalidArgumentError: If seed has more than 32 bits.
    """
    array = np.ascontiguousarray(keys)
    if array.ndim != 2:
        raise ShapeError("murmurhash3_x64_128", "keys must be (n, length)", array.shape)
    if not 0 <= seed < 1 << 32:
        raise InvalidArgumentError(
            f"[murmurhash3_x64_128] seed must have 32 bits, got {seed}"
        )
    count = len(array)
    size = array.shape[1] * array.dtype.itemsize
    # Beyond the end are zeros, up to a whole block of two words.
    whole = np.zeros((count, -(-size // 16) * 16), np.uint8)
    if array.size:
        whole[:, :size] = array.view(np.uint8).reshape(count, size)
    words = whole.view("<u8").astype(np.uint64, copy=False)
    one = np.full(count, seed, np.uint64)
    two = one.copy()
    five = np.uint64(5)
    for at in range(0, size // 16 * 2, 2):
        one = _rotate_left(one ^ _first(words[:, at]), 27) + two
        one = one * five + np.uint64(0x52DCE729)
        two = _rotate_left(two ^ _second(words[:, at + 1]), 31) + one
        two = two * five + np.uint64(0x38495AB5)
    if size % 16:
        one, two = one ^ _first(words[:, -2]), two ^ _second(words[:, -1])
    one, two = one ^ np.uint64(size), two ^ np.uint64(size)
    one = one + two
    two = two + one
    one, two = _mixed(one), _mixed(two)
    one = one + two
    return np.stack([one, two + one], 1)


class BloomFilter:
    """Keys of one length (rows of numbers) in a field of bits (Bloom, 1970).

    Each key sets ``hashes`` bits, at the places a + i * b modulo the size, of which a
    and b are the words of its hash (Kirsch and Mitzenmacher, 2006). A key that was
    added is always found; another one with a chance of about 0.6185 ** (bits / keys),
    if ``hashes`` is 0.69 * bits / keys.

    Args:
        bits: Size of the field.
        hashes: Bits that a key sets.
        seed: Seed of the hash.
    """

    def __init__(self, bits: int, hashes: int = 3, seed: int = 0) -> None:
        for name, value in (("bits", bits), ("hashes", hashes)):
            if value < 1:
                raise InvalidArgumentError(
                    f"[BloomFilter] {name} must be positive, got {value}"
                )
        self.bits, self.hashes, self.seed = int(bits), int(hashes), int(seed)
        self._field = np.zeros(-(-self.bits // 8), np.uint8)

    def _places(self, keys: Any) -> NDArray[np.int64]:
        """(n, hashes) numbers of bits."""
        low, high = murmurhash3_x64_128(keys, self.seed).T
        steps = np.arange(self.hashes, dtype=np.uint64)
        places = (low[:, None] + steps * high[:, None]) % np.uint64(self.bits)
        return np.asarray(places, np.int64)

    def add(self, keys: ArrayLike) -> None:
        """Add each row of keys."""
        places = self._places(keys).ravel()
        np.bitwise_or.at(self._field, places >> 3, (1 << (places & 7)).astype(np.uint8))

    def contains(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Whether each row of keys was added, or seems so."""
        places = self._places(keys)
        found = self._field[places >> 3] >> (places & 7).astype(np.uint8) & 1
        return np.asarray(found.all(1), np.bool_)
