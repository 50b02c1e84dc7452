"""Files whose weights the engine packs as it reads them: 16 MB and more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from proa.errors import InvalidArgumentError
from proa.ir import Builder, Program, file
from proa.runtime import Engine, engine_from_bytes, load_engine

RNG = np.random.default_rng(0)
SIZE = 1024
W = [RNG.standard_normal((SIZE, SIZE)).astype(np.float32) / 32 for _ in range(5)]
ADDED = RNG.standard_normal((40, SIZE)).astype(np.float32)
COUNTS = RNG.integers(0, 40, 20_000)


def program() -> Program:
    """Weights that one product packs, that two do, that are read as they are too, that
    are views of others, and large arrays that nothing packs.
    """
    b = Builder()
    x = b.input("x", "float32", (40, SIZE))
    own, shared, tied, viewed, other = (
        b.parameter(f"w{i}", w) for i, w in enumerate(W)
    )
    y = b.relu(b.linear(x, own))
    y = b.linear(b.relu(b.linear(y, shared)), shared)
    y = b.add(b.linear(y, tied), b.constant(ADDED))
    top = b.slice(viewed, axes=[0], starts=[0], ends=[SIZE], steps=[1])
    y = b.linear(y, top)
    row = b.slice(tied, axes=[0], starts=[3], ends=[4], steps=[1])
    y = b.linear(y, other, b.reshape(row, shape=[SIZE]))
    b.output(y, b.gather(y, b.constant(COUNTS)), tied)
    return b.program


def expected(x: np.ndarray) -> list[np.ndarray]:
    own, shared, tied, viewed, other = (w.astype(np.float64) for w in W)
    y = np.maximum(x @ own, 0)
    y = np.maximum(y @ shared, 0) @ shared
    y = (y @ tied + ADDED) @ viewed
    y = y @ other + tied[3]
    return [y, y[COUNTS], tied]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large.proa"
    file.write(program(), path)
    assert path.stat().st_size > 20 << 20
    return path


def run(engine: Engine) -> list[np.ndarray]:
    x = np.random.default_rng(1).standard_normal((40, SIZE)).astype(np.float32)
    engine.set_flush_denormals(True)
    found = engine.run([x])
    for got, want in zip(found, expected(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)
    return found


def test_a_large_file_is_the_same_model_as_its_bytes(path: Path) -> None:
    from_file, from_bytes = load_engine(path, 1), engine_from_bytes(path.read_bytes())
    assert from_file.packed_bytes == from_bytes.packed_bytes > 20 << 20
    for engine in (from_file, from_file.clone(), from_bytes):
        for got, want in zip(run(engine), run(from_bytes), strict=True):
            np.testing.assert_array_equal(got, want)


def test_changed_bytes_of_a_large_file_are_found(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    other = tmp_path / "other.proa"
    places = [start + 20, start + 33, start + 130, start + 1500, start + 4000]
    places += [len(whole) * i // 16 for i in range(1, 16)] + [len(whole) - 1]
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 16
        other.write_bytes(changed)
        with pytest.raises(InvalidArgumentError):
            load_engine(other)
    for size in (start + 8, start + 64, len(whole) // 2, len(whole) - 1):
        other.write_bytes(whole[:size])
        with pytest.raises(InvalidArgumentError):
            load_engine(other)
    other.write_bytes(whole + bytes(64))
    with pytest.raises(InvalidArgumentError):
        load_engine(other)


LOADS = """
import sys
from pathlib import Path
from proa.runtime import load_engine

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(l.split()[1]) << 10 for l in lines if l.startswith("VmHWM"))

before = peak()
engine = load_engine(sys.argv[1], 1)
print(peak() - before)
"""


def test_weights_of_a_file_are_held_once_at_the_peak_of_loading(tmp_path: Path) -> None:
    b = Builder()
    y = b.input("x", "float32", (1, SIZE))
    for i in range(24):
        y = b.linear(y, b.parameter(f"w{i}", W[i % 5] + np.float32(i)))
    b.output(y)
    path = tmp_path / "net.proa"
    file.write(b.program, path)
    size = path.stat().st_size
    assert size > 96 << 20
    command = [sys.executable, "-c", LOADS, str(path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    # 96 MiB packed, one weight as it was read, and tables.
    assert size < int(found.stdout) < size + (16 << 20)
