"""Houses in Boston: 13 numbers, and the price."""

from __future__ import annotations

from typing import Any

from proa.migrate.fluid.dataset.readers import Reader, reader_of
from proa.text import UCIHousing


def _sample(features: Any, price: Any) -> tuple[Any, Any]:
    return features, price


def train() -> Reader:
    """The reader of 404 samples."""
    return reader_of(UCIHousing(mode="train"), _sample)


def test() -> Reader:
    """The reader of 102 samples."""
    return reader_of(UCIHousing(mode="test"), _sample)
