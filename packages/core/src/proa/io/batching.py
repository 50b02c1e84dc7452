"""Batches of a reader, the generator functions of PaddlePaddle 1.x programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeAlias, TypeVar

from proa.errors import InvalidArgumentError
from proa.tensor.arguments import as_int

T = TypeVar("T")
#: A function that, called, iterates over samples.
Reader: TypeAlias = Callable[[], Iterable[T]]


def batch(
    reader: Reader[T], batch_size: int, drop_last: bool = False
) -> Callable[[], Iterator[list[T]]]:
    """A reader of lists of ``batch_size`` samples of ``reader``.

    Args:
        reader: Called again for each pass; iterates over samples.
        batch_size: Samples in a list, positive.
        drop_last: Whether a last, shorter list is left out.

    Raises:
        InvalidArgumentError: If batch_size is not positive.
    """
    if as_int("batch", batch_size) <= 0:
        raise InvalidArgumentError(
            f"[batch] batch_size must be positive, got {batch_size}"
        )

    def batched() -> Iterator[list[T]]:
        samples = iter(reader())
        while found := list(islice(samples, batch_size)):
            if len(found) == batch_size or not drop_last:
                yield found

    return batched
