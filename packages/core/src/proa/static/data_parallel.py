"""The parts of a batch that places of inference take, and their merged results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.static.program import Program
from proa.tensor.creation import to_tensor
from proa.tensor.lod import LoDTensor


def is_updated_by(program: Program) -> bool:
    """Whether a run of the program changes Variables of the scope."""
    return any(
        program.vars[name]._handle[1] is not first
        for name, first in program.states.items()
    )


def parts_of(
    program: Program, feed: Mapping[str, Any] | Sequence[Mapping[str, Any]], count: int
) -> list[Mapping[str, Any]]:
    """What each place is fed: consecutive rows, as many as those of the others or one
    more. Places that no row is left for are left out.

    Data whose first size the program knows are given to each. Data of sequences are not
    divided.

    Raises:
        InvalidArgumentError: If there are more dictionaries than places, or if data
            have different numbers of rows.
    """
    if not isinstance(feed, Mapping):
        if len(feed) > count:
            raise InvalidArgumentError(
                f"[Executor.run] feed must be for at most {count} places, got "
                f"{len(feed)} dictionaries"
            )
        return list(feed)
    rows = {
        name: len(value)
        for name, value in feed.items()
        if name in program.data and program.data[name].shape[:1] == (-1,)
    }
    divides = rows and not any(isinstance(v, LoDTensor) for v in feed.values())
    if not divides or program.lod_levels:
        return [feed]
    if len(set(rows.values())) > 1:
        raise InvalidArgumentError(
            f"[Executor.run] expected data of one number of rows for {count} places, "
            f"got {rows}"
        )
    total = next(iter(rows.values()))
    used = max(min(count, total), 1)
    ends = [total * i // used for i in range(used + 1)]
    return [
        {n: v[ends[i] : ends[i + 1]] if n in rows else v for n, v in feed.items()}
        for i in range(used)
    ]


def merged(results: Sequence[Any]) -> Any:
    """Results of the places, their rows one after another; numbers as one vector.

    Raises:
        InvalidArgumentError: If they differ in more than their numbers of rows.
    """
    shapes = [tuple(r.shape) for r in results]
    if len({shape[1:] for shape in shapes}) > 1:
        raise InvalidArgumentError(
            "[Executor.run] results of places must differ in their first sizes alone "
            f"to be merged, got shapes {shapes}; return_merged=False returns each"
        )
    if isinstance(results[0], np.ndarray):
        return np.concatenate([np.atleast_1d(r) for r in results])
    tensors = [r if isinstance(r, Tensor) else to_tensor(r) for r in results]
    if not shapes[0]:
        return ops.stack(*tensors, axis=0)
    return ops.concat(*tensors, axis=0)
