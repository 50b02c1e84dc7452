"""Sentences of the Penn Treebank: n numbers of words in a row."""

from __future__ import annotations

from typing import Any

from proa.migrate.fluid.dataset.readers import (
    Reader,
    check_dictionary,
    ids,
    reader_of,
)
from proa.text import Imikolov


class DataType:
    """What a sample is."""

    NGRAM = 1
    SEQ = 2


def build_dict(min_word_freq: int = 50) -> dict[Any, int]:
    """The words that occur more often, by their numbers."""
    data = Imikolov(data_type="NGRAM", window_size=2, min_word_freq=min_word_freq)
    return dict(data.word_idx)


def _reader(mode: str, word_idx: Any, n: int, data_type: int) -> Reader:
    kind = "NGRAM" if data_type == DataType.NGRAM else "SEQ"
    data = Imikolov(data_type=kind, window_size=n, mode=mode)
    check_dictionary(f"imikolov.{mode}", word_idx, data.word_idx)
    if kind == "NGRAM":
        return reader_of(data, lambda *words: tuple(int(w) for w in words))
    return reader_of(data, lambda source, target: (ids(source), ids(target)))


def train(word_idx: Any, n: int, data_type: int = DataType.NGRAM) -> Reader:
    """The reader of samples to train with."""
    return _reader("train", word_idx, n, data_type)


def test(word_idx: Any, n: int, data_type: int = DataType.NGRAM) -> Reader:
    """The reader of samples to test with."""
    return _reader("test", word_idx, n, data_type)
