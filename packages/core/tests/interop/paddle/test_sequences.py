"""Paddle's programs with sequences of rows, against loops over each in NumPy."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import UnimplementedError
from proa.interop import paddle
from proa.static import create_lod_tensor

pytest.importorskip("google.protobuf")

from .programs import ProgramFile

RNG = np.random.default_rng(4)
LENGTHS = [2, 4, 1]
SIZE = 3


def _float32(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def _results(file: ProgramFile, rows: Any) -> list[Any]:
    """Results of the loaded model, and of the one that is saved and loaded again."""
    layer = paddle.load(None, None, file.program(), file.parameters())
    buffer = io.BytesIO()
    proa.jit.save(layer, buffer, layer.input_spec)
    buffer.seek(0)
    again = proa.jit.load(buffer)
    lengths = proa.to_tensor(np.array(LENGTHS, np.int64))
    found = layer(create_lod_tensor(rows, [LENGTHS]))
    return [found.numpy(), again(proa.to_tensor(rows), lengths).numpy()]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _lstm(rows: Any, w: Any, bias: Any) -> Any:
    """Hochreiter and Schmidhuber's cell with peepholes, sequence by sequence."""
    b, (wi, wf, wo) = bias[: 4 * SIZE], np.split(bias[4 * SIZE :], 3)
    found = []
    for part in np.split(rows, np.cumsum(LENGTHS)[:-1]):
        h = c = np.zeros(SIZE)
        for row in part:
            g, i, f, o = np.split(row + h @ w + b, 4)
            c = np.tanh(g) * _sigmoid(i + wi * c) + c * _sigmoid(f + wf * c)
            h = _sigmoid(o + wo * c) * np.tanh(c)
            found.append(h)
    return np.array(found)


def test_lstm_with_peepholes() -> None:
    file, w, bias = ProgramFile(), _float32(SIZE, 4 * SIZE), _float32(7 * SIZE)
    x = file.feed("x", [-1, 4 * SIZE], levels=1)
    file.param("w", w)
    file.param("b", bias.reshape(1, -1))
    results = {k: k.lower() for k in ("Hidden", "Cell", "BatchGate", "BatchCellPreAct")}
    file.main.op("lstm", {"Input": x, "Weight": "w", "Bias": "b"}, results,
                 use_peepholes=True)  # fmt: skip
    file.fetch("hidden")
    rows = _float32(7, 4 * SIZE)
    for found in _results(file, rows):
        np.testing.assert_allclose(found, _lstm(rows, w, bias), rtol=1e-5, atol=1e-6)


def test_gru_backwards() -> None:
    file, w = ProgramFile(), _float32(SIZE, 3 * SIZE)
    x = file.feed("x", [-1, 3 * SIZE], levels=1)
    file.param("w", w)
    file.main.op("gru", {"Input": x, "Weight": "w"}, {"Hidden": "h"}, is_reverse=True)
    file.fetch("h")
    rows = _float32(7, 3 * SIZE)
    flat = w.reshape(-1)
    two = flat[: 2 * SIZE * SIZE].reshape(SIZE, 2 * SIZE)
    last = flat[2 * SIZE * SIZE :].reshape(SIZE, SIZE)
    want = []
    for part in np.split(rows, np.cumsum(LENGTHS)[:-1]):
        h, result = np.zeros(SIZE), []
        for row in part[::-1]:
            u, r = np.split(_sigmoid(row[: 2 * SIZE] + h @ two), 2)
            h = (1 - u) * h + u * np.tanh(row[2 * SIZE :] + (r * h) @ last)
            result.append(h)
        want += result[::-1]
    for found in _results(file, rows):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_lengths_follow_rows_and_are_reset() -> None:
    """What is computed row by row keeps the lengths that the program declares."""
    file = ProgramFile()
    x = file.feed("x", [-1, 2], levels=1)
    for name in ("doubled", "others"):
        file.main.var(name, [-1, 2])
        file.main.desc.vars[-1].type.lod_tensor.lod_level = 1
    file.main.op("scale", {"X": x}, {"Out": "doubled"}, scale=2.0)
    file.main.op("lod_reset", {"X": "doubled"}, {"Out": "others"}, target_lod=[0, 3, 7])
    file.main.op("sequence_pool", {"X": "doubled"}, {"Out": "a"}, pooltype="MAX")
    file.main.op("sequence_pool", {"X": "others"}, {"Out": "b"}, pooltype="SUM")
    file.main.op("concat", {"X": ["a", "b"]}, {"Out": "c"}, axis=0)
    file.fetch("c")
    rows = _float32(7, 2)
    want = [*(2 * p.max(0) for p in np.split(rows, [2, 6])),
            *(2 * p.sum(0) for p in np.split(rows, [3]))]  # fmt: skip
    for found in _results(file, rows):
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_rows_without_lengths_are_refused() -> None:
    file = ProgramFile()
    file.main.op("sequence_pool", {"X": file.feed("x", [-1, 2])}, {"Out": "a"})
    file.fetch("a")
    layer = paddle.load(None, None, file.program(), file.parameters())
    with pytest.raises(UnimplementedError, match="without levels of lengths"):
        layer(proa.ones([3, 2]))
