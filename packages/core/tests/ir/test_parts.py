"""Engines that read weights where they are, and checksums by the CPU's products."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from proa import _core
from proa.errors import InvalidArgumentError
from proa.ir import Builder, Program, to_bytes
from proa.ir.file import to_parts

RANDOM = np.random.default_rng(11)


def some_program() -> Program:
    b = Builder()
    x = b.input("x", "float32", [-1, 40])
    w = b.parameter("w", RANDOM.standard_normal((40, 30)).astype(np.float32))
    c = b.parameter("c", RANDOM.standard_normal(30).astype(np.float32))
    y = b.linear(x, w, c)
    half = b.constant(np.float32(0.5))
    b.output(b.mul(y, half), b.add(y, b.constant(np.ones((1, 30), np.float32))))
    return b.program


def test_an_engine_of_parts_gives_the_bits_of_one_of_the_file() -> None:
    program = some_program()
    graph, weights = to_parts(program)
    assert sum(len(memoryview(w)) for w in weights) == 4 * (40 * 30 + 30 + 1 + 30)
    engine = _core.Engine.from_parts(graph, weights)
    raw = to_bytes(program)
    assert engine.model_bytes == len(raw)
    del program, weights  # the engine keeps what it reads
    x = RANDOM.standard_normal((7, 40)).astype(np.float32)
    for clone in (engine, engine.clone()):
        for a, b in zip(
            clone.run([x]), _core.Engine.from_bytes(raw).run([x]), strict=True
        ):
            np.testing.assert_array_equal(a, b)


def test_parts_that_do_not_fit_are_refused() -> None:
    graph, weights = to_parts(some_program())
    small = np.zeros(3, np.uint8)
    for wrong in (weights[:-1], [*weights, small], [weights[0], small, *weights[2:]]):
        with pytest.raises(InvalidArgumentError, match="data of every constant"):
            _core.Engine.from_parts(graph, wrong)
    for cut in (graph[:7], graph[:200], graph[:-1], graph + b"x", b""):
        with pytest.raises(InvalidArgumentError, match="end of its graph"):
            _core.Engine.from_parts(cut, weights)


@pytest.mark.parametrize(
    "size", [*range(0, 200, 7), 64, 80, 511, 512, 513, 767, 768, 1060, 4096, 100_003]
)
def test_crc32_is_that_of_zlib(size: int) -> None:
    data = RANDOM.integers(0, 256, size, dtype=np.uint8)
    for start in (0, 0xFFFFFFFF, 0x12345678):
        for part in (data, data[1:], data[: size // 2]):
            want = zlib.crc32(part.tobytes(), start)
            assert _core.crc32(np.ascontiguousarray(part), start) == want
