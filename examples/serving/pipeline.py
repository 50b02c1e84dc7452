"""Two models, one after the other: noisy digits are cleaned, then classified.

Both are networks, joined by the server in an ensemble; neither client nor models know
of it. The cleaner learns to remove noise that was added.
"""

from __future__ import annotations

from pathlib import Path

import images
import numpy as np
from training import Array, fit, save, save_ensemble

import proa
from proa import nn

NOISE, STEPS = 0.7, 250


class Cleaner(nn.Layer):
    """Images (batch, 1, 8, 8) to the same without noise."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.Tanh()
        )

    def forward(self, image: proa.Tensor) -> proa.Tensor:
        return self.body(image).reshape([-1, 1, 8, 8])


def noisy(rng: np.random.Generator, x: Array) -> Array:
    """``x`` with noise."""
    return (x + rng.normal(0, NOISE, x.shape)).astype(np.float32)


def _draw(rng: np.random.Generator) -> tuple[Array, ...]:
    x, _ = images.draw(rng)
    return noisy(rng, x), x


def build(folder: Path) -> None:
    """Train both, and write the repository."""
    proa.seed(1)
    cleaner = Cleaner()
    fit(cleaner, _draw, nn.functional.mse_loss, steps=STEPS)
    shape = ([None, 1, 8, 8], "float32")
    save(cleaner, folder, "clean", {"image": shape}, "cleaned", max_batch=32)
    save(
        images.train(), folder, "digits", {"image": shape}, "probability", max_batch=32
    )
    save_ensemble(
        folder,
        "read",
        inputs=[{"name": "image", "datatype": "FP32", "shape": [-1, 1, 8, 8]}],
        outputs=[{"name": "probability", "datatype": "FP32", "shape": [-1, 10]}],
        steps=[
            ("clean", {"image": "image"}, {"cleaned": "cleaned"}),
            ("digits", {"image": "cleaned"}, {"probability": "probability"}),
        ],
    )
