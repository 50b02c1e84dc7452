"""Groups of equal rows while a static program is built, where rows have no values.

How many groups there are follows from elements: what serves static mode gives the
indices of a mask's true elements, and so that size.
"""

from __future__ import annotations

from proa._core import Tensor, ops
from proa.base.mode import StaticBuilder
from proa.tensor.symbolic_dims import SymbolicDim, sized, steps_from

#: Rows are sorted column by column, of more columns than this in a loop.
_COLUMNS = 256

#: First row of each group, group of each row, size of each group: all int64.
Groups = tuple[Tensor, Tensor, Tensor]


def grouped(rows: Tensor, builder: StaticBuilder) -> Groups:
    """The groups of equal rows, in ascending order.

    Args:
        rows: (n, ..), at least one axis; rows are compared element by element.
        builder: Makes indices of masks, and loops.
    """
    order = _ascending(rows, builder)
    first, group, counts = runs(
        ops.gather(rows, order, axis=0), builder, nan_is_nan=rows.ndim == 1
    )
    blank = ops.mul(order, 0)
    inverse = ops.index_put(blank, ops.unsqueeze(order, axis=[1]), group)
    return ops.gather(order, first, axis=0), inverse, counts


def runs(rows: Tensor, builder: StaticBuilder, nan_is_nan: bool = False) -> Groups:
    """The groups of equal neighbours.

    Args:
        rows: (n, ..), at least one axis.
        builder: Makes indices of masks.
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
    first = builder.places(fresh)
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
    return steps_from(0, rows.shape[0], 1)


def _ascending(rows: Tensor, builder: StaticBuilder) -> Tensor:
    """The indices that sort rows by their first element, then by their second, .."""
    if rows.ndim == 1:
        return _sorting(rows)
    flat, order = _flat(rows), _numbered(rows)
    width = flat.shape[1]

    def sorted_by(key: Tensor, order: Tensor) -> Tensor:
        return ops.gather(order, _sorting(ops.gather(key, order, axis=0)), axis=0)

    if not isinstance(width, SymbolicDim) and width <= _COLUMNS:
        for column in reversed(range(int(width))):
            order = sorted_by(ops.select(flat, axis=1, index=column), order)
        return order
    ones = ops.full_like(sized([width], flat), value=1, dtype="int64")
    last = ops.sub(ops.reshape(ops.sum(ones, axis=[0]), shape=[1]), 1)

    def round_of(at: Tensor, order: Tensor) -> list[Tensor]:
        column = ops.reshape(ops.gather(flat, at, axis=1), shape=[-1])
        return [ops.sub(at, 1), sorted_by(column, order)]

    return builder.loop(
        lambda at, _: ops.greater_equal(at, 0), round_of, [last, order]
    )[1]


def _sorting(key: Tensor) -> Tensor:
    """The indices that sort (n,); equal elements keep their order."""
    if key.dtype.name == "bool":
        key = ops.cast(key, dtype="int32")
    return ops.sort(key, axis=0)[1]
