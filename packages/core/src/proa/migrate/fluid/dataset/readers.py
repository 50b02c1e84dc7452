"""Data sets of 2.x as readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError

Reader = Callable[[], Iterator[Any]]


def reader_of(dataset: Any, sample: Callable[..., Any]) -> Reader:
    """What a function makes of each sample of a data set."""

    def read() -> Iterator[Any]:
        for index in range(len(dataset)):
            yield sample(*dataset[index])

    return read


def flat(image: Any) -> NDArray[np.float32]:
    """An image (height, width, channels) or (height, width) as a row, by channels."""
    array = np.asarray(image, np.float32)
    if array.ndim == 3:
        array = array.transpose(2, 0, 1)
    return array.reshape(-1)


def number(label: Any) -> int:
    """A label as an int."""
    return int(np.asarray(label).reshape(-1)[0])


def ids(sequence: Any) -> list[int]:
    """Numbers of words as a list."""
    return [int(n) for n in np.asarray(sequence).reshape(-1)]


def id_lists(*entries: Any) -> tuple[list[int], ...]:
    """Each of several sequences of numbers as a list."""
    return tuple(map(ids, entries))


def check_dictionary(where: str, given: Any, own: Any) -> None:
    """Refuse words with other numbers than the data set's.

    Raises:
        InvalidArgumentError: If they have.
    """
    if given is not None and dict(given) != dict(own):
        raise InvalidArgumentError(
            f"[dataset.{where}] word_idx must be the data set's own dictionary, got "
            f"another of {len(given)} words"
        )
