"""Samplers: in what order samples are taken, and which make up a batch."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np

from proa.base.random import default_generator
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.io.dataset import IterableDataset
from proa.tensor.arguments import as_int

if TYPE_CHECKING:
    from proa.base.typing import TensorLike

__all__ = [
    "BatchSampler", "DistributedBatchSampler", "RandomSampler", "Sampler",
    "SequenceSampler", "SubsetRandomSampler", "WeightedRandomSampler",
]  # fmt: skip


def _numpy_stream() -> np.random.Generator:
    """A NumPy generator at the next place of our random stream."""
    return np.random.Generator(np.random.Philox(key=list(default_generator.next(1))))


class Sampler:
    """Yields the indices of samples."""

    def __init__(self, data_source: Sized | None = None) -> None:
        self.data_source: Any = data_source

    def __iter__(self) -> Iterator[int]:
        raise NotImplementedError(
            f"[{type(self).__name__}] a Sampler must define __iter__, got none"
        )

    def __len__(self) -> int:
        return len(self.data_source)


def _check_size(where: str, name: str, source: Any) -> None:
    if not hasattr(source, "__len__"):
        raise InvalidTypeError(
            f"[{where}] {name} must have a length, got {type(source).__name__!r}"
        )


class SequenceSampler(Sampler):
    """Indices in order."""

    def __init__(self, data_source: Sized) -> None:
        super().__init__(data_source)
        _check_size("SequenceSampler", "data_source", data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))


class RandomSampler(Sampler):
    """Indices in random order, or drawn with replacement."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Iterator[int] | None = None,
    ) -> None:
        super().__init__(data_source)
        if not isinstance(replacement, bool):
            raise InvalidTypeError(
                f"[RandomSampler] expected replacement to be a bool, got {replacement}"
            )
        if generator is None:
            _check_size("RandomSampler", "data_source", data_source)
        elif not hasattr(generator, "__next__"):
            raise InvalidTypeError(
                "[RandomSampler] generator must be an iterator of indices, got "
                f"{type(generator).__name__!r}"
            )
        if num_samples is not None and as_int("RandomSampler", num_samples) <= 0:
            raise InvalidArgumentError(
                f"[RandomSampler] num_samples must be positive, got {num_samples}"
            )
        if num_samples is not None and not replacement:
            size = len(data_source)
            if generator is None and num_samples > size:
                raise InvalidArgumentError(
                    "[RandomSampler] expected num_samples to be at most the number of "
                    f"samples, {size}, without replacement, got {num_samples}"
                )
        self.replacement = replacement
        self.generator = generator
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        """How many indices an epoch has."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        if self.generator is not None:
            for _ in range(self.num_samples):
                try:
                    yield next(self.generator)
                except StopIteration:
                    return
            return
        size, stream = len(self.data_source), _numpy_stream()
        if self.replacement:
            yield from stream.integers(0, size, self.num_samples).tolist()
        else:
            yield from stream.permutation(size)[: self.num_samples].tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int]) -> None:
        super().__init__(indices)
        numbered = hasattr(indices, "__getitem__") and not hasattr(indices, "keys")
        if not numbered or getattr(indices, "ndim", 1) != 1:
            raise InvalidTypeError(
                "[SubsetRandomSampler] expected indices as a sequence of ints, got "
                f"{type(indices).__name__!r}"
            )
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        for i in _numpy_stream().permutation(len(self.indices)):
            yield self.indices[i]


class WeightedRandomSampler(Sampler):
    """Indices drawn in proportion to weights."""

    def __init__(
        self, weights: TensorLike, num_samples: int, replacement: bool = True
    ) -> None:
        super().__init__()
        weights = weights.numpy() if hasattr(weights, "numpy") else weights
        self.weights = np.asarray(weights, np.float64)
        if self.weights.ndim != 1:
            raise InvalidArgumentError(
                "[WeightedRandomSampler] expected weights with 1 axis, got shape "
                f"{self.weights.shape}"
            )
        if not (self.weights >= 0).all() or not 0 < self.weights.sum() < np.inf:
            raise InvalidArgumentError(
                "[WeightedRandomSampler] expected finite weights of at least 0 that "
                f"are not all 0, got {self.weights.tolist()!r:.80}"
            )
        able = np.count_nonzero(self.weights)
        num_samples = as_int("WeightedRandomSampler", num_samples)
        if num_samples <= 0 or (not replacement and num_samples > able):
            raise InvalidArgumentError(
                "[WeightedRandomSampler] num_samples must be positive, and without "
                f"replacement at most {able}, got {num_samples}"
            )
        self.num_samples, self.replacement = num_samples, replacement

    def __iter__(self) -> Iterator[int]:
        p = self.weights / self.weights.sum()
        drawn = _numpy_stream().choice(len(p), self.num_samples, self.replacement, p)
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler:
    """Lists of indices, a batch each.

    Args:
        dataset: What to sample from; or give a sampler.
        sampler: Yields indices.
        shuffle: Whether to shuffle the dataset.
        batch_size: Indices in a batch.
        drop_last: Whether to leave out a last batch that is not full.
    """

    def __init__(
        self,
        dataset: Sized | None = None,
        sampler: Iterable[int] | None = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
    ) -> None:
        if (dataset is None) == (sampler is None):
            raise InvalidArgumentError(
                f"[BatchSampler] expected either dataset or sampler, got {dataset!r} "
                f"and {sampler!r}"
            )
        if sampler is not None and not hasattr(sampler, "__iter__"):
            raise InvalidTypeError(
                "[BatchSampler] sampler must be an iterable of indices, got "
                f"{type(sampler).__name__!r}"
            )
        if isinstance(dataset, IterableDataset):
            raise InvalidArgumentError(
                "[BatchSampler] expected a dataset with indices, got an IterableDataset"
            )
        if batch_size <= 0:
            raise InvalidArgumentError(
                f"[BatchSampler] batch_size must be positive, got {batch_size}"
            )
        batch_size = as_int("BatchSampler", batch_size)
        self.sampler: Any = sampler
        if sampler is None:
            kind = RandomSampler if shuffle else SequenceSampler
            source: Any = dataset
            self.sampler = kind(source)
        self.batch_size, self.drop_last = batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)
        extra = 0 if self.drop_last else self.batch_size - 1
        return int((count + extra) // self.batch_size)


class DistributedBatchSampler(BatchSampler):
    """The batches of one process of many; every process gets as many samples.

    Args:
        num_replicas: Processes; from the environment (PADDLE_TRAINERS_NUM) if None.
        rank: This process; from the environment (PADDLE_TRAINER_ID) if None.
    """

    def __init__(
        self,
        dataset: Sized,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset, None, False, batch_size, drop_last)
        self.dataset, self.shuffle, self.epoch = dataset, shuffle, 0
        env = os.environ
        if num_replicas is None:
            num_replicas = int(env.get("PADDLE_TRAINERS_NUM", 1))
        if rank is None:
            rank = int(env.get("PADDLE_TRAINER_ID", 0))
        num_replicas = as_int("DistributedBatchSampler", num_replicas)
        rank = as_int("DistributedBatchSampler", rank)
        if not 0 <= rank < num_replicas:
            raise InvalidArgumentError(
                f"[DistributedBatchSampler] rank must be in [0, {num_replicas}), "
                f"got {rank}"
            )
        if num_replicas >= 2**31:
            raise InvalidArgumentError(
                "[DistributedBatchSampler] expected num_replicas of less than 2**31, "
                f"got {num_replicas}"
            )
        self.nranks, self.local_rank = num_replicas, rank
        self.num_samples = math.ceil(len(dataset) / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[list[int]]:
        order = np.arange(len(self.dataset))
        if self.shuffle:
            # Seeded by the epoch, so that all processes agree on the order.
            order = np.random.RandomState(self.epoch).permutation(order)
            self.epoch += 1
        # The order is repeated to total_size. Blocks of a batch go round the processes;
        # the rest is dealt out evenly. Only this process's positions are computed.
        size, rank = self.batch_size, self.local_rank
        rounds = self.num_samples // size
        rest = self.num_samples - rounds * size
        starts = [(i * self.nranks + rank) * size for i in range(rounds)]
        last = rounds * self.nranks * size + rank * rest
        blocks = [range(start, start + size) for start in starts]
        positions = itertools.chain(*blocks, range(last, last + rest))
        self.sampler = [int(order[p % len(order)]) for p in positions]
        yield from super().__iter__()

    def __len__(self) -> int:
        extra = 0 if self.drop_last else self.batch_size - 1
        return (self.num_samples + extra) // self.batch_size

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that the order of the next iteration is seeded by."""
        self.epoch = epoch
