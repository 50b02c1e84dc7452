"""Reviews of films: numbers of words, and whether they are bad (1) or good (0)."""

from __future__ import annotations

from typing import Any

from proa.migrate.fluid.dataset.readers import (
    Reader,
    check_dictionary,
    ids,
    number,
    reader_of,
)
from proa.text import Imdb


def word_dict() -> dict[Any, int]:
    """The words that occur more than 150 times, by their numbers."""
    return dict(Imdb(mode="train").word_idx)


def _reader(mode: str, word_idx: Any) -> Reader:
    data = Imdb(mode=mode)
    check_dictionary(f"imdb.{mode}", word_idx, data.word_idx)
    return reader_of(data, lambda words, label: (ids(words), number(label)))


def train(word_idx: Any) -> Reader:
    """The reader of 25 000 reviews to train with."""
    return _reader("train", word_idx)


def test(word_idx: Any) -> Reader:
    """The reader of 25 000 reviews to test with."""
    return _reader("test", word_idx)
