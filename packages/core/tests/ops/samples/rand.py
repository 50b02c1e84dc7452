"""Records of random arrays, held to Philox4x32-10 in Python integers.

The generator itself is held to the authors' known answers in csrc/tests/philox_test.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..sample import Array, Sample, case

_MASK = 0xFFFFFFFF


def _philox(counter: int, offset: int, seed: int) -> list[int]:
    """The four words of one counter (Salmon et al., 2011)."""
    c = [counter & _MASK, counter >> 32, offset & _MASK, offset >> 32 & _MASK]
    k = [seed & _MASK, seed >> 32 & _MASK]
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) & _MASK, (k[1] + 0xBB67AE85) & _MASK]
    return c


def _words(count: int, seed: int, offset: int) -> Array:
    words = [w for i in range((count + 3) // 4) for w in _philox(i, offset, seed)]
    return np.array(words[:count], np.uint64)


def units(count: int, dtype: str, seed: int, offset: int) -> Array:
    if dtype != "float64":
        return (_words(count, seed, offset) >> np.uint64(8)).astype(
            np.float64
        ) * 2.0**-24
    words = _words(2 * count, seed, offset)
    whole = words[1::2] << np.uint64(32) | words[0::2]
    return (whole >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _size(shape: list[int]) -> int:
    return int(np.prod(shape))


def _uniform(
    *, shape: list[int], low: float, high: float, dtype: str, seed: int, offset: int
) -> Array:
    u = units(_size(shape), dtype, seed, offset)
    return (low + (high - low) * u).reshape(shape)


def _gaussian(
    *, shape: list[int], mean: float, std: float, dtype: str, seed: int, offset: int
) -> Array:
    count = _size(shape)
    u = units(count + count % 2, dtype, seed, offset)
    radius, angle = np.sqrt(-2 * np.log(1 - u[0::2])), 2 * np.pi * u[1::2]
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).ravel()
    return (mean + std * pairs[:count]).reshape(shape)


_KEYS = [{"seed": 7, "offset": 0}, {"seed": -(2**62) - 5, "offset": 2**40 + 3}]
_FLOATS = ["float16", "bfloat16", "float32", "float64"]
_SHAPES = [[2, 3], [1000], []]
_ROUGH: dict[str, Any] = {
    "rtol": {"float32": 2e-5, "float16": 2e-3, "bfloat16": 2e-2},
    "atol": {"float32": 3e-6, "float16": 2e-3, "bfloat16": 2e-2},
}
Sample(
    "uniform",
    ref=_uniform,
    cases=[
        case(shape=s, low=-1.0, high=2.0, dtype=t, **k)
        for s in _SHAPES
        for t in _FLOATS
        for k in _KEYS
    ],
    **_ROUGH,
)
Sample(
    "gaussian",
    ref=_gaussian,
    cases=[
        case(shape=s, mean=0.5, std=2.0, dtype=t, **k)
        for s in _SHAPES
        for t in _FLOATS
        for k in _KEYS
    ],
    **_ROUGH,
)


def _randint(
    *, shape: list[int], low: int, high: int, dtype: str, seed: int, offset: int
) -> Array:
    words = _words(2 * _size(shape), seed, offset)
    whole = [
        int(b) << 32 | int(a) for a, b in zip(words[0::2], words[1::2], strict=True)
    ]
    values = [low + (w * (high - low) >> 64) for w in whole]
    return np.array(values, np.int64).reshape(shape).astype(dtype)


Sample(
    "randint",
    ref=_randint,
    cases=[
        case(shape=[500], low=-3, high=9, dtype="int32", **_KEYS[0]),
        case(shape=[3, 5], low=-(2**62), high=2**62, dtype="int64", **_KEYS[1]),
    ],
)


def _randperm(*, count: int, dtype: str, seed: int, offset: int) -> Array:
    words = _words(2 * count, seed, offset)
    keys = words[1::2] << np.uint64(32) | words[0::2]
    return np.argsort(keys, kind="stable").astype(dtype)


Sample(
    "randperm",
    ref=_randperm,
    cases=[
        case(count=n, dtype=t, **_KEYS[0])
        for n in (0, 1, 20, 1000)
        for t in ("int32", "int64", "float32", "float64")
    ],
)


def _mask(x: Array, seed: int, offset: int) -> Array:
    return units(x.size, "float32", seed, offset).reshape(x.shape)


Sample(
    "bernoulli",
    ref=lambda x, *, seed, offset: (_mask(x, seed, offset) < x).astype(x.dtype),
    cases=[case((2, 3), **_KEYS[0]), case((7, 200), **_KEYS[1])],
    domain=(0, 1),
)


def _dropout(x: Array, *, p: float, seed: int, offset: int, upscale: bool) -> Array:
    scale = 1 / (1 - p) if upscale and p < 1 else 1
    return np.where(_mask(x, seed, offset) >= np.float32(p), x * scale, 0)


Sample(
    "dropout",
    ref=_dropout,
    cases=[
        case((2, 3), p=0.5, upscale=True, **_KEYS[0]),
        case((7, 200), p=0.25, upscale=False, **_KEYS[1]),
        case((50,), p=1.0, upscale=True, **_KEYS[0]),
        case((50,), p=0.0, upscale=True, **_KEYS[0]),
    ],
)
