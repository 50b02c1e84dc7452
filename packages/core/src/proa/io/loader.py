"""`DataLoader`: batches of a dataset, made here or by worker processes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic

from proa.base.observers import reader
from proa.base.random import default_generator
from proa.errors import InvalidArgumentError
from proa.io.collate import as_tensors, default_collate_fn, default_convert_fn
from proa.io.dataset import Dataset, IterableDataset
from proa.io.generator_loader import GeneratorLoader
from proa.io.sampler import BatchSampler
from proa.io.worker import Job, WorkerInfo

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from proa._core import Tensor

    #: What the collation makes of samples; the default one keeps their structure.
    Batch = TypeVar("Batch", default=Any)
else:
    from typing import TypeVar

    Batch = TypeVar("Batch")  # typing of Python 3.10 knows no defaults


class DataLoader(Generic[Batch]):
    """Batches of a dataset as tensors.

    Args:
        dataset: A Dataset (or anything with indices and a length) or an
            IterableDataset.
        feed_list: The Variables of a static program that batches are for, in the order
            of a sample's parts.
        places: Kept for callers; batches are on the CPU.
        return_list: False with a feed_list lets a batch be a list of one dictionary of
            tensors by the Variables' names, for `Executor.run`; else batches keep the
            structure of samples.
        batch_sampler: Yields lists of indices; then batch_size, shuffle and drop_last
            are its affair.
        batch_size: Samples in a batch; None gives samples without a batch axis.
        shuffle: Whether to shuffle at each epoch.
        drop_last: Whether to leave out a last batch that is not full.
        collate_fn: Makes a batch of a list of samples.
        num_workers: Worker processes; 0 makes batches in this process.
        use_buffer_reader: Kept for callers; workers always work ahead.
        prefetch_factor: Batches that each worker works ahead.
        use_shared_memory: Whether arrays come from workers by shared memory.
        timeout: Seconds to wait for a batch of a worker; 0 waits for ever.
        worker_init_fn: Called with its number in each worker at its start.
        persistent_workers: Whether workers stay for the next epoch.
    """

    def __init__(
        self,
        dataset: Dataset[Any] | IterableDataset[Any],
        feed_list: Sequence[Tensor] | None = None,
        places: object = None,
        return_list: bool = True,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable[..., Batch] | None = None,
        num_workers: int = 0,
        use_buffer_reader: bool = True,
        prefetch_factor: int = 2,
        use_shared_memory: bool = True,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        persistent_workers: bool = False,
    ) -> None:
        for name, number, minimum in (
            ("num_workers", num_workers, 0),
            ("prefetch_factor", prefetch_factor, 1),
            ("timeout", timeout, 0),
        ):
            if number < minimum:
                raise InvalidArgumentError(
                    f"[DataLoader] {name} must be at least {minimum}, got {number}"
                )
        self.dataset: Any = dataset
        self._names = [v.name for v in feed_list or ()] if not return_list else []
        self.num_workers, self.prefetch_factor = num_workers, prefetch_factor
        self.use_shared_memory, self.timeout = use_shared_memory, timeout
        self.worker_init_fn = worker_init_fn
        self.persistent_workers = persistent_workers
        self._stream = isinstance(dataset, IterableDataset)
        if self._stream and (shuffle or batch_sampler is not None):
            raise InvalidArgumentError(
                "[DataLoader] expected neither shuffle nor batch_sampler with an "
                "IterableDataset, got one of them"
            )
        self.batch_size, self.drop_last = batch_size, drop_last
        self.batch_sampler: Any = batch_sampler
        if batch_sampler is not None:
            self.batch_size = getattr(batch_sampler, "batch_size", None)
        elif not self._stream and batch_size is not None:
            self.batch_sampler = BatchSampler(
                dataset, None, shuffle, batch_size, drop_last
            )
        plain = self.batch_size is None and batch_sampler is None
        self.collate_fn = collate_fn or (
            default_convert_fn if plain else default_collate_fn
        )
        self._plain = plain
        self._pool: Any = None

    @staticmethod
    def from_generator(
        feed_list: Sequence[Tensor] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> GeneratorLoader:
        """A loader of what a generator gives, as programs of Paddle 1.x and 2.0 have.

        Args:
            feed_list: The Variables that batches are for, in the order of their parts.
            capacity: Kept for callers; batches are made one at a time.
            use_double_buffer: Kept for callers.
            iterable: Whether a program is fed what iteration gives. Else it takes a
                batch in every run from `start` on, until `proa.errors.EndOfDataError`
                ends the pass; `reset` lets another one begin.
            return_list: Whether batches are lists of tensors instead of feeds.
            use_multiprocess: Kept for callers; generators run in this process.
            drop_last: Kept for callers: it divides batches among devices.

        Raises:
            InvalidArgumentError: If there is no feed_list and batches are no lists.
            PreconditionNotMetError: If it is not iterable, in dynamic mode.
        """
        return GeneratorLoader(feed_list, return_list, iterable)

    def __len__(self) -> int:
        if self._stream:
            raise TypeError("[DataLoader] the length of an IterableDataset is unknown")
        if self._plain:
            return len(self.dataset)
        return len(self.batch_sampler)

    def __iter__(self) -> Iterator[Batch]:
        if self.num_workers == 0:
            batches: Iterator[Any] = map(as_tensors, self._batches_here())
        else:
            batches = self._batches_from_workers()
        return reader.watch(map(self._as_feed, batches) if self._names else batches)

    def _as_feed(self, batch: Any) -> Any:
        """The batch as `Executor.run` is fed it."""
        parts = batch if isinstance(batch, (list, tuple)) else [batch]
        if len(parts) != len(self._names):
            raise InvalidArgumentError(
                f"[DataLoader] samples must have a part for each of {self._names}, got "
                f"{len(parts)}"
            )
        return [dict(zip(self._names, parts, strict=True))]

    def __call__(self) -> Iterator[Batch]:
        return iter(self)

    # -- making batches ---------------------------------------------------------------
    def _requests(self) -> Iterator[Any]:
        if self._stream:
            return itertools.repeat(None)
        return iter(range(len(self.dataset)) if self._plain else self.batch_sampler)

    def _fetch(self, indices: Any) -> Any:
        """The batch of some indices (or the sample of one)."""
        if self._plain:
            return self.collate_fn(self.dataset[indices])
        take = getattr(self.dataset, "get_batch", None)
        if take is not None and self.collate_fn is default_collate_fn:
            return take(indices)
        return self.collate_fn([self.dataset[i] for i in indices])

    def _stream_batches(self) -> Iterator[Any]:
        samples = iter(self.dataset)
        if self._plain:
            yield from map(self.collate_fn, samples)
            return
        assert self.batch_size is not None
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    def _batches_here(self) -> Iterator[Any]:
        if self._stream:
            return self._stream_batches()
        return map(self._fetch, self._requests())

    def _jobs(self) -> list[Job]:
        seed, offset = default_generator.next(1)
        base = (seed * 1_000_003 + offset) % 2**62
        return [
            Job(
                self._fetch,
                self._stream_batches if self._stream else None,
                WorkerInfo(i, self.num_workers, self.dataset, base + i),
                self.worker_init_fn,
                self.use_shared_memory,
            )
            for i in range(self.num_workers)
        ]

    def _batches_from_workers(self) -> Iterator[Any]:
        from proa.io.worker_pool import WorkerPool

        pool = self._pool
        if pool is None or not pool.alive:
            old_pool, self._pool = self._pool, None
            pool = WorkerPool(self._jobs(), self.prefetch_factor, self.timeout)
            if self.persistent_workers:
                self._pool = pool
            del old_pool
        try:
            for batch in pool.run(self._requests()):
                yield as_tensors(batch)
        finally:
            if not self.persistent_workers:
                pool.close()
