"""Small models made op by op, with what NumPy says they compute."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import proa
import proa.nn.functional as F
from proa.ir import file
from proa.ir.builder import Builder
from proa.static import InputSpec
from proa.static import nn as snn

RNG = np.random.default_rng(3)
W1 = RNG.standard_normal((6, 8)).astype(np.float32)
B1 = RNG.standard_normal(8).astype(np.float32)
W2 = RNG.standard_normal((8, 3)).astype(np.float32)
W3 = RNG.standard_normal((8, 8)).astype(np.float32) / 4


def write_mlp(path: Path) -> Path:
    """x (?, 6) -> hidden = relu(x @ W1 + B1), y = hidden @ W2 (?, 3)."""
    b = Builder()
    x = b.input("x", "float32", (-1, 6))
    hidden = b.relu(b.linear(x, b.parameter("w1", W1), b.parameter("b1", B1)))
    out = b.linear(hidden, b.parameter("w2", W2))
    out.name, hidden.name = "y", "hidden"
    b.output(out, hidden)
    file.write(b.program, path)
    return path


def mlp(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    hidden = np.maximum(x @ W1 + B1, 0)
    return hidden @ W2, hidden


def batch(n: int, seed: int = 0) -> np.ndarray:
    """Drawn inputs of `write_mlp`'s model, (n, 6)."""
    return np.random.default_rng(seed).standard_normal((n, 6)).astype(np.float32)


def check_mlp(
    outputs: Sequence[np.ndarray], x: np.ndarray, tolerance: float = 1e-5
) -> None:
    for got, want in zip(outputs, mlp(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def write_gate(path: Path) -> Path:
    """x, g (?, 96) -> y = relu(x * sigmoid(g) + x) (?, 96), elementwise throughout."""
    b = Builder()
    x, g = (b.input(name, "float32", (-1, 96)) for name in "xg")
    out = b.relu(b.add(b.mul(x, b.sigmoid(g)), x))
    out.name = "y"
    b.output(out)
    file.write(b.program, path)
    return path


def write_loop(path: Path) -> Path:
    """x (?, 8), n -> rows and i: n rounds that put relu(x's last row @ W + B) after x,
    and its half where that sums up to more than 4.
    """
    square, bias = proa.to_tensor(W3), proa.to_tensor(B1)

    def loop(x, n):
        def body(i, rows):
            row = F.relu(F.linear(rows[-1:], square, bias))
            row = snn.cond(row.sum() > 4, lambda: row / 2, lambda: row * 1)
            return i + 1, proa.concat([rows, row])

        i, rows = snn.while_loop(lambda i, rows: i < n, body, [n * 0, x])
        return rows, i

    specs = [InputSpec([-1, 8], "float32", "x"), InputSpec([], "int64", "n")]
    proa.jit.save(loop, path, input_spec=specs)
    return path


def loop(x: np.ndarray, n: int) -> np.ndarray:
    for _ in range(n):
        row = np.maximum(x[-1:] @ W3 + B1, 0)
        x = np.concatenate([x, row / 2 if row.sum() > 4 else row])
    return x
