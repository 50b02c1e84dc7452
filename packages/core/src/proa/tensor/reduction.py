"""Reductions. A reduction over every axis gives a 0-d tensor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, cast, overload

import numpy as np

from proa._core import Tensor, ops
from proa.base.dtype import DTypeLike, as_dtype
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.tensor.arguments import AxisLike, as_axes, as_int, cast_if, present_axis
from proa.tensor.creation import to_tensor
from proa.tensor.symbolic_dims import Sizes, has_symbolic_dims

if TYPE_CHECKING:
    from proa.base.typing import MaybeIndices

__all__ = [
    "all", "amax", "amin", "any", "count_nonzero", "logsumexp", "max", "mean",
    "median", "min", "nanmean", "nansum", "numel", "prod", "rank", "shape", "std",
    "sum", "var",
]  # fmt: skip


def sum(
    x: Tensor,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    keepdim: bool = False,
    name: str | None = None,
) -> Tensor:
    """Sum of elements; bool and integers add up in int64."""
    y = ops.sum(cast_if(x, dtype), axis=as_axes("sum", axis), keepdim=keepdim)
    return cast_if(y, dtype)


def mean(
    x: Tensor,
    axis: AxisLike = None,
    keepdim: bool = False,
    name: str | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Arithmetic mean; dtype is what is summed in and returned."""
    return ops.mean(cast_if(x, dtype), axis=as_axes("mean", axis), keepdim=keepdim)


def max(
    x: Tensor, axis: AxisLike = None, keepdim: bool = False, name: str | None = None
) -> Tensor:
    """Greatest element; equal ones share the gradient."""
    return ops.max(x, axis=as_axes("max", axis), keepdim=keepdim)


def min(
    x: Tensor, axis: AxisLike = None, keepdim: bool = False, name: str | None = None
) -> Tensor:
    """Least element; equal ones share the gradient."""
    return ops.min(x, axis=as_axes("min", axis), keepdim=keepdim)


amax = max
amin = min


