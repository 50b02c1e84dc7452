"""BERT's tokenizer: words, then the longest subwords that its vocabulary has.

Source: J. Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for
Language Understanding", 2019, and the vocabulary files published with it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from proa_serving.protocol.errors import InvalidRequestError

# Blocks of Chinese characters, each of which is a word.
_CHINESE = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)
_MAX_WORD = 100  # characters; a longer word is unknown


class BertTokenizer:
    """Text to the inputs of BERT and ERNIE, Chinese or English.

    Args:
        vocabulary: Tokens in the order of their numbers, or a file with one a line.
        lower: Lower-case, and without accents, as uncased and Chinese models are.
        unknown, separator, begin, padding: The special tokens.

    Raises:
        InvalidRequestError: If a special token is not in the vocabulary.

    >>> tokenizer = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##able"])
    >>> tokenizer.tokenize("unable")
    ['un', '##able']
    >>> tokenizer("unable")["input_ids"].tolist()
    [2, 4, 5, 3]
    """

    def __init__(
        self,
        vocabulary: str | Path | Sequence[str],
        *,
        lower: bool = True,
        unknown: str = "[UNK]",
        separator: str = "[SEP]",
        begin: str = "[CLS]",
        padding: str = "[PAD]",
    ) -> None:
        if isinstance(vocabulary, str | Path):
            text = Path(vocabulary).read_text(encoding="utf-8")
            vocabulary = [line.rstrip("\r") for line in text.rstrip("\n").split("\n")]
        self._ids = {token: at for at, token in enumerate(vocabulary)}
        self._lower, self._unknown = lower, unknown
        missing = {unknown, separator, begin, padding} - self._ids.keys()
        if missing:
            raise InvalidRequestError(
                "tokenizer", f"vocabulary must have {sorted(missing)}"
            )
        self._separator, self._begin = self._ids[separator], self._ids[begin]
        self._padding = self._ids[padding]

    def tokenize(self, text: str) -> list[str]:
        """The subwords of ``text``; those inside a word begin with ``##``."""
        return [part for word in self._words(text) for part in self._subwords(word)]

    def __call__(
        self, text: str, pair: str | None = None, max_length: int | None = None
    ) -> dict[str, npt.NDArray[np.int64]]:
        """The inputs for one text, or a pair of texts.

        Args:
            text: The first.
            pair: The second, after a separator, or None.
            max_length: Tokens in all; the longer text is cut from its end.

        Returns:
            ``input_ids``, ``token_type_ids`` (0 for the first text, 1 for the second)
            and ``attention_mask``, each of (tokens,).

        Raises:
            InvalidRequestError: If ``max_length`` has no room for special tokens.
        """
        first = self._numbers(text)
        second = [] if pair is None else self._numbers(pair)
        special = 2 if pair is None else 3
        if max_length is not None:
            if max_length < special:
                raise InvalidRequestError(
                    "tokenizer", f"max_length must be at least {special}"
                )
            while len(first) + len(second) + special > max_length:
                (first if len(first) > len(second) else second).pop()
        ids = [self._begin, *first, self._separator]
        kinds = [0] * len(ids)
        if pair is not None:
            ids += [*second, self._separator]
            kinds += [1] * (len(second) + 1)
        return {
            "input_ids": np.array(ids, np.int64),
            "token_type_ids": np.array(kinds, np.int64),
            "attention_mask": np.ones(len(ids), np.int64),
        }

    def batch(
        self, texts: Iterable[str], max_length: int | None = None
    ) -> dict[str, npt.NDArray[np.int64]]:
        """The inputs for many texts, padded to the longest: (texts, tokens) each."""
        rows = [self(text, max_length=max_length) for text in texts]
        length = max((len(row["input_ids"]) for row in rows), default=0)
        shape = (len(rows), length)
        found = {
            "input_ids": np.full(shape, self._padding, np.int64),
            "token_type_ids": np.zeros(shape, np.int64),
            "attention_mask": np.zeros(shape, np.int64),
        }
        for at, row in enumerate(rows):
            for name, values in row.items():
                found[name][at, : len(values)] = values
        return found

    def _numbers(self, text: str) -> list[int]:
        return [self._ids[part] for part in self.tokenize(text)]

    def _words(self, text: str) -> list[str]:
        cleaned = []
        for char in text:
            code = ord(char)
            if code in (0, 0xFFFD) or (_is_control(char)):
                continue
            if char in " \t\n\r" or unicodedata.category(char) == "Zs":
                cleaned.append(" ")
            elif any(low <= code <= high for low, high in _CHINESE):
                cleaned.append(f" {char} ")
            else:
                cleaned.append(char)
        words: list[str] = []
        for word in "".join(cleaned).split():
            held = word
            if self._lower:
                parts = unicodedata.normalize("NFD", word.lower())
                held = "".join(c for c in parts if unicodedata.category(c) != "Mn")
            words += _at_punctuation(held)
        return words

    def _subwords(self, word: str) -> list[str]:
        if len(word) > _MAX_WORD:
            return [self._unknown]
        found = []
        begin = 0
        while begin < len(word):
            prefix = "##" if begin else ""
            end = len(word)
            while end > begin and prefix + word[begin:end] not in self._ids:
                end -= 1
            if end == begin:
                return [self._unknown]
            found.append(prefix + word[begin:end])
            begin = end
        return found


def _is_control(char: str) -> bool:
    return char not in "\t\n\r" and unicodedata.category(char).startswith("C")


def _at_punctuation(word: str) -> list[str]:
    """``word`` cut so that each punctuation mark is by itself."""
    found: list[str] = []
    start = True
    for char in word:
        code = ord(char)
        plain = char.isascii() and not char.isalnum() and 33 <= code <= 126
        mark = plain or unicodedata.category(char).startswith("P")
        if mark or start:
            found.append(char)
        else:
            found[-1] += char
        start = mark
    return found
