"""MurmurHash3 against its published figures, and the filter that uses it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from proa.errors import InvalidArgumentError, ShapeError
from proa.incubate import BloomFilter, murmurhash3_x64_128

RNG = np.random.default_rng(0)


def _bytes_of(hashes: Any) -> bytes:
    return hashes.astype("<u8").tobytes()


def _hash(key: bytes, seed: int = 0) -> bytes:
    return _bytes_of(murmurhash3_x64_128(np.frombuffer(key, np.uint8)[None], seed))


@pytest.mark.feature("L097")
def test_the_verification_value_of_its_author() -> None:
    """SMHasher: keys 0, 1, .. of lengths 0 to 255, and a hash of their hashes."""
    key = bytes(range(256))
    hashes = b"".join(_hash(key[:n], 256 - n) for n in range(256))
    assert int.from_bytes(_hash(hashes)[:4], "little") == 0x6384BA69


def test_nothing_has_the_hash_of_zero() -> None:
    assert _hash(b"") == bytes(16)


@pytest.mark.feature("L097")
@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float32"])
def test_keys_together_are_hashed_as_alone(dtype: str) -> None:
    keys = (RNG.normal(size=(50, 7)) * 100).astype(dtype)
    together = murmurhash3_x64_128(keys, 7)
    assert [_bytes_of(h) for h in together] == [_hash(k.tobytes(), 7) for k in keys]
    transposed_view = np.asfortranarray(keys)
    np.testing.assert_array_equal(murmurhash3_x64_128(transposed_view, 7), together)


def _calls(count: int) -> int:
    """Python and C functions called for that many keys."""
    calls = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    filled = BloomFilter(1 << 16)
    keys = np.arange(4 * count).reshape(count, 4)
    sys.setprofile(note)
    try:
        filled.add(keys)
        filled.contains(keys)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.feature("L097", how="mechanism")
def test_the_work_of_python_does_not_grow_with_the_keys() -> None:
    assert _calls(5000) == _calls(5)


@pytest.mark.feature("L097")
@pytest.mark.parametrize("hashes", [1, 7])
def test_what_was_added_is_found_and_little_else(hashes: int) -> None:
    keys = np.arange(4000, dtype=np.int32).reshape(2000, 2)
    bits = 20_000
    bloom = BloomFilter(bits, hashes, seed=3)
    assert not bloom.contains(keys).any()
    bloom.add(keys[:1000])
    bloom.add(keys[1000:])
    assert bloom.contains(keys).all()
    others = keys + 10_000
    share = (1 - np.exp(-hashes * 2000 / bits)) ** hashes
    spread = 4 * np.sqrt(share * (1 - share) / 2000)
    assert abs(bloom.contains(others).mean() - share) < spread + 1e-3


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(ShapeError, match=r"keys must be \(n, length\)"):
        murmurhash3_x64_128(np.zeros(3, np.uint8))
    with pytest.raises(InvalidArgumentError, match="seed must have 32 bits"):
        murmurhash3_x64_128(np.zeros((1, 3), np.uint8), -1)
    with pytest.raises(InvalidArgumentError, match="bits must be positive, got 0"):
        BloomFilter(0)
