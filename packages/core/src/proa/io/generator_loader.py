"""Batches of generators for static programs, as `DataLoader.from_generator` gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from proa._core import Tensor
from proa.base.mode import static_builder
from proa.errors import (
    EndOfDataError,
    InvalidArgumentError,
    PreconditionNotMetError,
)
from proa.io.batching import batch as batched
from proa.io.collate import as_tensors

#: Called, it iterates over samples, lists of samples or batches.
Generator = Callable[[], Iterable[Any]]


class ProgramFeed:
    """Batches that runs of a program take one after another, pass by pass."""

    feeds_tests = True

    def __init__(self) -> None:
        self._pass: Iterator[Mapping[str, Any]] | None = None

    def reset(self) -> None:
        """End a pass."""
        self._pass = None

    def next_feed(self) -> Mapping[str, Any]:
        """What the next run is fed; nothing if no pass has begun.

        Raises:
            EndOfDataError: If the pass has no batch left.
        """
        if self._pass is None:
            return {}
        found = next(self._pass, None)
        if found is None:
            raise EndOfDataError("[Executor.run] expected a batch, got the end of data")
        return found


class GeneratorLoader(ProgramFeed):
    """Batches that a generator gives, for `Executor.run` or as lists of tensors.

    Args:
        variables: What the parts of a sample are for, or None.
        return_list: Whether a batch is a list of tensors, instead of a list of one
            dictionary of them by the Variables' names.
        iterable: Whether batches are iterated over; else runs of the program that is
            built take one after another.
    """

    def __init__(
        self,
        variables: Sequence[Tensor] | None,
        return_list: bool = False,
        iterable: bool = True,
    ) -> None:
        super().__init__()
        if not variables and not (return_list and iterable):
            raise InvalidArgumentError(
                "[DataLoader.from_generator] expected a feed_list, or return_list=True"
            )
        self._variables = list(variables or ())
        self._return_list = return_list and iterable
        self._batches: Generator | None = None
        self._is_iterable = iterable
        if not iterable:
            builder = static_builder()
            if builder is None:
                raise PreconditionNotMetError(
                    "[DataLoader.from_generator] expected static mode for "
                    "iterable=False, got dynamic mode"
                )
            builder.add_reader(self)

    def start(self) -> None:
        """Begin a pass, of which each run of the program takes a batch.

        Raises:
            PreconditionNotMetError: If batches are iterated over, or a pass has begun.
        """
        if self._is_iterable or self._pass is not None:
            expected = "iterable=False" if self._is_iterable else "reset() before"
            raise PreconditionNotMetError(
                f"[DataLoader.start] expected {expected}, got another call of start()"
            )
        self._pass = (feed for (feed,) in self._iterated())

    def set_sample_generator(
        self,
        reader: Generator,
        batch_size: int,
        drop_last: bool = True,
        places: object = None,
    ) -> GeneratorLoader:
        """Let a generator of samples make the batches.

        Args:
            reader: Called for each pass; iterates over samples, whose parts are in the
                order of the feed_list.
            batch_size: Samples in a batch.
            drop_last: Whether a last batch that is not full is left out.
            places: Kept for callers; batches are on the CPU.
        """
        lists = batched(reader, batch_size, drop_last)
        return self.set_sample_list_generator(lists, places)

    def set_sample_list_generator(
        self, reader: Generator, places: object = None
    ) -> GeneratorLoader:
        """Let a generator of lists of samples, as `proa.batch` makes them, do it.

        Args:
            reader: As in `set_sample_generator`.
            places: As there.
        """

        def batches() -> Iterator[list[Any]]:
            for samples in reader():
                parts = zip(*map(_parts, samples), strict=True)
                yield [self._stacked(i, part) for i, part in enumerate(parts)]

        self._batches = batches
        return self

    def set_batch_generator(
        self, reader: Generator, places: object = None
    ) -> GeneratorLoader:
        """Let a generator of whole batches do it: arrays or tensors, part by part.

        Args:
            reader: As in `set_sample_generator`.
            places: As there.
        """
        self._batches = lambda: (_parts(batch) for batch in reader())
        return self

    def _stacked(self, i: int, part: Sequence[Any]) -> Any:
        """A part of the samples, of its Variable's dtype and shape where they fit."""
        if i >= len(self._variables):
            return np.stack([np.asarray(item) for item in part])
        variable = self._variables[i]
        array = np.stack([np.asarray(item, variable.dtype.name) for item in part])
        shape = [len(part), *variable.shape[1:]]
        if all(n >= 0 for n in shape) and np.prod(shape) == array.size:
            return array.reshape(shape)
        return array

    def __iter__(self) -> Iterator[Any]:
        if not self._is_iterable:
            raise PreconditionNotMetError(
                "[DataLoader.from_generator] expected iterable=True, got iteration "
                "over a loader that the program reads"
            )
        return self._iterated()

    def _iterated(self) -> Iterator[Any]:
        if self._batches is None:
            raise PreconditionNotMetError(
                "[DataLoader.from_generator] expected set_sample_generator, "
                "set_sample_list_generator or set_batch_generator before a pass"
            )
        names = [variable.name for variable in self._variables]
        for batch in self._batches():
            tensors = as_tensors(list(batch))
            if names and len(tensors) != len(names):
                raise InvalidArgumentError(
                    f"[DataLoader.from_generator] samples must have a part for each of "
                    f"{names}, got {len(tensors)}"
                )
            if self._return_list:
                yield tensors
            else:
                yield [dict(zip(names, tensors, strict=True))]

    def __call__(self) -> Iterator[Any]:
        return iter(self)


def _parts(sample: Any) -> Sequence[Any]:
    return sample if isinstance(sample, (list, tuple)) else [sample]
