"""Puts the inputs of several requests in one batch and cuts its outputs apart."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from proa_serving.backends.base import Model
from proa_serving.protocol.messages import Array
from proa_serving.protocol.tensors import aligned_memory

Arrays = dict[str, Array]


def can_batch(model: Model) -> bool:
    """Whether dim 0 of every input and output is a free, hence a batch, dim.

    Not if the model says that it `runs_apart`.
    """
    if getattr(model, "runs_apart", False):
        return False
    specs = [*model.inputs, *model.outputs]
    return bool(model.inputs) and all(
        spec.shape and spec.shape[0] == -1 for spec in specs
    )


def rows_of(arrays: Arrays) -> int | None:
    """The size that dim 0 has in all ``arrays``, or None if they differ."""
    sizes = {array.shape[0] for array in arrays.values()}
    return sizes.pop() if len(sizes) == 1 else None


def batch_key(arrays: Arrays) -> Hashable:
    """Equal for requests that may share a batch: other dims and dtypes agree."""
    return tuple((array.dtype, array.shape[1:]) for array in arrays.values())


def merge(requests: Sequence[Arrays]) -> Arrays:
    """One set of inputs, the rows of ``requests`` in order."""
    found = {}
    for name, first in requests[0].items():
        parts = [arrays[name] for arrays in requests]
        if first.dtype.hasobject:
            found[name] = np.concatenate(parts)
            continue
        shape = (sum(map(len, parts)), *first.shape[1:])
        size = first.dtype.itemsize * math.prod(shape)
        # Of memory that was used before where that is large: its pages are there.
        out: Array = np.ndarray(shape, first.dtype, aligned_memory(size))
        found[name] = np.concatenate(parts, out=out)
    return found


def split(outputs: Mapping[str, Array], rows: Sequence[int]) -> list[Arrays] | None:
    """The outputs of each request, or None if an output is not one row per row.

    Each part is a copy, so that no answer keeps a whole batch in memory.
    """
    total = sum(rows)
    if any(not out.ndim or out.shape[0] != total for out in outputs.values()):
        return None
    ends = np.cumsum(rows)
    return [
        {name: out[end - count : end].copy() for name, out in outputs.items()}
        for end, count in zip(ends.tolist(), rows, strict=True)
    ]
