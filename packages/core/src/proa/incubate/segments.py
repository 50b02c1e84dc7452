"""Reductions of runs of rows that bear the same number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.arguments import cast_if
from proa.tensor.associative_scan import associative_scan
from proa.tensor.creation import as_tensor
from proa.tensor.search import index_add, scatter


def segment_sum(data: Tensor, segment_ids: Tensor, name: str | None = None) -> Tensor:
    """y[k] = the sum of the rows i of data with segment_ids[i] == k.

    Args:
        data: (n, …), numbers.
        segment_ids: (n,), int32 or int64, from 0 up, never falling.
        name: Ignored.

    Returns:
        (segment_ids[-1] + 1, …) in the dtype of data; 0 for numbers without a row.
    """
    return cast_if(_sums(data, _numbers("segment_sum", data, segment_ids)), data.dtype)


def segment_mean(data: Tensor, segment_ids: Tensor, name: str | None = None) -> Tensor:
    """The same of means; see `segment_sum`."""
    numbers = _numbers("segment_mean", data, segment_ids)
    total = _sums(data, numbers)
    counts = np.maximum(np.bincount(numbers), 1) if numbers.size else numbers
    shape = [len(counts)] + [1] * (data.ndim - 1)
    share = as_tensor(counts.astype(np.float64).reshape(shape))
    return cast_if(ops.div(total, cast_if(share, total.dtype)), data.dtype)


def segment_max(data: Tensor, segment_ids: Tensor, name: str | None = None) -> Tensor:
    """The same of greatest elements; see `segment_sum`."""
    return _greatest("segment_max", data, segment_ids, ops.maximum)


def segment_min(data: Tensor, segment_ids: Tensor, name: str | None = None) -> Tensor:
    """The same of least elements; see `segment_sum`."""
    return _greatest("segment_min", data, segment_ids, ops.minimum)


def _numbers(where: str, data: Tensor, segment_ids: Tensor) -> np.ndarray[Any, Any]:
    if data.ndim < 1 or list(segment_ids.shape) != [data.shape[0]]:
        raise ShapeError(
            where,
            "segment_ids must hold one number for each row of data",
            (tuple(segment_ids.shape), tuple(data.shape)),
        )
    numbers = segment_ids.numpy()
    if numbers.dtype.kind not in "iu":
        raise InvalidArgumentError(
            f"[{where}] segment_ids must be integers, got {segment_ids.dtype}"
        )
    if numbers.size and (numbers[0] < 0 or (np.diff(numbers) < 0).any()):
        raise InvalidArgumentError(
            f"[{where}] segment_ids must be at least 0 and not decrease, got "
            f"{numbers[:8].tolist()}…"
        )
    return numbers


def _sums(data: Tensor, numbers: np.ndarray[Any, Any]) -> Tensor:
    """In float64 where data is real: a float32 sum of a million rows loses digits."""
    wide = cast_if(data, as_dtype("float64")) if data.dtype.is_floating else data
    count = int(numbers[-1]) + 1 if numbers.size else 0
    zeros = ops.full(shape=[count, *data.shape[1:]], value=0, dtype=wide.dtype)
    return index_add(zeros, as_tensor(numbers), 0, wide) if count else zeros


def _greatest(
    where: str, data: Tensor, segment_ids: Tensor, better: Callable[..., Tensor]
) -> Tensor:
    numbers = _numbers(where, data, segment_ids)
    if not numbers.size:
        return ops.full(shape=[0, *data.shape[1:]], value=0, dtype=data.dtype)
    count = int(numbers[-1]) + 1
    shape = [len(numbers)] + [1] * (data.ndim - 1)

    def join(
        earlier: tuple[Tensor, ...], later: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        same = ops.equal(earlier[1], later[1])
        return ops.where(same, better(earlier[0], later[0]), later[0]), later[1]

    marks = ops.reshape(as_tensor(numbers), shape=shape)
    scanned, _ = associative_scan((data, marks), 0, join)
    ends = np.flatnonzero(np.diff(numbers, append=-1))
    rows = ops.gather(scanned, as_tensor(ends), axis=0)
    if len(ends) == count:
        return rows
    zeros = ops.full(shape=[count, *data.shape[1:]], value=0, dtype=data.dtype)
    return scatter(zeros, as_tensor(numbers[ends]), rows)
