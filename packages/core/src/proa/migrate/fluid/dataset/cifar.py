"""Small images: rows of 3072 numbers in [0, 1], and their classes."""

from __future__ import annotations

from typing import Any

from proa.migrate.fluid.dataset.readers import Reader, flat, number, reader_of
from proa.vision.datasets import Cifar10, Cifar100


def _sample(image: Any, label: Any) -> tuple[Any, int]:
    return flat(image) / 255.0, number(label)


def train10() -> Reader:
    """The reader of 50 000 samples of 10 classes."""
    return reader_of(Cifar10(mode="train", backend="cv2"), _sample)


def test10() -> Reader:
    """The reader of 10 000 samples of 10 classes."""
    return reader_of(Cifar10(mode="test", backend="cv2"), _sample)


def train100() -> Reader:
    """The reader of 50 000 samples of 100 classes."""
    return reader_of(Cifar100(mode="train", backend="cv2"), _sample)


def test100() -> Reader:
    """The reader of 10 000 samples of 100 classes."""
    return reader_of(Cifar100(mode="test", backend="cv2"), _sample)
