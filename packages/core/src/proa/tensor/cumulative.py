"""Cumulative maximum, minimum and log-sum-exp along an axis."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.base.dtype import DTypeLike, as_dtype
from proa.errors import InvalidArgumentError
from proa.tensor.arguments import as_int, cast_if, normal_axis
from proa.tensor.associative_scan import associative_scan

__all__ = ["cummax", "cummin", "logaddexp", "logcumsumexp"]


def logaddexp(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """log(exp(x) + exp(y)) without overflow."""
    peak = ops.maximum(x, y)
    # Where the peak is infinite the difference may be NaN, and the peak is right.
    whole = ops.isfinite(peak)
    gap = ops.neg(ops.abs(ops.sub(x, y)))
    zero = ops.full(shape=[], value=0, dtype=gap.dtype)
    safe = ops.where(whole, gap, zero)
    more = ops.where(whole, ops.log1p(ops.exp(safe)), zero)
    return ops.add(peak, more)


def logcumsumexp(
    x: Tensor,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """log of the running sum of exp(x) along an axis, or over all elements in a row.

    Args:
        x: Real numbers.
        axis: The axis; None flattens x.
        dtype: Floating dtype to compute in; by default that of x.
    """
    y = cast_if(x, dtype)
    y = y if y.dtype.is_floating else cast_if(y, "default")
    if axis is None:
        y, axis = ops.reshape(y, shape=[-1]), 0
    along = normal_axis("logcumsumexp", as_int("logcumsumexp", axis), y.ndim)
    if y.ndim == 0:
        return ops.assign(y)
    return associative_scan((y,), along, lambda a, b: (logaddexp(a[0], b[0]),))[0]


def _extreme(
    where: str, x: Tensor, axis: int | None, dtype: DTypeLike, after: Any
) -> tuple[Tensor, Tensor]:
    """The running extremum and where it was; the last of equals."""
    kind = as_dtype(dtype)
    if kind not in ("int32", "int64"):
        raise InvalidArgumentError(
            f"[{where}] dtype must be int32 or int64, got {kind}"
        )
    if axis is None:
        x, axis = ops.reshape(x, shape=[-1]), 0
    along = normal_axis(where, axis, x.ndim)
    if x.ndim == 0:
        return ops.assign(x), ops.full(shape=[], value=0, dtype=kind)
    shape = [1] * x.ndim
    shape[along] = -1
    ramp = ops.arange(start=0, step=1, count=x.shape[along], dtype=as_dtype("int64"))
    place = ops.broadcast_like(ops.reshape(ramp, shape=shape), x)

    def join(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        later = after(b[0], a[0])
        if x.dtype.is_floating:  # a NaN stays
            later = ops.logical_or(later, ops.isnan(b[0]))
            later = ops.logical_and(
                later, ops.logical_or(ops.isnan(b[0]), ops.logical_not(ops.isnan(a[0])))
            )
        return ops.where(later, b[0], a[0]), ops.where(later, b[1], a[1])

    _, index = associative_scan((x.detach(), place), along, join)
    return ops.take_along_axis(x, index, axis=along), cast_if(index, kind)


def cummax(
    x: Tensor,
    axis: int | None = None,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The greatest element so far along an axis, and its place (the last of equals)."""
    return _extreme("cummax", x, axis, dtype, ops.greater_equal)


def cummin(
    x: Tensor,
    axis: int | None = None,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The least element so far along an axis, and its place (the last of equals)."""
    return _extreme("cummin", x, axis, dtype, ops.less_equal)
