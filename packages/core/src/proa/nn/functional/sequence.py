"""Sequences of unequal lengths, and paths of a beam search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.errors import InvalidTypeError, ShapeError, UnimplementedError
from proa.nn.sequences import counted
from proa.tensor.arguments import as_count
from proa.tensor.creation import arange
from proa.tensor.symbolic_dims import SymbolicDim

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike

__all__ = ["gather_tree", "sequence_mask"]


def sequence_mask(
    x: Tensor,
    maxlen: int | Tensor | None = None,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> Tensor:
    """1 in the first x[i] places of row i, else 0.

    Args:
        x: Lengths of any shape, integers.
        maxlen: Length of the last axis that is added; None is the greatest of x.
        dtype: Element type of the result.
    """
    if not x.dtype.is_integer:
        raise InvalidTypeError(f"[sequence_mask] expected x of integers, got {x.dtype}")
    places = _places(x, maxlen)
    inside = ops.less_than(places, ops.unsqueeze(x, axis=[-1]))
    return ops.cast(inside, dtype=as_dtype(dtype))


def _places(x: Tensor, maxlen: Any) -> Tensor:
    """0, 1, .. below maxlen, or below the greatest of x, in the dtype of x."""
    if isinstance(maxlen, SymbolicDim):
        return arange(maxlen, dtype=x.dtype)
    given = ops.max(x) if maxlen is None else maxlen
    if isinstance(given, Tensor) and given._is_symbolic:
        number = ops.cast(ops.reshape(given, shape=[]), dtype="int64")
        return ops.cast(counted(number), dtype=x.dtype)
    length = (
        int(given) if maxlen is None else as_count("sequence_mask", "maxlen", given)
    )
    return ops.arange(start=0, step=1, count=length, dtype=x.dtype)


def gather_tree(ids: Tensor, parents: Tensor) -> Tensor:
    """Whole sequences from the steps of a beam search, read from the end.

    Args:
        ids: What was chosen at each step (time, batch, beam), integers.
        parents: Which beam of the step before it follows, in the same shape.

    Returns (time, batch, beam): along the first axis the path that ends in each beam.

    Raises:
        ShapeError: If they are not of one shape of three axes.
        UnimplementedError: If a graph is recorded and the number of steps is unknown.
    """
    if ids.ndim != 3 or ids.shape != parents.shape:
        raise ShapeError(
            "gather_tree", f"parents must be {ids.shape}, of rank 3", parents.shape
        )
    steps = ids.shape[0]
    if isinstance(steps, SymbolicDim):
        raise UnimplementedError(
            "[gather_tree] expected a known number of steps, got a symbolic dimension: "
            "give its size in InputSpec"
        )
    if steps == 0:
        return ids
    path = [ops.select(ids, axis=0, index=steps - 1)]
    parent = ops.select(parents, axis=0, index=steps - 1)
    for t in reversed(range(steps - 1)):
        here = ops.select(ids, axis=0, index=t)
        path.append(ops.take_along_axis(here, parent, axis=1))
        above = ops.select(parents, axis=0, index=t)
        parent = ops.take_along_axis(above, parent, axis=1)
    return ops.stack(*reversed(path), axis=0)
