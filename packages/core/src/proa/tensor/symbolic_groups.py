"""Groups of equal rows while a static program is built, where rows have no values.

How many groups there are follows from elements: a function that gives the indices of a
mask's true elements makes that size.
"""

from __future__ import annotations

from collections.abc import Callable

from proa._core import Tensor, ops
from proa.errors import UnimplementedError
from proa.tensor.symbolic_dims import SymbolicDim

#: Rows are sorted column by column; more columns than this are refused.
_COLUMNS = 256

#: Mask (n,) -> the indices at which it is true, int64.
Indices = Callable[[Tensor], Tensor]
#: First row of each group, group of each row, size of each group: all int64.
Groups = tuple[Tensor, Tensor, Tensor]


def grouped(rows: Tensor, true_indices: Indices) -> Groups:
    """The groups of equal rows, in ascending order.

    Args:
        rows: (n, ..), at least one axis; rows are compared element by element.
        true_indices: Makes indices of a mask.

    Raises:
        UnimplementedError: If a row has a symbolic size or too many elements.
    """
    order = _ascending(rows)
    first, group, counts = runs(
        ops.gather(rows, order, axis=0), true_indices, nan_is_nan=rows.ndim == 1
    )
    blank = ops.mul(order, 0)
    inverse = ops.index_put(blank, ops.unsqueeze(order, axis=[1]), group)
    return ops.gather(order, first, axis=0), inverse, counts


def runs(rows: Tensor, true_indices: Indices, nan_is_nan: bool = False) -> Groups:
    """The groups of equal neighbours.

    Args:
        rows: (n, ..), at least one axis.
        true_indices: Makes indices of a mask.
        nan_is_nan: Whether NaN is equal to NaN.
    """
    flat = _flat(rows)
    place = _numbered(rows)
    before = ops.gather(flat, ops.maximum(ops.sub(place, 1), 0), axis=0)
    differs = ops.not_equal(flat, before)
    if nan_is_nan and rows.is_floating_point():
        both = ops.logical_and(ops.not_equal(flat, flat), ops.not_equal(before, before))
        differs = ops.logical_and(differs, ops.logical_not(both))
    if flat.ndim > 1:
        differs = ops.any(differs, axis=[1])
    fresh = ops.logical_or(differs, ops.equal(place, 0))
    group = ops.sub(ops.cumsum(ops.cast(fresh, dtype="int64"), axis=0), 1)
    first = true_indices(fresh)
    count = ops.full_like(place, value=1, dtype="int64")
    total = ops.reshape(ops.sum(count, axis=[0]), shape=[1])
    ends = ops.concat(first[1:], total, axis=0)[: first.shape[0]]
    return first, group, ops.sub(ends, first)


def _flat(rows: Tensor) -> Tensor:
    if rows.ndim <= 2:
        return rows
    return ops.flatten(rows, start_axis=1, stop_axis=rows.ndim - 1)


def _numbered(rows: Tensor) -> Tensor:
    """0, 1, .. for each row, int64."""
    one = rows if rows.ndim == 1 else ops.select(_flat(rows), axis=1, index=0)
    ones = ops.full_like(one, value=1, dtype="int64")
    return ops.sub(ops.cumsum(ones, axis=0), 1)


def _ascending(rows: Tensor) -> Tensor:
    """The indices that sort rows by their first element, then by their second, .."""
    if rows.ndim == 1:
        return _sorting(rows)
    flat = _flat(rows)
    width = flat.shape[1]
    if isinstance(width, SymbolicDim) or not 0 < width <= _COLUMNS:
        raise UnimplementedError(
            "[unique] while a static program is built, an entry along axis must have a "
            f"known size from 1 to {_COLUMNS}, got {width}"
        )
    order = _numbered(rows)
    for column in reversed(range(int(width))):
        key = ops.gather(ops.select(flat, axis=1, index=column), order, axis=0)
        order = ops.gather(order, _sorting(key), axis=0)
    return order


def _sorting(key: Tensor) -> Tensor:
    """The indices that sort (n,); equal elements keep their order."""
    if key.dtype.name == "bool":
        key = ops.cast(key, dtype="int32")
    return ops.sort(key, axis=0)[1]