def prod(
    x: Tensor,
    axis: AxisLike = None,
    keepdim: bool = False,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Product of elements; integers multiply in int64."""
    y = ops.prod(cast_if(x, dtype), axis=as_axes("prod", axis), keepdim=keepdim)
    return cast_if(y, dtype)


def all(
    x: Tensor, axis: AxisLike = None, keepdim: bool = False, name: str | None = None
) -> Tensor:
    """Whether all are non-zero."""
    return ops.all(x, axis=as_axes("all", axis), keepdim=keepdim)


def any(
    x: Tensor, axis: AxisLike = None, keepdim: bool = False, name: str | None = None
) -> Tensor:
    """Whether any is non-zero."""
    return ops.any(x, axis=as_axes("any", axis), keepdim=keepdim)


def logsumexp(
    x: Tensor, axis: AxisLike = None, keepdim: bool = False, name: str | None = None
) -> Tensor:
    """log(sum(exp(x))), safe from overflow."""
    return ops.logsumexp(x, axis=as_axes("logsumexp", axis), keepdim=keepdim)


def var(
    x: Tensor,
    axis: AxisLike = None,
    unbiased: bool = True,
    keepdim: bool = False,
    name: str | None = None,
) -> Tensor:
    """Variance; unbiased divides by n - 1."""
    axes = as_axes("var", axis)
    centred = ops.sub(x, ops.mean(x, axis=axes, keepdim=True))
    if x.dtype.is_complex:
        centred = ops.abs(centred)  # the variance of both parts together, real
    spread = ops.mean(ops.square(centred), axis=axes, keepdim=keepdim)
    if not unbiased:
        return spread
    count = 1
    if x.ndim > 0:  # an axis of a 0-d tensor, 0 or -1, has one element
        for a in axes or range(x.ndim):
            count *= x.shape[a]
    return ops.mul(spread, count / (count - 1) if count > 1 else float("nan"))


def std(
    x: Tensor,
    axis: AxisLike = None,
    unbiased: bool = True,
    keepdim: bool = False,
    name: str | None = None,
) -> Tensor:
    """Standard deviation; unbiased divides by n - 1."""
    return ops.sqrt(var(x, axis, unbiased, keepdim))


@overload
def median(
    x: Tensor, axis: int | None = ..., keepdim: bool = ..., name: str | None = ...,
    *, mode: Literal["avg"] = ...,
) -> Tensor: ...  # fmt: skip
@overload
def median(
    x: Tensor, axis: None = ..., keepdim: bool = ..., name: str | None = ...,
    *, mode: str,
) -> Tensor: ...  # fmt: skip
@overload
def median(
    x: Tensor, axis: int, keepdim: bool = ..., name: str | None = ...,
    *, mode: Literal["min"],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def median(
    x: Tensor, axis: int | None = ..., keepdim: bool = ..., name: str | None = ...,
    *, mode: str,
) -> MaybeIndices: ...  # fmt: skip
def median(
    x: Tensor,
    axis: int | None = None,
    keepdim: bool = False,
    name: str | None = None,
    *,
    mode: str = "avg",
) -> MaybeIndices:
    """The middle element. Of two middle ones the mean, or by mode "min" the lesser,
    which comes with its index where an axis is given.
    """
    if not isinstance(x, Tensor):
        raise InvalidTypeError(f"[median] x must be a Tensor, got {type(x).__name__!r}")
    if mode not in ("avg", "min"):
        raise InvalidArgumentError(
            f"[median] mode must be 'avg' or 'min', got {mode!r}"
        )
    y = x if axis is not None else ops.reshape(x, shape=[-1])
    along = 0
    if axis is not None:
        along = present_axis("median", as_int("median", axis), y.ndim)
    n = y.shape[along]
    if n == 0:
        raise InvalidArgumentError(
            "[median] expected a tensor that is not empty, got one without elements"
        )
    lesser = mode == "min"
    wide = cast_if(y, None if lesser or y.dtype.is_floating else as_dtype("default"))
    order, places = ops.sort(wide, axis=along)
    end = (n - 1) // 2 + 1 if lesser else n // 2 + 1
    begin = (n - 1) // 2
    middle = [
        ops.slice(part, axes=[along], starts=[begin], ends=[end], steps=[1])
        for part in (order, places)
    ]
    if not lesser:
        result = ops.mean(middle[0], axis=[along], keepdim=keepdim)
    else:
        result, index = (
            part if keepdim else ops.squeeze(part, axis=[along]) for part in middle
        )
        if axis is not None:
            return result, index
    if axis is None and keepdim:
        return ops.reshape(result, shape=[1] * x.ndim)
    return result


def nansum(
    x: Tensor,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    keepdim: bool = False,
    name: str | None = None,
) -> Tensor:
    """Sum with NaN counted as 0."""
    zero = ops.full(shape=[], value=0, dtype=x.dtype)
    return sum(ops.where(ops.isnan(x), zero, x), axis, dtype, keepdim)


def nanmean(
    x: Tensor, axis: AxisLike = None, keepdim: bool = False, name: str | None = None
) -> Tensor:
    """Mean of the elements that are not NaN."""
    there = ops.cast(ops.logical_not(ops.isnan(x)), dtype=x.dtype)
    count = ops.sum(there, axis=as_axes("nanmean", axis), keepdim=keepdim)
    return ops.div(nansum(x, axis, None, keepdim), count)


def count_nonzero(
    x: Tensor, axis: AxisLike = None, keepdim: bool = False, name: str | None = None
) -> Tensor:
    """Number of non-zero elements."""
    hit = ops.not_equal(x, 0) if x.dtype != "bool" else x
    return ops.sum(hit, axis=as_axes("count_nonzero", axis), keepdim=keepdim)


def numel(x: Tensor, name: str | None = None) -> Tensor:
    """Number of elements, as a 0-d int64 tensor."""
    if has_symbolic_dims(x.shape):
        return cast(Tensor, math.prod(x.shape).astype("int64"))
    return ops.full(shape=[], value=x.size, dtype=as_dtype("int64"))


def shape(input: Tensor) -> Tensor:
    """The dimensions as an int32 tensor.

    While a graph is recorded in which one of them is open, the list of them, which can
    be used as that tensor and whose elements can be part of other shapes.
    """
    sizes = input.shape
    if has_symbolic_dims(sizes):
        return cast(Tensor, Sizes(sizes))
    return to_tensor(np.array(sizes, np.int32))


def rank(input: Tensor) -> Tensor:
    """The number of axes as a 0-d int32 tensor."""
    return ops.full(shape=[], value=input.ndim, dtype=as_dtype("int32"))
