"""Pictures (height, width, 3) with the class of each pixel (height, width)."""

from __future__ import annotations

from typing import Any

import numpy as np

from proa.migrate.fluid.dataset.readers import Reader, reader_of
from proa.vision.datasets import VOC2012


def _reader(mode: str) -> Reader:
    def sample(image: Any, label: Any) -> tuple[Any, Any]:
        return np.asarray(image), np.asarray(label)

    return reader_of(VOC2012(mode=mode), sample)


def train() -> Reader:
    """The reader of the pictures to train and validate with."""
    return _reader("train")


def test() -> Reader:
    """The reader of the pictures to train with."""
    return _reader("test")


def val() -> Reader:
    """The reader of the pictures to validate with."""
    return _reader("valid")
