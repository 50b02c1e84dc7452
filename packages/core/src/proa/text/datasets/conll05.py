"""Semantic roles (CoNLL 2005 shared task, Carreras and Màrquez, 2005)."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from proa.errors import InvalidArgumentError
from proa.io import Dataset
from proa.io.archives import open_tar, tar_member
from proa.io.local_files import local_file
from proa.text.datasets.vocabulary import reading, word_ids

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UNKNOWN = 0
_WORDS = "conll05st-release/test.wsj/words/test.wsj.words.gz"
_ROLES = "conll05st-release/test.wsj/props/test.wsj.props.gz"


class Conll05st(Dataset[tuple[Any, ...]]):
    """Sentences of the test set with the roles of one predicate: nine arrays an item.

    Words; the words two before, one before, at, one after and two after the predicate
    (repeated for each word; ``bos`` and ``eos`` beyond the sentence); the predicate
    (repeated); marks of those five places; and the labels.

    Args:
        data_file: ``conll05st-tests.tar.gz``.
        word_dict_file: ``wordDict.txt``, a word a line.
        verb_dict_file: ``verbDict.txt``, a predicate a line.
        target_dict_file: ``targetDict.txt``, a label a line.
        emb_file: ``emb``, word vectors; only its path is returned.
        download: Kept for callers; nothing is ever downloaded.

    Raises:
        NotFoundError: If a file is not there.
        InvalidArgumentError: If a file is damaged.
    """

    def __init__(
        self,
        data_file: str | None = None,
        word_dict_file: str | None = None,
        verb_dict_file: str | None = None,
        target_dict_file: str | None = None,
        emb_file: str | None = None,
        download: bool = True,
    ) -> None:
        given = {
            "data_file": (data_file, "conll05st-tests.tar.gz"),
            "word_dict_file": (word_dict_file, "wordDict.txt"),
            "verb_dict_file": (verb_dict_file, "verbDict.txt"),
            "target_dict_file": (target_dict_file, "targetDict.txt"),
        }
        paths = {
            argument: local_file("Conll05st", argument, path, "conll05st", [file])
            for argument, (path, file) in given.items()
        }
        self.data_file = paths["data_file"]
        self._emb_file = emb_file
        self.word_dict = _lines(paths["word_dict_file"])
        self.predicate_dict = _lines(paths["verb_dict_file"])
        self.label_dict = _labels(_lines(paths["target_dict_file"]))
        self.sentences: list[list[str]] = []
        self.predicates: list[str] = []
        self.labels: list[list[str]] = []
        with reading("Conll05st", self.data_file):
            self._read()

    def _read(self) -> None:
        with open_tar(self.data_file, "Conll05st") as archive:
            words, roles = (
                gzip.decompress(tar_member(archive, name, "Conll05st"))
                .decode()
                .splitlines()
                for name in (_WORDS, _ROLES)
            )
        sentence: list[str] = []
        columns: list[list[str]] = []
        # Sentences end with an empty line; the last may end with the file.
        for word, row in zip([*words, ""], [*roles, ""], strict=True):
            if row.strip():
                sentence.append(word.strip())
                columns.append(row.split())
            elif sentence:
                self._add(sentence, columns)
                sentence, columns = [], []

    def _add(self, sentence: list[str], rows: list[list[str]]) -> None:
        """One item for each predicate: the first column names them, the others are
        their roles."""
        verbs, *roles = zip(*rows, strict=True)
        predicates = [verb for verb in verbs if verb != "-"]
        for predicate, column in zip(predicates, roles, strict=True):
            self.sentences.append(sentence)
            self.predicates.append(predicate)
            self.labels.append(_tags(column))

    def __getitem__(self, idx: int) -> tuple[NDArray[Any], ...]:
        sentence, labels = self.sentences[idx], self.labels[idx]
        size, verb = len(sentence), labels.index("B-V")
        near = range(verb - 2, verb + 3)
        context = [
            "bos" if i < 0 else "eos" if i >= size else sentence[i] for i in near
        ]
        columns = [
            word_ids(sentence, self.word_dict, _UNKNOWN),
            *([n] * size for n in word_ids(context, self.word_dict, _UNKNOWN)),
            [self.predicate_dict[self.predicates[idx]]] * size,
            [int(i in near) for i in range(size)],
            [self.label_dict[label] for label in labels],
        ]
        return tuple(np.array(column) for column in columns)

    def __len__(self) -> int:
        return len(self.sentences)

    def get_dict(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """The dictionaries of words, predicates and labels."""
        return self.word_dict, self.predicate_dict, self.label_dict

    def get_embedding(self) -> Path:
        """The path of the file of word vectors.

        Raises:
            NotFoundError: If it is not there.
        """
        return local_file("Conll05st", "emb_file", self._emb_file, "conll05st", ["emb"])


def _lines(path: Path) -> dict[str, int]:
    return {line.strip(): i for i, line in enumerate(path.read_text().splitlines())}


def _labels(lines: dict[str, int]) -> dict[str, int]:
    """B- and I- of each role in order of first appearance, then O."""
    roles = dict.fromkeys(line[2:] for line in lines if line.startswith(("B-", "I-")))
    tags = [f"{mark}-{role}" for role in roles for mark in "BI"]
    return {tag: i for i, tag in enumerate([*tags, "O"])}


def _tags(column: tuple[str, ...]) -> list[str]:
    """Brackets such as ``(A0*``, ``*``, ``*)`` as B-A0, I-A0, I-A0."""
    tags, role = [], ""
    for cell in column:
        if cell.startswith("("):
            role = cell[1 : cell.index("*")]
            tags.append(f"B-{role}")
        elif cell in ("*", "*)"):
            tags.append(f"I-{role}" if role else "O")
        else:
            raise InvalidArgumentError(
                f"[Conll05st] a role must be like (A0*, * or *), got {cell!r}"
            )
        if cell.endswith(")"):
            role = ""
    return tags
