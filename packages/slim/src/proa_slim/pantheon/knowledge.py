"""Knowledge: named arrays with one row for each sample, and how they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError

#: One batch: arrays with the samples along axis 0.
Knowledge = dict[str, NDArray[Any]]
#: By name: shape with -1 for the samples, dtype, lod_level.
Description = dict[str, dict[str, Any]]

_HALVED = ("float32", "float64")


def checked(batch: Mapping[str, Any]) -> Knowledge:
    """The arrays of a batch.

    Raises:
        InvalidArgumentError: If there are none, or they differ in their first axis.
    """
    arrays = {name: np.asarray(value) for name, value in batch.items()}
    counts = {a.shape[0] if a.ndim else -1 for a in arrays.values()}
    if len(counts) != 1 or -1 in counts:
        shapes = {name: a.shape for name, a in arrays.items()}
        raise InvalidArgumentError(
            "[pantheon] knowledge must be arrays with one row for each sample, got "
            f"{shapes}"
        )
    return arrays


def describe(batch: Knowledge) -> Description:
    """Shapes and dtypes of a batch's arrays."""
    return {
        name: {"shape": [-1, *a.shape[1:]], "dtype": a.dtype.name, "lod_level": 0}
        for name, a in batch.items()
    }


def halved(batch: Knowledge) -> Knowledge:
    """The batch with float16 in place of float32 and float64.

    Raises:
        InvalidArgumentError: If a finite value is beyond float16.
    """
    results = {}
    for name, array in batch.items():
        results[name] = array
        if array.dtype.name not in _HALVED:
            continue
        with np.errstate(over="ignore"):
            results[name] = array.astype(np.float16)
        if (np.isinf(results[name]) & np.isfinite(array)).any():
            raise InvalidArgumentError(
                f"[pantheon] use_fp16 needs magnitudes up to 65504, got "
                f"{np.abs(array[np.isfinite(array)]).max():.6g} in {name!r}"
            )
    return results


def restored(batch: Mapping[str, Any], description: Description) -> Knowledge:
    """The batch in the dtypes that the teacher described."""
    return {
        name: np.asarray(array).astype(description[name]["dtype"], copy=False)
        for name, array in batch.items()
    }


def size(batch: Knowledge) -> int:
    """Bytes of its arrays."""
    return sum(array.nbytes for array in batch.values())


def count(batch: Knowledge) -> int:
    """Samples of the batch."""
    return int(next(iter(batch.values())).shape[0])


def joined(parts: Iterable[Knowledge]) -> Knowledge:
    """Batches one after the other.

    Raises:
        InvalidArgumentError: If samples differ in shape.
    """
    several = list(parts)
    if len(several) == 1:
        return several[0]
    results = {}
    for name in several[0]:
        shapes = {p[name].shape[1:] for p in several}
        if len(shapes) > 1:
            raise InvalidArgumentError(
                f"[pantheon] samples of {name!r} must have one shape to be batched "
                f"again, got {sorted(shapes)}: let the teacher pad them"
            )
        results[name] = np.concatenate([p[name] for p in several])
    return results


def rows(batch: Knowledge, begin: int, end: int) -> Knowledge:
    """The samples from begin to end."""
    return {name: array[begin:end] for name, array in batch.items()}
