"""Searching, sorting, selecting and sets of the array API standard."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proa._core import Tensor, from_numpy, ops
from proa.array_api.arrays import axis_number, flat, require_tensor
from proa.array_api.data_types import result_type
from proa.array_api.manipulation import reshape
from proa.array_api.operands import Operand, promoted
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from proa.tensor import search as _search

__all__ = [
    "argmax", "argmin", "argsort", "nonzero", "searchsorted", "sort", "take",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "where",
]  # fmt: skip


class UniqueAll(NamedTuple):
    """What `unique_all` finds; the indices and the inverse count from 0."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Values and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Values and, of each element, which of them it is."""

    values: Tensor
    inverse_indices: Tensor


def _extreme(where: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    require_tensor(where, x)
    find = ops.argmax if where == "argmax" else ops.argmin
    if axis is not None:
        along = axis_number(where, axis, x.ndim)
        return find(x, axis=along, keepdim=keepdims)
    place = find(flat(x), axis=0, keepdim=False)
    return ops.reshape(place, shape=[1] * x.ndim) if keepdims else place


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """int64 index of the greatest element, the first of equals; NaN is greatest.

    Args:
        x: A real array.
        axis: The axis, or None for the index in the flat array.
        keepdims: Whether what is searched stays as axes of size 1.
    """
    return _extreme("argmax", x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """int64 index of the least element, the first of equals; NaN is least.

    Args:
        x: A real array.
        axis: The axis, or None for the index in the flat array.
        keepdims: Whether what is searched stays as axes of size 1.
    """
    return _extreme("argmin", x, axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """int64 indices of the elements other than 0, an array for each axis.

    Raises:
        InvalidArgumentError: If x has no axis.
    """
    if require_tensor("nonzero", x).ndim == 0:
        raise InvalidArgumentError("[nonzero] expected at least one axis, got shape ()")
    places = _search.nonzero(x)
    return tuple(ops.assign(ops.select(places, axis=1, index=i)) for i in range(x.ndim))


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """int64 places in a sorted array before which elements keep it sorted.

    Args:
        x1: A real array of one axis, sorted, or what sorter sorts.
        x2: A real array of any shape.
        side: 'left': before elements that equal; 'right': after them.
        sorter: Indices that sort x1.
    """
    if side not in ("left", "right"):
        raise InvalidArgumentError(
            f"[searchsorted] side must be 'left' or 'right', got {side!r}"
        )
    if require_tensor("searchsorted", x1).ndim != 1:
        raise ShapeError("searchsorted", "x1 must have one axis", x1.shape)
    kind = result_type(x1, require_tensor("searchsorted", x2))
    line = x1 if sorter is None else ops.gather(x1, sorter, axis=0)
    return _search.searchsorted(
        ops.cast(line, dtype=kind), ops.cast(x2, dtype=kind), right=side == "right"
    )


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices of these indices along an axis, which only one-axis x may leave out.

    Args:
        x: At least one axis.
        indices: Integers of one axis; negative ones count from the end.
        axis: The axis.

    Raises:
        OutOfRangeError: If an index is outside the axis.
    """
    rank = require_tensor("take", x).ndim
    if axis is None and rank != 1:
        raise InvalidArgumentError(f"[take] expected an axis for {rank} axes, got None")
    place = axis_number("take", 0 if axis is None else axis, rank)
    if not require_tensor("take", indices).dtype.is_integer:
        raise InvalidTypeError(
            f"[take] indices must be integers, got {indices.dtype.name}"
        )
    whole = (slice(None),) * place
    key = (*whole, ops.cast(indices, dtype=as_dtype("int64")))
    found: Tensor = x[key]
    return found


def where(condition: Tensor, x1: Operand, x2: Operand, /) -> Tensor:
    """x1 where the condition is true, else x2; all three broadcast."""
    require_tensor("where", condition)
    return ops.where(condition, *promoted("where", x1, x2))


def sort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The elements in order along an axis; NaN is the greatest.

    Args:
        x: A real array.
        axis: The axis.
        descending: Whether the greatest is first.
        stable: Equal elements keep their order in either case.
    """
    return _sorted("sort", x, axis, descending)[0]


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """int64 indices that put the elements in order along an axis; as `sort`."""
    return _sorted("argsort", x, axis, descending)[1]


def _sorted(
    where: str, x: Tensor, axis: int, descending: bool
) -> tuple[Tensor, Tensor]:
    place = axis_number(where, axis, require_tensor(where, x).ndim)
    pair: tuple[Tensor, Tensor] = ops.sort(x, axis=place, descending=descending)
    return pair


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct elements, ascending; each NaN is distinct, 0 and -0 are not.

    Returns:
        The values (n,), the first index of each in the flat array, of each element
        (in the shape of x) which value it is, and how often each occurs; int64.
    """
    line = flat(require_tensor("unique_all", x))
    array = line.detach().numpy()
    order = np.argsort(array, kind="stable")
    ordered = array[order]
    is_first = np.ones(array.size, "bool")
    is_first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(is_first)
    inverse = np.empty(array.size, "int64")
    inverse[order] = np.cumsum(is_first) - 1
    indices = from_numpy(order[starts].astype("int64"), True)
    counts = np.diff(np.append(starts, array.size)).astype("int64")
    return UniqueAll(
        ops.gather(line, indices, axis=0),
        indices,
        reshape(from_numpy(inverse, True), tuple(x.shape)),
        from_numpy(counts, True),
    )


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct elements as `unique_all` gives them, and how often each occurs."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct elements as `unique_all` gives them, and which each element is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements as `unique_all` gives them."""
    return unique_all(x).values
