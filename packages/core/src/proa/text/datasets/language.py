"""Film reviews (Imdb) and the Penn treebank (Imikolov)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError
from proa.io import Dataset
from proa.io.archives import open_tar, tar_member
from proa.io.local_files import local_file
from proa.text.datasets.vocabulary import check_choice, numbered, reading, word_ids


class Imdb(Dataset[tuple[NDArray[Any], NDArray[Any]]]):
    """Film reviews, positive (0) or negative (1) (Maas et al., 2011).

    Words are lower case without punctuation; ``word_idx`` numbers those of both splits
    (as bytes), the most frequent first, ``<unk>`` last.

    Args:
        data_file: ``aclImdb_v1.tar.gz``.
        mode: "train" or "test".
        cutoff: Words that occur at most so often are unknown.
        download: Kept for callers; nothing is ever downloaded.

    Raises:
        NotFoundError: If the archive is not there.
        InvalidArgumentError: If it is damaged or cutoff leaves no word.
    """

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        cutoff: int = 150,
        download: bool = True,
    ) -> None:
        self.mode = check_choice(mode.lower(), ("train", "test"), "Imdb")
        self.data_file = local_file(
            "Imdb", "data_file", data_file, "imdb",
            ["aclImdb_v1.tar.gz", "imdb%2FaclImdb_v1.tar.gz"],
        )  # fmt: skip
        with reading("Imdb", self.data_file):
            reviews = self._reviews()
        counts = Counter(word for words, _, _ in reviews for word in words)
        self.word_idx: dict[Any, int] = numbered(counts, cutoff, "<unk>")
        if len(self.word_idx) == 1:
            raise InvalidArgumentError(
                f"[Imdb] cutoff must leave words of {self.data_file}, got {cutoff} and "
                f"{len(reviews)} reviews"
            )
        unknown = self.word_idx["<unk>"]
        self.docs: list[list[int]] = []
        self.labels: list[int] = []
        for number, feeling in enumerate(("pos", "neg")):
            for words, split, kind in reviews:
                if (split, kind) == (self.mode, feeling):
                    self.docs.append(word_ids(words, self.word_idx, unknown))
                    self.labels.append(number)

    def _reviews(self) -> list[tuple[list[bytes], str, str]]:
        """Words, split and feeling of every review, in the archive's order."""
        pattern = re.compile(r"(?:\./)?aclImdb/(train|test)/(pos|neg)/.*\.txt$")
        marks = string.punctuation.encode()
        found = []
        with open_tar(self.data_file, "Imdb") as archive:
            for member in archive:
                match = pattern.match(member.name)
                file = archive.extractfile(member) if match else None
                if match and file:
                    words = file.read().translate(None, marks).lower().split()
                    found.append((words, match[1], match[2]))
        return found

    def __getitem__(self, idx: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return np.array(self.docs[idx]), np.array([self.labels[idx]])

    def __len__(self) -> int:
        return len(self.docs)


class Imikolov(Dataset[tuple[NDArray[Any], ...]]):
    """Sentences of the Penn treebank as Mikolov prepared them.

    ``word_idx`` numbers the words (as bytes) of the training and validation text, the
    most frequent first, ``<unk>`` last; ``<s>`` and ``<e>`` are beginning and end.

    Args:
        data_file: ``simple-examples.tgz``.
        data_type: "NGRAM": items are window_size word numbers; "SEQ": items are a
            sentence with its beginning, and with its end.
        window_size: Words of an n-gram; for "SEQ" the greatest length, if positive.
        mode: "train" or "test".
        min_word_freq: Words that occur at most so often are unknown.
        download: Kept for callers; nothing is ever downloaded.

    Raises:
        NotFoundError: If the archive or a file in it is not there.
        InvalidArgumentError: If it is damaged or an argument is not as said.
    """

    _TEXT = "simple-examples/data/ptb.{}.txt"

    def __init__(
        self,
        data_file: str | None = None,
        data_type: str = "NGRAM",
        window_size: int = -1,
        mode: str = "train",
        min_word_freq: int = 50,
        download: bool = True,
    ) -> None:
        where = "Imikolov"
        self.data_type = check_choice(
            data_type.upper(), ("NGRAM", "SEQ"), where, "data_type"
        )
        self.mode = check_choice(mode.lower(), ("train", "test"), where)
        if self.data_type == "NGRAM" and window_size < 1:
            raise InvalidArgumentError(
                f"[{where}] window_size must be positive for NGRAM, got {window_size}"
            )
        self.window_size, self.min_word_freq = window_size, min_word_freq
        self.data_file = local_file(
            where, "data_file", data_file, "imikolov",
            ["simple-examples.tgz", "imikolov%2Fsimple-examples.tgz"],
        )  # fmt: skip
        with reading(where, self.data_file), open_tar(self.data_file, where) as archive:
            lines = {
                split: tar_member(archive, self._TEXT.format(split), where).splitlines()
                for split in {"train", "valid", self.mode}
            }
        counts = self.word_count(lines["valid"], self.word_count(lines["train"]))
        counts.pop("<unk>", None)
        counts.pop(b"<unk>", None)
        self.word_idx = numbered(Counter(counts), min_word_freq, "<unk>")
        self.data = [item for line in lines[self.mode] for item in self._items(line)]

    def word_count(
        self, f: Iterable[bytes], word_freq: dict[bytes | str, int] | None = None
    ) -> dict[bytes | str, int]:
        """How often each word occurs in the lines, added to the counts given."""
        counts: dict[bytes | str, int] = {} if word_freq is None else word_freq
        for line in f:
            words: list[bytes | str] = [*line.split(), "<s>", "<e>"]
            for word in words:
                counts[word] = counts.get(word, 0) + 1
        return counts

    def _items(self, line: bytes) -> list[tuple[Any, ...]]:
        unknown = self.word_idx["<unk>"]
        begin, end = (self.word_idx.get(mark, unknown) for mark in ("<s>", "<e>"))
        words = word_ids(line.split(), self.word_idx, unknown)
        size = self.window_size
        if self.data_type == "NGRAM":
            words = [begin, *words, end]
            return [tuple(words[i : i + size]) for i in range(len(words) - size + 1)]
        if 0 < size < len(words) + 1:
            return []
        return [([begin, *words], [*words, end])]

    def __getitem__(self, idx: int) -> tuple[NDArray[Any], ...]:
        return tuple(np.array(part) for part in self.data[idx])

    def __len__(self) -> int:
        return len(self.data)
