"""Chinese segmentation by a tagging network, as LAC is: characters in, words out.

Source: Z. Jiao, S. Sun, K. Sun, "Chinese Lexical Analysis with Deep Bi-GRU-CRF
Network", 2018, and the dictionaries published with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from proa_serving.protocol.errors import InvalidRequestError


class CharacterIds:
    """The number of each character of a text.

    Args:
        vocabulary: Numbers by character, or a file with a number, a tab and a character
            in each line (``word.dic``).
        unknown: The entry for characters that are not in it.
        replaced: What characters stand for others, such as full-width ones for those
            of half width; or a file with both, divided by a tab (``q2b.dic``).

    Raises:
        InvalidRequestError: If a file is not such, or ``unknown`` is not in it.

    >>> ids = CharacterIds({"OOV": 0, "中": 1, "a": 2}, replaced={"ａ": "a"})
    >>> ids("中ａ国").tolist()
    [1, 2, 0]
    """

    def __init__(
        self,
        vocabulary: str | Path | Mapping[str, int],
        unknown: str = "OOV",
        replaced: str | Path | Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(vocabulary, str | Path):
            held = {char: number for number, char in _pairs(vocabulary)}
            try:
                self._ids = {char: int(number) for char, number in held.items()}
            except ValueError as error:
                raise InvalidRequestError(
                    "segment", f"{vocabulary} must have numbers: {error}"
                ) from error
        else:
            self._ids = dict(vocabulary)
        if unknown not in self._ids:
            raise InvalidRequestError(
                "segment", f"vocabulary must have {unknown!r} for what is not in it"
            )
        self._unknown = self._ids[unknown]
        if isinstance(replaced, str | Path):
            replaced = dict(_pairs(replaced))
        self._replaced = dict(replaced or {})

    def __call__(self, text: str) -> npt.NDArray[np.int64]:
        """(characters,)"""
        chars = (self._replaced.get(char, char) for char in text)
        return np.array([self._ids.get(c, self._unknown) for c in chars], np.int64)

    def batch(
        self, texts: Iterable[str]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Numbers of many texts, with 0 after their ends, and their lengths.

        Returns:
            (texts, characters) and (texts,).
        """
        rows = [self(text) for text in texts]
        lengths = np.array([len(row) for row in rows], np.int64)
        found = np.zeros((len(rows), int(lengths.max(initial=0))), np.int64)
        for at, row in enumerate(rows):
            found[at, : len(row)] = row
        return found, lengths


def _pairs(path: str | Path) -> list[tuple[str, str]]:
    found = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line:
            left, tab, right = line.partition("\t")
            if not tab:
                raise InvalidRequestError(
                    "segment", f"lines of {path} must have a tab, got {line:.40}"
                )
            found.append((left, right))
    return found


def words_from_tags(text: str, tags: Sequence[str]) -> list[tuple[str, str]]:
    """The words of ``text`` and what each is.

    Args:
        text: Any.
        tags: For each character a kind and its place in the word: ``n-B`` begins a word
            of kind n, ``n-I`` continues one of that kind, ``O`` and ``n-S`` are a word
            by themselves. What continues no word of its kind begins one.

    Raises:
        InvalidRequestError: If there are not as many tags as characters.

    >>> words_from_tags("我爱北京", ["r-B", "v-B", "LOC-B", "LOC-I"])
    [('我', 'r'), ('爱', 'v'), ('北京', 'LOC')]
    """
    if len(text) != len(tags):
        raise InvalidRequestError(
            "segment", f"expected {len(text)} tags, one a character, got {len(tags)}"
        )
    found: list[tuple[str, str]] = []
    inside = ""  # the kind of a word that may be continued
    for char, tag in zip(text, tags, strict=True):
        kind, _, place = tag.rpartition("-")
        if place == "I" and kind and kind == inside:
            found[-1] = (found[-1][0] + char, kind)
            continue
        found.append((char, kind or tag))
        inside = kind if place in ("B", "I") else ""
    return found
