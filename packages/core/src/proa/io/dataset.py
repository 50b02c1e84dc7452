"""Datasets: things with samples by index, or that yield samples."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from proa._core import Tensor
from proa.errors import InvalidArgumentError, InvalidTypeError, OutOfRangeError
from proa.tensor.random import randperm

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ChainDataset", "ComposeDataset", "ConcatDataset", "Dataset", "IterableDataset",
    "Subset", "TensorDataset", "random_split",
]  # fmt: skip

T = TypeVar("T")


class Dataset(Generic[T]):
    """Samples by index; subclasses define ``__getitem__`` and ``__len__``.

    A subclass may also define ``get_batch(indices)``, which returns the samples of many
    indices already stacked; loaders that use the default collation then call it.
    """

    def __getitem__(self, idx: int) -> T:
        raise NotImplementedError(
            f"[{type(self).__name__}] a Dataset must define __getitem__, got none"
        )

    def __len__(self) -> int:
        raise NotImplementedError(
            f"[{type(self).__name__}] a Dataset must define __len__, got none"
        )


class IterableDataset(Dataset[T]):
    """Samples in a stream; subclasses define ``__iter__``."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(
            f"[{type(self).__name__}] an IterableDataset must define __iter__, got none"
        )

    def __getitem__(self, idx: int) -> T:
        raise InvalidTypeError(
            "[IterableDataset] samples are taken by iteration, not by an index"
        )

    def __len__(self) -> int:
        raise InvalidTypeError("[IterableDataset] a stream has no length")


def _check_index(dataset: Dataset[Any], idx: int) -> None:
    size = len(dataset)
    if not -size <= idx < size:
        raise OutOfRangeError(
            f"[{type(dataset).__name__}] index must be in [{-size}, {size}), got {idx}"
        )


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Rows of tensors (or arrays) side by side: sample i is row i of each."""

    def __init__(self, tensors: Sequence[Tensor | NDArray[Any]]) -> None:
        if not tensors:
            raise InvalidArgumentError(
                "[TensorDataset] expected at least one tensor, got none"
            )
        rows = {len(t) for t in tensors}
        if len(rows) > 1:
            raise InvalidArgumentError(
                "[TensorDataset] tensors must have the same number of rows, got "
                f"{[len(t) for t in tensors]}"
            )
        self.tensors = tensors
        # The arrays that batches are taken from; a CPU tensor shares its memory.
        self._arrays = [
            t.detach().numpy() if isinstance(t, Tensor) else np.asarray(t)
            for t in tensors
        ]

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        _check_index(self, index)
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self._arrays[0])

    def get_batch(self, indices: Sequence[int]) -> list[np.ndarray[Any, Any]]:
        """The rows at ``indices`` of each array."""
        return [a[indices] for a in self._arrays]


class ComposeDataset(Dataset[tuple[Any, ...]]):
    """Datasets of one length side by side: the fields of sample i of each."""

    def __init__(self, datasets: Sequence[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets or len({len(d) for d in self.datasets}) > 1:
            raise InvalidArgumentError(
                "[ComposeDataset] datasets must have one length, "
                f"got {[len(d) for d in self.datasets]}"
            )

    def __len__(self) -> int:
        return len(self.datasets[0])

    def __getitem__(self, idx: int) -> tuple[Any, ...]:
        _check_index(self, idx)
        fields: list[Any] = []
        for d in self.datasets:
            sample = d[idx]
            fields += sample if isinstance(sample, (list, tuple)) else [sample]
        return tuple(fields)


class ChainDataset(IterableDataset[T]):
    """Streams one after another."""

    def __init__(self, datasets: Iterable[Iterable[T]]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[T]:
        for d in self.datasets:
            yield from d


class ConcatDataset(Dataset[T]):
    """Datasets one after another."""

    def __init__(self, datasets: Iterable[Dataset[T]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise InvalidArgumentError(
                "[ConcatDataset] expected at least one dataset, got none"
            )
        self.cumulative_sizes = np.cumsum([len(d) for d in self.datasets]).tolist()

    def __len__(self) -> int:
        size: int = self.cumulative_sizes[-1]
        return size

    def __getitem__(self, idx: int) -> T:
        _check_index(self, idx)
        idx %= len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][idx - before]


class Subset(Dataset[T]):
    """The samples of a dataset at the given indices."""

    def __init__(self, dataset: Dataset[T], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, idx: int) -> T:
        _check_index(self, idx)
        index: Any = idx
        try:
            index = self.indices[idx]
            return self.dataset[index]
        except LookupError as error:
            raise OutOfRangeError(
                f"[Subset] expected an index that the dataset has, got {index}"
            ) from error

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[T], lengths: Sequence[int | float], generator: object = None
) -> list[Subset[T]]:
    """Cut a dataset at random into parts of given lengths, or of given shares of it."""
    total = len(dataset)
    if any(n < 0 or (isinstance(n, float) and n > 1) for n in lengths):
        raise InvalidArgumentError(
            "[random_split] expected lengths of at least 0, or shares that add up to "
            f"1, got {list(lengths)}"
        )
    if all(isinstance(n, float) for n in lengths) and abs(sum(lengths) - 1) < 1e-6:
        counts = [int(total * share) for share in lengths]
        for i in range(total - sum(counts)):
            counts[i % len(counts)] += 1
    else:
        counts = [int(n) for n in lengths]
    if sum(counts) != total:
        raise InvalidArgumentError(
            f"[random_split] lengths must add up to {total}, got {sum(counts)}"
        )
    order = randperm(total).numpy().tolist()
    ends = np.cumsum(counts).tolist()
    return [
        Subset(dataset, order[end - n : end])
        for n, end in zip(counts, ends, strict=True)
    ]
