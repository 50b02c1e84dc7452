"""Training under autocast to bfloat16 follows the losses of float32."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import proa
from proa import amp, nn

STEPS = 30


class Image(nn.Layer):
    """Convolutions and batch norms."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2D(3, 8, 3, padding=1), nn.BatchNorm2D(8), nn.ReLU()),
            *(nn.MaxPool2D(2, 2), nn.Conv2D(8, 16, 3), nn.BatchNorm2D(16), nn.ReLU()),
        )
        self.head = nn.Linear(16, 4)

    def forward(self, x: proa.Tensor) -> proa.Tensor:
        return self.head(self.body(x).mean([2, 3]))


class Sequence(nn.Layer):
    """Attention, layer norms and a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0)
        self.after = nn.LSTM(16, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, x: proa.Tensor) -> proa.Tensor:
        return self.head(self.after(self.body(x))[0][:, -1])


def curve(make: Callable[[], nn.Layer], x: np.ndarray, y: np.ndarray, low: bool) -> Any:
    """The losses of the steps; with them whether the network's output was 16 bits."""
    proa.seed(1)
    net = make()
    adam = proa.optimizer.Adam(3e-3, parameters=net.parameters())
    inputs, labels = proa.to_tensor(x), proa.to_tensor(y)
    losses = []
    for _ in range(STEPS):
        with amp.auto_cast(dtype="bfloat16") if low else nullcontext():
            out = net(inputs)
            loss = nn.functional.cross_entropy(out, labels)
        loss.backward()
        assert all(p.grad.dtype == "float32" for p in net.parameters())
        adam.step()
        adam.clear_grad()
        losses.append(loss.item())
    return np.array(losses), out.dtype == "bfloat16"


@pytest.mark.parametrize(
    ("make", "shape"), [(Image, (32, 3, 12, 12)), (Sequence, (32, 10, 16))]
)
def test_bfloat16_learns_as_float32_does(make: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, shape[0])
    x = rng.standard_normal(shape).astype(np.float32)
    x += y.reshape(-1, *[1] * (len(shape) - 1)).astype(np.float32) / 2
    exact, _ = curve(make, x, y, False)
    low, narrow = curve(make, x, y, True)
    assert narrow  # autocast was on
    assert exact[-1] < 0.7 * exact[0]  # there was something to learn
    # Eight bits of mantissa: losses differ by a few per cent of where they began.
    assert np.abs(low - exact).max() < 0.05 * exact[0]
