"""Pairs of sentences in two languages (WMT 2014 and 2016)."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError
from proa.io import Dataset
from proa.io.archives import open_tar, tar_member
from proa.io.local_files import local_file
from proa.text.datasets.vocabulary import check_choice, reading, word_ids

_BEGIN, _END, _UNKNOWN = "<s>", "<e>", "<unk>"


#: The words of a language by number, or the other way round.
Words: TypeAlias = dict[str, int] | dict[int, str]


class _Pairs(Dataset[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]):
    """Source, target with its beginning, target with its end, as word numbers."""

    src_ids: list[list[int]]
    trg_ids: list[list[int]]
    trg_ids_next: list[list[int]]

    def __getitem__(self, idx: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        return (
            np.array(self.src_ids[idx]),
            np.array(self.trg_ids[idx]),
            np.array(self.trg_ids_next[idx]),
        )

    def __len__(self) -> int:
        return len(self.src_ids)


def _sizes(where: str, **sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise InvalidArgumentError(f"[{where}] {name} must be positive, got {size}")


def _reversed(words: dict[str, int], reverse: bool) -> Words:
    return {number: word for word, number in words.items()} if reverse else words


class WMT14(_Pairs):
    """Sentences of WMT 2014, as Paddle packed them.

    Args:
        data_file: ``wmt14.tgz``, with files ``*src.dict`` and ``*trg.dict`` (a word a
            line) and ``train/train``, ``test/test``, ``gen/gen`` (a pair a line,
            separated by a tab).
        mode: "train", "test" or "gen".
        dict_size: Words of the dictionaries; must be given.
        download: Kept for callers; nothing is ever downloaded.

    An item has the source with ``<s>`` and ``<e>``, the target after ``<s>``, and the
    target before ``<e>``. Pairs with more than 80 words are left out.

    Raises:
        NotFoundError: If the archive is not there.
        InvalidArgumentError: If it is damaged or an argument is not as said.
    """

    _UNKNOWN_ID = 2
    _LONGEST = 80

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        dict_size: int = -1,
        download: bool = True,
    ) -> None:
        self.mode = check_choice(mode.lower(), ("train", "test", "gen"), "WMT14")
        _sizes("WMT14", dict_size=dict_size)
        self.dict_size = dict_size
        self.data_file = local_file(
            "WMT14", "data_file", data_file, "wmt14", ["wmt14.tgz"]
        )
        self.src_ids, self.trg_ids, self.trg_ids_next = [], [], []
        with reading("WMT14", self.data_file):
            self._read()

    def _read(self) -> None:
        with open_tar(self.data_file, "WMT14") as archive:
            names = archive.getnames()

            def text(ending: str) -> list[str]:
                (name,) = [name for name in names if name.endswith(ending)]
                return tar_member(archive, name, "WMT14").decode().splitlines()

            self.src_dict, self.trg_dict = (
                {w.strip(): i for i, w in enumerate(text(e)[: self.dict_size])}
                for e in ("src.dict", "trg.dict")
            )
            for line in text(f"{self.mode}/{self.mode}"):
                self._add(line.strip().split("\t"))

    def _add(self, pair: list[str]) -> None:
        if len(pair) != 2:
            return
        source = [_BEGIN, *pair[0].split(), _END]
        source_ids = word_ids(source, self.src_dict, self._UNKNOWN_ID)
        target = word_ids(pair[1].split(), self.trg_dict, self._UNKNOWN_ID)
        if max(len(source_ids), len(target)) <= self._LONGEST:
            self.src_ids.append(source_ids)
            self.trg_ids.append([self.trg_dict[_BEGIN], *target])
            self.trg_ids_next.append([*target, self.trg_dict[_END]])

    @overload
    def get_dict(
        self, reverse: Literal[False] = ...
    ) -> tuple[dict[str, int], dict[str, int]]: ...
    @overload
    def get_dict(self, reverse: bool) -> tuple[Words, Words]: ...
    def get_dict(self, reverse: bool = False) -> tuple[Words, Words]:
        """The dictionaries of source and target: word to number, or in reverse."""
        return _reversed(self.src_dict, reverse), _reversed(self.trg_dict, reverse)


class WMT16(_Pairs):
    """Descriptions of images in English and German (Multi30K, Elliott et al., 2016).

    Args:
        data_file: ``wmt16.tar.gz``, with ``wmt16/train``, ``wmt16/test`` and
            ``wmt16/val``: English and German, separated by a tab.
        mode: "train", "test" or "val".
        src_dict_size: Words of the source's dictionary; must be given.
        trg_dict_size: Words of the target's dictionary; must be given.
        lang: The source: "en" or "de".
        download: Kept for callers; nothing is ever downloaded.

    An item has the source with ``<s>`` and ``<e>``, the target after ``<s>``, and the
    target before ``<e>``. Dictionaries hold ``<s>``, ``<e>`` and ``<unk>``, then the
    words of the training text, the most frequent first.

    Raises:
        NotFoundError: If the archive or a file in it is not there.
        InvalidArgumentError: If it is damaged or an argument is not as said.
    """

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        src_dict_size: int = -1,
        trg_dict_size: int = -1,
        lang: str = "en",
        download: bool = True,
    ) -> None:
        self.mode = check_choice(mode.lower(), ("train", "test", "val"), "WMT16")
        self.lang = check_choice(lang, ("en", "de"), "WMT16", "lang")
        _sizes("WMT16", src_dict_size=src_dict_size, trg_dict_size=trg_dict_size)
        self.data_file = local_file(
            "WMT16", "data_file", data_file, "wmt16", ["wmt16.tar.gz"]
        )
        with reading("WMT16", self.data_file):
            training = self._pairs("train")
            source = 0 if lang == "en" else 1
            self.src_dict, self.trg_dict = (
                self._dictionary([pair[side] for pair in training], size)
                for side, size in (
                    (source, src_dict_size), (1 - source, trg_dict_size),
                )
            )  # fmt: skip
            pairs = training if self.mode == "train" else self._pairs(self.mode)
        self.src_dict_size, self.trg_dict_size = len(self.src_dict), len(self.trg_dict)
        begin, end, unknown = range(3)
        targets = [
            word_ids(pair[1 - source].split(), self.trg_dict, unknown) for pair in pairs
        ]
        self.src_ids = [
            [begin, *word_ids(pair[source].split(), self.src_dict, unknown), end]
            for pair in pairs
        ]
        self.trg_ids = [[begin, *target] for target in targets]
        self.trg_ids_next = [[*target, end] for target in targets]

    def _pairs(self, split: str) -> list[list[str]]:
        with open_tar(self.data_file, "WMT16") as archive:
            text = tar_member(archive, f"wmt16/{split}", "WMT16").decode()
        pairs = [line.strip().split("\t") for line in text.splitlines()]
        return [pair for pair in pairs if len(pair) == 2]

    @staticmethod
    def _dictionary(sentences: list[str], size: int) -> dict[str, int]:
        counts = Counter(word for sentence in sentences for word in sentence.split())
        common = [word for word, _ in counts.most_common(max(size - 3, 0))]
        return {w: i for i, w in enumerate([_BEGIN, _END, _UNKNOWN, *common])}

    @overload
    def get_dict(self, lang: str, reverse: Literal[False] = ...) -> dict[str, int]: ...
    @overload
    def get_dict(self, lang: str, reverse: bool) -> Words: ...
    def get_dict(self, lang: str, reverse: bool = False) -> Words:
        """The dictionary of "en" or "de": word to number, or in reverse."""
        check_choice(lang, ("en", "de"), "WMT16.get_dict", "lang")
        words = self.src_dict if lang == self.lang else self.trg_dict
        return _reversed(words, reverse)
