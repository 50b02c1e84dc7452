"""Flowers: rows of an image's numbers, and their classes from 0 on."""

from __future__ import annotations

from typing import Any

from proa.migrate.fluid.dataset.readers import Reader, number, reader_of
from proa.vision.datasets import Flowers


def _reader(mode: str, mapper: Any) -> Reader:
    def sample(image: Any, label: Any) -> Any:
        own = (image, number(label) - 1)
        return own if mapper is None else mapper(own)

    return reader_of(Flowers(mode=mode, backend="cv2"), sample)


def train(
    mapper: Any = None, buffered_size: int = 1024, use_xmap: bool = True,
    cycle: bool = False,
) -> Reader:  # fmt: skip
    """The reader of training samples, through a function of (image, label)."""
    return _reader("train", mapper)


def test(
    mapper: Any = None, buffered_size: int = 1024, use_xmap: bool = True,
    cycle: bool = False,
) -> Reader:  # fmt: skip
    """The reader of test samples, likewise."""
    return _reader("test", mapper)


def valid(
    mapper: Any = None, buffered_size: int = 1024, use_xmap: bool = True
) -> Reader:
    """The reader of validation samples, likewise."""
    return _reader("valid", mapper)
