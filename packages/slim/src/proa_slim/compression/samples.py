"""The data that a model is compressed and measured with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError, NotFoundError
from proa.ir.program import Program

LABEL = "label"


@dataclass(frozen=True)
class Samples:
    """Inputs of a model, one array for each, and labels if there are any."""

    inputs: list[NDArray[Any]]
    labels: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.inputs[0])

    def part(self, rows: slice) -> Samples:
        """Some of them."""
        labels = None if self.labels is None else self.labels[rows]
        return Samples([array[rows] for array in self.inputs], labels)

    def batches(self, size: int) -> list[list[NDArray[Any]]]:
        """Inputs in batches, the last perhaps smaller."""
        starts = range(0, len(self), size)
        return [[a[i : i + size] for a in self.inputs] for i in starts]


def read_samples(path: str | PathLike[str], program: Program) -> Samples:
    """Arrays of an ``.npz`` file by the names of the model's inputs, and ``label``.

    Raises:
        NotFoundError: If there is no such file, or it lacks an input.
        InvalidArgumentError: As `samples_of`, or if it is no ``.npz`` file.
    """
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
    except FileNotFoundError:
        raise NotFoundError(f"[compress] expected a file of data, got {path}") from None
    except (ValueError, OSError, AttributeError) as error:
        raise InvalidArgumentError(
            f"[compress] expected an .npz file of arrays in {path}, got: {error}"
        ) from None
    names = [value.name for value in program.main.inputs]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise NotFoundError(
            f"[compress] expected an array for each input of the model in {path}, got "
            f"none for {missing[0]!r}; it has {', '.join(arrays)}"
        )
    return samples_of([arrays[name] for name in names], arrays.get(LABEL))


def samples_of(inputs: Sequence[Any], labels: Any = None) -> Samples:
    """Samples of arrays.

    Raises:
        InvalidArgumentError: If arrays differ in length, there are fewer than two
            samples, labels are no integers, or a value is not finite.
    """
    arrays = [np.asarray(array) for array in inputs]
    sizes = {len(a) for a in arrays if a.ndim} | {1 for a in arrays if not a.ndim}
    given = None
    if labels is not None:
        given = np.asarray(labels)
        if given.dtype.kind not in "iu" or given.ndim != 1:
            raise InvalidArgumentError(
                f"[compress] expected one integer label for each sample, got "
                f"{given.dtype} of shape {given.shape}"
            )
        sizes.add(len(given))
    if len(sizes) != 1 or min(sizes) < 2:
        raise InvalidArgumentError(
            "[compress] expected at least two samples, and as many of each array, got "
            f"{sorted(sizes)}"
        )
    for number, array in enumerate(arrays):
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InvalidArgumentError(
                f"[compress] expected finite data, got NaN or infinities in input "
                f"{number}"
            )
    return Samples(arrays, None if given is None else given.astype(np.int64))


#: Runs a model on arrays; returns its first output.
Run = Callable[..., Any]


def accuracy(run: Run, samples: Samples, size: int) -> float:
    """Percentage of samples whose greatest score is that of the label."""
    assert samples.labels is not None
    found = classes(run, samples, size)
    return 100 * float((found == samples.labels).mean())


def classes(run: Run, samples: Samples, size: int) -> NDArray[np.int64]:
    """The position of the greatest score along axis 1."""
    found = []
    for batch in samples.batches(size):
        result = run(*batch)
        scores = np.asarray(result[0] if isinstance(result, list) else result)
        if scores.ndim < 2:
            raise InvalidArgumentError(
                "[compress] expected a model whose first output has scores along axis "
                f"1, got shape {scores.shape}"
            )
        found.append(scores.argmax(1))
    return np.concatenate(found)
