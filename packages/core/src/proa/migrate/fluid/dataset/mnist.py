"""Digits: rows of 784 numbers in [-1, 1], and what they are."""

from __future__ import annotations

from typing import Any

from proa.migrate.fluid.dataset.readers import Reader, flat, number, reader_of
from proa.vision.datasets import MNIST


def _sample(image: Any, label: Any) -> tuple[Any, int]:
    return flat(image) / 127.5 - 1.0, number(label)


def train() -> Reader:
    """The reader of 60 000 samples."""
    return reader_of(MNIST(mode="train", backend="cv2"), _sample)


def test() -> Reader:
    """The reader of 10 000 samples."""
    return reader_of(MNIST(mode="test", backend="cv2"), _sample)
