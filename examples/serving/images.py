"""Image classification: files of images in, classes and their probabilities out.

A convolutional network learns scikit-learn's handwritten digits. The server decodes,
resizes and normalizes the files in a Python model, which an ensemble joins with the
network.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
from training import Array, fit, save, save_ensemble, save_python

import proa
from proa import nn

BATCH, STEPS, TEST = 128, 250, 300

DECODE = '''
"""Files of images to the network's input."""

import numpy as np
from proa_serving.preprocess import (
    ChannelsFirst,
    DecodeImage,
    Normalize,
    Resize,
    Sequential,
)

inputs = [("file", "BYTES", (-1,))]
outputs = [("image", "FP32", (-1, 1, 8, 8))]
batches = True
steps = Sequential(
    [DecodeImage(), Resize((8, 8)), Normalize([0.5] * 3, [0.5] * 3), ChannelsFirst()]
)


def run(inputs):
    return {"image": np.stack([steps(data)[:1] for data in inputs["file"]])}
'''


class Digits(nn.Layer):
    """Images (batch, 1, 8, 8) from -1 to 1 to probabilities (batch, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2D(1, 24, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(24, 48, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(48 * 16, 10),
        )

    def forward(self, image: proa.Tensor) -> proa.Tensor:
        scores = self.body(image)
        return scores if self.training else nn.functional.softmax(scores)


@functools.cache
def digits() -> tuple[Array, Array]:
    """All images, uint8 (count, 8, 8), and what they show."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return (found.images * 255 / 16).round().astype(np.uint8), found.target


def draw(rng: np.random.Generator) -> tuple[Array, ...]:
    images, labels = digits()
    chosen = rng.integers(len(images) - TEST, size=BATCH)
    x = images[chosen, None].astype(np.float32) / 127.5 - 1
    return x, labels[chosen].astype(np.int64)


def train() -> nn.Layer:
    """The network; it has not seen the last TEST images."""
    proa.seed(0)
    net = Digits()
    fit(net, draw, nn.functional.cross_entropy, steps=STEPS)
    return net


def build(folder: Path) -> None:
    """Train, and write the repository."""
    shape = ([None, 1, 8, 8], "float32")
    save(train(), folder, "digits", {"image": shape}, "probability", max_batch=32)
    save_python(folder, "decode", DECODE)
    save_ensemble(
        folder,
        "classify",
        inputs=[{"name": "file", "datatype": "BYTES", "shape": [-1]}],
        outputs=[{"name": "probability", "datatype": "FP32", "shape": [-1, 10]}],
        steps=[
            ("decode", {"file": "file"}, {"image": "image"}),
            ("digits", {"image": "image"}, {"probability": "probability"}),
        ],
    )
