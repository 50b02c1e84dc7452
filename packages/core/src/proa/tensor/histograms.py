"""Histograms, bincount, mode and unique elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from proa._core import Tensor, ops
from proa.base.dtype import DTypeLike, as_dtype
from proa.base.mode import static_builder
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.arguments import cast_if, normal_axis, present_axis
from proa.tensor.associative_scan import associative_scan
from proa.tensor.creation import as_tensor
from proa.tensor.symbolic_groups import grouped, runs

__all__ = [
    "bincount", "histogram", "mode", "unique", "unique_consecutive",
]  # fmt: skip


def _counted(place: Tensor, values: Tensor, size: int) -> Tensor:
    """Zeros (size,) with values added at place; both (n,)."""
    blank = ops.full(shape=[size], value=0, dtype=values.dtype)
    return ops.scatter_nd_like(values, ops.reshape(place, shape=[-1, 1]), blank)


def histogram(
    input: Tensor,
    bins: int = 100,
    min: float = 0,
    max: float = 0,
    name: str | None = None,
) -> Tensor:
    """How many elements are in each of ``bins`` equal parts of [min, max].

    Args:
        input: Real numbers of any shape.
        bins: Number of parts, positive.
        min, max: The range, max included; if both are equal, that of the elements.
            Elements outside are not counted.

    Returns:
        int64 of shape (bins,).

    Raises:
        InvalidArgumentError: If bins is not positive or max is less than min.
    """
    if bins < 1 or max < min:
        raise InvalidArgumentError(
            "[histogram] bins must be positive and max at least min, "
            f"got bins={bins}, min={min}, max={max}"
        )
    if input.size == 0:
        return ops.full(shape=[bins], value=0, dtype=as_dtype("int64"))
    x = ops.cast(ops.reshape(input, shape=[-1]), dtype=as_dtype("float64"))
    if min == max:
        low, high = ops.min(x), ops.max(x)
    else:
        low, high = (
            ops.full(shape=[], value=float(v), dtype=x.dtype) for v in (min, max)
        )
    # Elements that are all equal get a range of width 2 around them.
    flat = ops.cast(ops.equal(low, high), dtype=x.dtype)
    low, high = ops.sub(low, flat), ops.add(high, flat)
    inside = ops.logical_and(ops.greater_equal(x, low), ops.less_equal(x, high))
    part = ops.floor(ops.mul(ops.div(ops.sub(x, low), ops.sub(high, low)), float(bins)))
    zero = ops.full(shape=[], value=0, dtype=x.dtype)
    part = ops.minimum(ops.where(inside, part, zero), float(bins - 1))
    place = ops.cast(part, dtype=as_dtype("int64"))
    return _counted(place, ops.cast(inside, dtype=as_dtype("int64")), bins)


def bincount(
    x: Tensor,
    weights: Tensor | None = None,
    minlength: int = 0,
    name: str | None = None,
) -> Tensor:
    """How often each number 0, 1, … occurs, or the sum of its weights.

    Args:
        x: Integers >= 0, (n,).
        weights: (n,); None counts.
        minlength: Least length of the result.

    Returns:
        (max(x) + 1,) or longer; int64, or the dtype of the weights.

    Raises:
        InvalidArgumentError: If x is no vector of integers >= 0.
    """
    if x.ndim != 1 or not x.dtype.is_integer:
        raise InvalidArgumentError(
            f"[bincount] x must be a vector of integers, got {x.dtype} {x.shape}"
        )
    if minlength < 0:
        raise InvalidArgumentError(
            f"[bincount] minlength must not be negative, got {minlength}"
        )
    if weights is not None and weights.shape != x.shape:
        raise ShapeError("bincount", f"weights must be {tuple(x.shape)}", weights.shape)
    size = minlength
    if x.size:
        lowest, highest = int(ops.min(x).item()), int(ops.max(x).item())
        if lowest < 0:
            raise InvalidArgumentError(
                f"[bincount] x must not be negative, got {lowest}"
            )
        size = max(size, highest + 1)
    one = ops.full(shape=x.shape, value=1, dtype=as_dtype("int64"))
    place = cast_if(x, "int64")
    return _counted(place, one if weights is None else weights, size)


def mode(
    x: Tensor, axis: int = -1, keepdim: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The most frequent element along an axis (the least of equals), and its last
    place. The gradient goes to that place.
    """
    if x.ndim == 0:
        return ops.assign(x), ops.full(shape=[], value=0, dtype=as_dtype("int64"))
    along = normal_axis("mode", axis, x.ndim)
    if x.shape[along] == 0:
        raise ShapeError("mode", f"axis {along} must have an element", x.shape)
    last = ops.transpose(x, perm=[*(a for a in range(x.ndim) if a != along), along])
    order, where = ops.sort(last, axis=-1)
    n = order.shape[-1]
    # In a sorted line, element i belongs to a run that began at start[i].
    ramp = ops.arange(start=0, step=1, count=n, dtype=as_dtype("int64"))
    later = ops.slice(order, axes=[-1], starts=[1], ends=[n], steps=[1])
    before = ops.slice(order, axes=[-1], starts=[0], ends=[n - 1], steps=[1])
    fresh = ops.pad(
        ops.cast(ops.not_equal(later, before), dtype=as_dtype("int64")),
        low=[0] * (x.ndim - 1) + [1],
        high=[0] * x.ndim,
    )
    starts = ops.mul(fresh, ramp)
    (begin,) = associative_scan((starts,), -1, lambda a, b: (ops.maximum(a[0], b[0]),))
    best = ops.argmax(ops.sub(ramp, begin), axis=-1, keepdim=True)
    index = ops.take_along_axis(where, best, axis=-1)
    back = [*range(along), x.ndim - 1, *range(along, x.ndim - 1)]
    index = ops.transpose(index, perm=back)
    found = ops.take_along_axis(x, index, axis=along)
    if keepdim:
        return found, index
    return ops.squeeze(found, axis=[along]), ops.squeeze(index, axis=[along])


