"""French and English sentences: numbers of words, those given and those wanted."""

from __future__ import annotations

from typing import Any

from proa.migrate.fluid.dataset.readers import Reader, ids, reader_of
from proa.text import WMT14


def _sample(source: Any, target: Any, following: Any) -> tuple[list[int], ...]:
    return ids(source), ids(target), ids(following)


def train(dict_size: int) -> Reader:
    """The reader of sentences to train with."""
    return reader_of(WMT14(mode="train", dict_size=dict_size), _sample)


def test(dict_size: int) -> Reader:
    """The reader of sentences to test with."""
    return reader_of(WMT14(mode="test", dict_size=dict_size), _sample)


def gen(dict_size: int) -> Reader:
    """The reader of sentences to generate from."""
    return reader_of(WMT14(mode="gen", dict_size=dict_size), _sample)


def get_dict(dict_size: int, reverse: bool = True) -> Any:
    """The words of both languages, by numbers if reverse."""
    return WMT14(mode="train", dict_size=dict_size).get_dict(reverse)
