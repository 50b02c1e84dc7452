"""Compressed model files: streams of zlib, read by Python and by the engine."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import proa
from proa import _core
from proa.errors import Error, InvalidArgumentError
from proa.ir import from_bytes, operator_versions, read, to_bytes, write

GOLDEN = Path(__file__).parent / "golden"
CNN = GOLDEN / "small_cnn.v1.proa"


def packed(
    model: bytes, level: int = 9, strategy: int = zlib.Z_DEFAULT_STRATEGY
) -> bytes:
    """FORMAT.md's bytes, by zlib alone."""
    stream = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
    head = b"PROADEFL" + struct.pack("<Q", len(model))
    return head + stream.compress(model) + stream.flush()


def with_weight(weight: np.ndarray) -> bytes:
    """A model that returns its constant plus its input."""
    from proa.ir import Builder

    b = Builder()
    x = b.input("x", "float32", [1])
    b.output(b.add(b.constant(weight), x))
    return to_bytes(b.program)


def test_a_compressed_file_has_the_bytes_of_the_model_file(tmp_path: Path) -> None:
    program = read(CNN)
    write(program, tmp_path / "m.proa", compressed=True)
    raw = (tmp_path / "m.proa").read_bytes()
    assert raw[:8] == b"PROADEFL"
    whole = zlib.decompress(raw[16:], -15)
    assert whole == to_bytes(program) and struct.unpack_from("<Q", raw, 8) == (
        len(whole),
    )
    assert to_bytes(program, compressed=True) == raw
    assert len(raw) < 0.6 * len(whole)


def test_every_reader_finds_in_it_what_the_model_file_has(tmp_path: Path) -> None:
    path = tmp_path / "m.proa"
    write(read(CNN), path, compressed=True)
    raw, plain = path.read_bytes(), CNN.read_bytes()
    assert str(read(path)) == str(read(CNN))
    assert operator_versions(raw) == operator_versions(plain)
    x = np.random.default_rng(0).standard_normal((3, 2, 4, 4)).astype(np.float32)
    want = _core.Engine.load(str(CNN)).run([x])
    for engine in (_core.Engine.load(str(path)), _core.Engine.from_bytes(raw)):
        for a, b in zip(engine.run([x]), want, strict=True):
            assert a.tobytes() == b.tobytes()
    loaded = proa.jit.load(str(path))(proa.to_tensor(x))
    assert loaded[0].numpy().tobytes() == want[0].tobytes()


def weights() -> dict[str, Callable[[np.random.Generator], np.ndarray]]:
    return {
        "equal": lambda rng: np.zeros(90_000, np.float32),
        "normal": lambda rng: rng.standard_normal(40_000).astype(np.float32),
        "few": lambda rng: rng.integers(-3, 4, 60_000).astype(np.float32),
        "far": lambda rng: np.tile(rng.standard_normal(8_100).astype(np.float32), 4),
        "rare": lambda rng: (0.6 ** rng.integers(0, 40, 30_000)).astype(np.float32),
    }


@pytest.mark.parametrize("kind", weights())
def test_the_engine_decodes_every_kind_of_block(kind: str) -> None:
    weight = weights()[kind](np.random.default_rng(3))
    model = with_weight(weight)
    strategies = (
        zlib.Z_DEFAULT_STRATEGY,
        zlib.Z_FIXED,
        zlib.Z_HUFFMAN_ONLY,
        zlib.Z_RLE,
    )
    variants = [(0, strategies[0]), (1, strategies[0])] + [(9, s) for s in strategies]
    for level, strategy in variants:
        raw = packed(model, level, strategy)
        (found,) = _core.Engine.from_bytes(raw).run([np.zeros(1, np.float32)])
        np.testing.assert_array_equal(found, weight)
        assert to_bytes(from_bytes(raw)) == model


def readers() -> dict[str, Callable[[bytes], object]]:
    return {"Python": from_bytes, "engine": _core.Engine.from_bytes}


@pytest.mark.parametrize("reader", readers())
def test_a_stream_of_another_size_is_refused(reader: str) -> None:
    read_by, model = readers()[reader], CNN.read_bytes()
    good = packed(model)
    for size in (0, 1, len(model) - 1, len(model) + 1, 2**31, 2**62, 2**64 - 1):
        wrong = good[:8] + struct.pack("<Q", size) + good[16:]
        with pytest.raises(InvalidArgumentError):
            read_by(wrong)
    for wrong in (good + b"\0", good[:-1], good[:17], good[:16], good[:8]):
        with pytest.raises(InvalidArgumentError):
            read_by(wrong)


@pytest.mark.fuzz
@pytest.mark.parametrize("reader", readers())
def test_any_flipped_bit_of_it_is_found_or_without_meaning(reader: str) -> None:
    read_by, good = readers()[reader], packed(CNN.read_bytes())
    for at in range(8, len(good)):
        changed = bytearray(good)
        changed[at] ^= 1 << (at % 8)
        try:
            read_by(bytes(changed))
        except Error:
            continue
        assert zlib.decompress(bytes(changed[16:]), -15) == CNN.read_bytes()
