"""Sums, means, extremes and truth of arrays, of the array API standard.

An axis may be a number, a tuple or None, which is all axes; keepdims leaves those axes
with size 1.
"""

from __future__ import annotations

import math
from typing import Any

from proa._core import Tensor, ops
from proa.array_api.arrays import axis_number, axis_numbers, require_tensor
from proa.base.dtype import DTypeLike, as_dtype, dtype
from proa.errors import InvalidTypeError

__all__ = [
    "all", "any", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var",
]  # fmt: skip

_Axis = int | tuple[int, ...] | None


def _sum_dtype(x: Tensor, wanted: DTypeLike | None) -> dtype:
    """int64 of integers and booleans; other arrays keep theirs."""
    if wanted is not None:
        return as_dtype(wanted)
    return x.dtype if x.dtype.is_floating or x.dtype.is_complex else as_dtype("int64")


def _reduced(where: str, x: Tensor, axis: _Axis, keepdims: bool, reduce: Any) -> Tensor:
    """``reduce`` over the axes; a copy, if an empty tuple names none."""
    axes = axis_numbers(where, axis, require_tensor(where, x).ndim)
    if not axes and x.ndim:
        # The operators take no axes for all of them: an axis of size 1 stands for none.
        more: Tensor = reduce(ops.unsqueeze(x, axis=[0]), axis=[0], keepdim=False)
        return more
    result: Tensor = reduce(x, axis=list(axes), keepdim=keepdims)
    return result


def _accumulated(
    where: str, x: Tensor, axis: _Axis, dtype: DTypeLike | None, keepdims: bool,
    reduce: Any,
) -> Tensor:  # fmt: skip
    """``reduce`` in, and to, the dtype that sums of x have."""
    kind = _sum_dtype(require_tensor(where, x), dtype)
    result = _reduced(where, ops.cast(x, dtype=kind), axis, keepdims, reduce)
    return ops.cast(result, dtype=kind)


def sum(
    x: Tensor,
    /,
    *,
    axis: _Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The sum; 0 of no elements. By default integers and booleans give int64."""
    return _accumulated("sum", x, axis, dtype, keepdims, ops.sum)


def prod(
    x: Tensor,
    /,
    *,
    axis: _Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The product; 1 of no elements. By default integers and booleans give int64."""
    return _accumulated("prod", x, axis, dtype, keepdims, ops.prod)


def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The sums of the first 1, 2, .. elements along an axis.

    Args:
        x: At least one axis.
        axis: The axis, which only an x of one axis may leave out.
        dtype: The dtype; by default as of `sum`.
        include_initial: Whether the sum of no elements, 0, is first.
    """
    rank = require_tensor("cumulative_sum", x).ndim
    if axis is None and rank != 1:
        raise InvalidTypeError(
            f"[cumulative_sum] expected an axis for {rank} axes, got None"
        )
    place = axis_number("cumulative_sum", 0 if axis is None else axis, rank)
    kind = _sum_dtype(x, dtype)
    sums = ops.cumsum(ops.cast(x, dtype=kind), axis=place)
    if not include_initial:
        return sums
    shape = [1 if i == place else size for i, size in enumerate(x.shape)]
    return ops.concat(ops.full(shape=shape, value=0, dtype=kind), sums, axis=place)


def max(x: Tensor, /, *, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """The greatest of real elements; NaN if one is.

    Raises:
        InvalidArgumentError: If there is no element.
    """
    return _reduced("max", x, axis, keepdims, ops.max)


def min(x: Tensor, /, *, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """The least of real elements; NaN if one is.

    Raises:
        InvalidArgumentError: If there is no element.
    """
    return _reduced("min", x, axis, keepdims, ops.min)


def mean(x: Tensor, /, *, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """The mean; NaN of no elements."""
    return _reduced("mean", _inexact("mean", x), axis, keepdims, ops.mean)


def var(
    x: Tensor, /, *, axis: _Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The mean of squared distances from the mean, over n - correction.

    NaN where no more than ``correction`` elements are.
    """
    given = _inexact("var", x)
    axes = axis_numbers("var", axis, x.ndim)
    count = math.prod(x.shape[a] for a in axes)
    middle = _reduced("var", given, axis, True, ops.mean)
    squares = ops.square(ops.abs(ops.sub(given, middle)))
    total = _reduced("var", squares, axis, keepdims, ops.sum)
    freedom = count - correction
    # 0 / 0 for too few elements, as for none.
    return ops.div(total, freedom) if freedom > 0 else ops.mul(total, math.nan)


def std(
    x: Tensor, /, *, axis: _Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The square root of `var`."""
    return ops.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def all(x: Tensor, /, *, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements are true (not 0); true of none."""
    return _reduced("all", x, axis, keepdims, ops.all)


def any(x: Tensor, /, *, axis: _Axis = None, keepdims: bool = False) -> Tensor:
    """Whether an element is true (not 0); false of none."""
    return _reduced("any", x, axis, keepdims, ops.any)


def _inexact(where: str, x: Tensor) -> Tensor:
    require_tensor(where, x)
    if x.dtype.is_floating or x.dtype.is_complex:
        return x
    return ops.cast(x, dtype=as_dtype("default"))
