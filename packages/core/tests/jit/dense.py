"""A small layer of raw operators, which the tests of jit record and save."""

from __future__ import annotations

from typing import Any

import numpy as np

from proa import _core
from proa._core import ops


def tensor(*shape: int, seed: int = 0) -> Any:
    drawn = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return _core.from_numpy(drawn, True)


class Dense:
    """x @ w + b and an activation, by the raw ops: what a Layer offers to jit."""

    def __init__(self) -> None:
        self.training = True
        self.w, self.b = tensor(4, 3, seed=1), tensor(3, seed=2)
        for parameter in (self.w, self.b):
            parameter.stop_gradient = False

    def named_parameters(self) -> list[tuple[str, Any]]:
        return [("fc.weight", self.w), ("fc.bias", self.b)]

    def parameters(self) -> list[Any]:
        return [p for _, p in self.named_parameters()]

    def sublayers(self) -> list[Any]:
        return []

    def forward(self, x: Any) -> Any:
        y = ops.tanh(ops.linear(x, self.w, self.b))
        return ops.dropout(y, p=0.5, seed=3, offset=0) if self.training else y

    def __call__(self, x: Any) -> Any:
        return self.forward(x)

    def want(self, x: Any) -> np.ndarray:
        return np.tanh(x.numpy() @ self.w.numpy() + self.b.numpy())


def close(got: Any, want: np.ndarray) -> None:
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)