def _rows_of(x: Tensor, axis: int | None, where: str) -> tuple[Tensor, int]:
    """The entries to compare along axis 0, and the axis."""
    if axis is None:
        return ops.reshape(x, shape=[-1]), 0
    along = normal_axis(where, axis, x.ndim)
    perm = [along, *(a for a in range(x.ndim) if a != along)]
    return (ops.transpose(x, perm=perm) if along else x), along


def _put_back(rows: Tensor, along: int) -> Tensor:
    perm = [*range(1, along + 1), 0, *range(along + 1, rows.ndim)]
    return ops.transpose(rows, perm=perm) if along else rows


def _first_of_runs(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where an entry differs from the one before it."""
    fresh = np.ones(len(rows), bool)
    flat = rows.reshape(len(rows), int(np.prod(rows.shape[1:])))
    fresh[1:] = (flat[1:] != flat[:-1]).any(axis=1)
    return fresh


@overload
def unique(
    x: Tensor, return_index: Literal[False] = ..., return_inverse: Literal[False] = ...,
    return_counts: Literal[False] = ..., axis: int | None = ..., dtype: DTypeLike = ...,
    name: str | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def unique(
    x: Tensor, return_index: Literal[True] = ..., return_inverse: bool = ...,
    return_counts: bool = ..., axis: int | None = ..., dtype: DTypeLike = ...,
    name: str | None = ...,
) -> tuple[Tensor, ...]: ...  # fmt: skip
@overload
def unique(
    x: Tensor, return_index: bool = ..., return_inverse: Literal[True] = ...,
    return_counts: bool = ..., axis: int | None = ..., dtype: DTypeLike = ...,
    name: str | None = ...,
) -> tuple[Tensor, ...]: ...  # fmt: skip
@overload
def unique(
    x: Tensor, return_index: bool = ..., return_inverse: bool = ...,
    return_counts: Literal[True] = ..., axis: int | None = ..., dtype: DTypeLike = ...,
    name: str | None = ...,
) -> tuple[Tensor, ...]: ...  # fmt: skip
@overload
def unique(
    x: Tensor, return_index: bool = ..., return_inverse: bool = ...,
    return_counts: bool = ..., axis: int | None = ..., dtype: DTypeLike = ...,
    name: str | None = ...,
) -> Tensor | tuple[Tensor, ...]: ...  # fmt: skip
def unique(
    x: Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """The different elements (or entries along axis) in order.

    Args:
        x: Any shape; compared as a flat list if axis is None.
        return_index: Also where each first occurs.
        return_inverse: Also for each element its number in the result.
        return_counts: Also how often each occurs.
        axis: Axis along which whole entries are compared.
        dtype: int32 or int64, of the three further results.

    Returns:
        The different elements, through which gradients flow to their first
        occurrences; a tuple with the further results if any is requested. In a static
        program their number is a symbolic dimension.
    """
    if axis is not None:
        axis = present_axis("unique", axis, x.ndim)
    rows, along = _rows_of(x, axis, "unique")
    builder = static_builder() if x._is_symbolic else None
    if builder is not None:
        first, inverse, counts = grouped(rows, builder)
        found = _put_back(ops.gather(rows, first, axis=0), along)
        more = [(return_index, first), (return_inverse, inverse)]
        return _with_more(found, [*more, (return_counts, counts)], dtype)
    array = rows.numpy()
    _, firsts, inverses, numbers = np.unique(
        array, True, True, True, None if axis is None else 0
    )
    place = as_tensor(firsts.astype(np.int64))
    found = _put_back(ops.gather(rows, place, axis=0), along)
    requested = [
        (return_index, firsts),
        (return_inverse, inverses.ravel()),
        (return_counts, numbers),
    ]
    return _with_more(found, requested, dtype)


def _with_more(
    found: Tensor,
    requested: Sequence[tuple[bool, Tensor | NDArray[Any]]],
    dtype: DTypeLike,
) -> Tensor | tuple[Tensor, ...]:
    more = [cast_if(as_tensor(a), dtype) for yes, a in requested if yes]
    return (found, *more) if more else found


@overload
def unique_consecutive(
    x: Tensor, return_inverse: Literal[False] = ...,
    return_counts: Literal[False] = ..., axis: int | None = ..., dtype: DTypeLike = ...,
    name: str | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def unique_consecutive(
    x: Tensor, return_inverse: Literal[True] = ..., return_counts: bool = ...,
    axis: int | None = ..., dtype: DTypeLike = ..., name: str | None = ...,
) -> tuple[Tensor, ...]: ...  # fmt: skip
@overload
def unique_consecutive(
    x: Tensor, return_inverse: bool = ..., return_counts: Literal[True] = ...,
    axis: int | None = ..., dtype: DTypeLike = ..., name: str | None = ...,
) -> tuple[Tensor, ...]: ...  # fmt: skip
@overload
def unique_consecutive(
    x: Tensor, return_inverse: bool = ..., return_counts: bool = ...,
    axis: int | None = ..., dtype: DTypeLike = ..., name: str | None = ...,
) -> Tensor | tuple[Tensor, ...]: ...  # fmt: skip
def unique_consecutive(
    x: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """x without the repetitions of a neighbour; arguments as those of `unique`."""
    rows, along = _rows_of(x, axis, "unique_consecutive")
    builder = static_builder() if x._is_symbolic else None
    if builder is not None:
        first, inverse, counts = runs(rows, builder)
        found = _put_back(ops.gather(rows, first, axis=0), along)
        more = [(return_inverse, inverse), (return_counts, counts)]
        return _with_more(found, more, dtype)
    fresh = _first_of_runs(rows.numpy())
    place = np.flatnonzero(fresh)
    found = _put_back(ops.gather(rows, as_tensor(place), axis=0), along)
    requested = [
        (return_inverse, np.cumsum(fresh) - 1),
        (return_counts, np.diff(np.append(place, len(fresh)))),
    ]
    return _with_more(found, requested, dtype)
