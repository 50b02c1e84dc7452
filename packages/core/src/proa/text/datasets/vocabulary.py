"""What data sets of words share: modes, dictionaries, damaged files."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from proa.errors import Error, InvalidArgumentError


def check_choice(
    value: str, known: Sequence[str], where: str, argument: str = "mode"
) -> str:
    """The value, which must be one of those known.

    Raises:
        InvalidArgumentError: If it is not.
    """
    if value not in known:
        raise InvalidArgumentError(
            f"[{where}] {argument} must be one of {list(known)}, got {value!r}"
        )
    return value


def numbered(counts: Counter[Any], more_than: int, unknown: Any) -> dict[Any, int]:
    """Words that occur often enough, numbered from the most frequent, then unknown."""
    frequent = [word for word in counts if counts[word] > more_than and word != unknown]
    frequent.sort(key=lambda word: (-counts[word], _bytes(word)))
    return {word: i for i, word in enumerate([*frequent, unknown])}


def _bytes(word: str | bytes) -> bytes:
    return word if isinstance(word, bytes) else word.encode()


def word_ids(words: Iterable[Any], numbers: dict[Any, int], unknown: int) -> list[int]:
    """The number of each word."""
    return [numbers.get(word, unknown) for word in words]


@contextlib.contextmanager
def reading(where: str, path: object) -> Iterator[None]:
    """Errors of a file in another form than expected, as a typed error.

    Raises:
        InvalidArgumentError: Instead of what reading raised.
    """
    try:
        yield
    except Error:
        raise
    except Exception as error:  # a damaged file raises nearly anything
        raise InvalidArgumentError(
            f"[{where}] expected the data set's format in {path}, got "
            f"{type(error).__name__}: {error}"
        ) from error
