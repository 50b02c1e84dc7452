"""Quantiles and medians, also of the elements that are not NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.errors import InvalidArgumentError
from proa.tensor.arguments import as_ints, cast_if, normal_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proa.tensor.arguments import AxisLike

__all__ = ["nanmedian", "nanquantile", "quantile"]


def _lines(where: str, x: Tensor, axis: Any) -> tuple[Tensor, list[int]]:
    """The elements to rank along a new last axis, in order; the axes they came from."""
    axes = list(range(x.ndim)) if axis is None else as_ints(where, axis)
    axes = [normal_axis(where, a, x.ndim) for a in axes] if x.ndim else []
    rest = [a for a in range(x.ndim) if a not in axes]
    y = x if x.dtype.is_floating else cast_if(x, "default")
    y = ops.transpose(y, perm=rest + axes)
    shape = [x.shape[a] for a in rest]
    count = 1
    for a in axes:
        count *= x.shape[a]
    if count == 0:
        raise InvalidArgumentError(
            f"[{where}] expected a tensor that is not empty, got {x.shape}"
        )
    return ops.sort(ops.reshape(y, shape=[*shape, count]), axis=-1)[0], axes


def _at(order: Tensor, place: Tensor) -> Tensor:
    """Elements of sorted lines at fractional places, interpolated; NaN stays."""
    low = ops.floor(place)
    share = cast_if(ops.sub(place, low), order.dtype)
    index = ops.cast(low, dtype=as_dtype("int64"))
    above = ops.cast(ops.ceil(place), dtype=as_dtype("int64"))
    a = ops.take_along_axis(order, index, axis=-1)
    b = ops.take_along_axis(order, above, axis=-1)
    return ops.add(a, ops.mul(share, ops.sub(b, a)))


def _ranked(
    where: str, x: Tensor, q: Any, axis: Any, keepdim: bool, skip: bool
) -> Tensor:
    many = isinstance(q, (list, tuple)) or (isinstance(q, Tensor) and q.ndim > 0)
    raw = q.tolist() if isinstance(q, Tensor) else q
    shares: Sequence[float] = list(raw) if many else [raw]
    if not all(0 <= s <= 1 for s in shares):
        raise InvalidArgumentError(f"[{where}] q must be in [0, 1], got {q}")
    order, axes = _lines(where, x, axis)
    n = order.shape[-1]
    lost = ops.isnan(order)
    results = []
    for share in shares:
        if skip:
            there = ops.sum(ops.logical_not(lost), axis=[-1], keepdim=True)
            last = ops.cast(ops.sub(there, 1), dtype=as_dtype("float64"))
            place = ops.mul(ops.maximum(last, 0.0), share)
        else:
            shape = [*order.shape[:-1], 1]
            place = ops.full(
                shape=shape, value=share * (n - 1), dtype=as_dtype("float64")
            )
        found = _at(order, place)
        if not skip:
            nan = ops.full(shape=[], value=float("nan"), dtype=order.dtype)
            hit = ops.any(lost, axis=[-1], keepdim=True)
            found = ops.where(hit, nan, found)
        found = ops.squeeze(found, axis=[-1])
        results.append(ops.unsqueeze(found, axis=sorted(axes)) if keepdim else found)
    return ops.stack(*results, axis=0) if many else results[0]


def quantile(
    x: Tensor,
    q: float | Sequence[float] | Tensor,
    axis: AxisLike = None,
    keepdim: bool = False,
    name: str | None = None,
) -> Tensor:
    """The q-quantile of the elements, interpolated between neighbours.

    Args:
        x: Real numbers; a line with a NaN gives NaN.
        q: A number in [0, 1], or several, which make a first axis of the result.
        axis: An axis or several; None takes all elements.
        keepdim: Whether the axes stay with size 1.
    """
    return _ranked("quantile", x, q, axis, keepdim, False)


def nanquantile(
    x: Tensor,
    q: float | Sequence[float] | Tensor,
    axis: AxisLike = None,
    keepdim: bool = False,
    name: str | None = None,
) -> Tensor:
    """`quantile` of the elements that are not NaN; NaN if there is none."""
    return _ranked("nanquantile", x, q, axis, keepdim, True)


def nanmedian(
    x: Tensor, axis: AxisLike = None, keepdim: bool = False, name: str | None = None
) -> Tensor:
    """The median of the elements that are not NaN; NaN if there is none."""
    return _ranked("nanmedian", x, 0.5, axis, keepdim, True)
