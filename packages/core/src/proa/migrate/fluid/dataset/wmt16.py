"""German and English sentences: numbers of words, those given and those wanted."""

from __future__ import annotations

from typing import Any

from proa.migrate.fluid.dataset.readers import Reader, ids, reader_of
from proa.text import WMT16


def _sample(source: Any, target: Any, following: Any) -> tuple[list[int], ...]:
    return ids(source), ids(target), ids(following)


def _reader(mode: str, source: int, target: int, language: str) -> Reader:
    data = WMT16(
        mode=mode, src_dict_size=source, trg_dict_size=target, lang=language
    )  # fmt: skip
    return reader_of(data, _sample)


def get_dict(lang: str, dict_size: int, reverse: bool = False) -> Any:
    """The dictionary of "en" or "de": numbers of words, or in reverse."""
    data = WMT16(
        mode="test", src_dict_size=dict_size, trg_dict_size=dict_size, lang=lang
    )
    return data.get_dict(lang, reverse)


def train(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """The reader of sentences to train with."""
    return _reader("train", src_dict_size, trg_dict_size, src_lang)


def test(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """The reader of sentences to test with."""
    return _reader("test", src_dict_size, trg_dict_size, src_lang)


def validation(src_dict_size: int, trg_dict_size: int, src_lang: str = "en") -> Reader:
    """The reader of sentences to validate with."""
    return _reader("val", src_dict_size, trg_dict_size, src_lang)
