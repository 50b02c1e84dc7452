"""Small models made op by op, with what NumPy says they compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from proa.ir import file
from proa.ir.builder import Builder

RNG = np.random.default_rng(3)
W1 = RNG.standard_normal((6, 8)).astype(np.float32)
B1 = RNG.standard_normal(8).astype(np.float32)
W2 = RNG.standard_normal((8, 3)).astype(np.float32)


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


def write_gate(path: Path) -> Path:
    """x, g (?, 96) -> y = relu(x * sigmoid(g) + x) (?, 96), elementwise throughout."""
    b = Builder()
    x, g = (b.input(name, "float32", (-1, 96)) for name in "xg")
    out = b.relu(b.add(b.mul(x, b.sigmoid(g)), x))
    out.name = "y"
    b.output(out)
    file.write(b.program, path)
    return path
