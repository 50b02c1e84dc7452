"""Resizing to sizes that are unknown while a graph is recorded."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.tensor.creation import arange
from proa.tensor.symbolic_dims import SymbolicDim, number_of


def resized(
    x: Tensor, axis: int, size: Any, mode: str, corners: bool = False, half: bool = True
) -> Tensor:
    """`ops.resize_axis` to a size that may be a symbolic dimension.

    A symbolic size is resampled by gathers: all taps are read, also those of weight 0.

    Args:
        mode: nearest, linear or cubic.
        corners, half: As those of `ops.resize_axis`.
    """
    if not isinstance(size, SymbolicDim):
        kind: Any = mode
        return ops.resize_axis(
            x, axis=axis, size=int(size), scale=0.0, mode=kind, corners=corners,
            half=half,
        )  # fmt: skip
    count = ops.cast(size.number(), dtype="float64")
    length = ops.cast(number_of(x.shape[axis]), dtype="float64")
    index = arange(size, dtype="int64")
    last = ops.cast(ops.sub(length, 1.0), dtype="int64")
    ratio = _ratio(length, count, corners)
    if mode == "nearest":
        place = _nearest(ratio, index, corners)
        return ops.gather(x, ops.minimum(place, last), axis=axis)
    place = ops.cast(index, dtype="float64")
    if not corners and (half or mode == "cubic"):
        place = ops.sub(ops.mul(ops.add(place, 0.5), ratio), 0.5)
    else:
        place = ops.mul(place, ratio)
    if mode == "linear":
        place = ops.maximum(place, 0.0)
    whole = ops.floor(place)
    return _weighted(x, axis, ops.cast(whole, dtype="int64"), last,
                     _weights(ops.sub(place, whole), mode))  # fmt: skip


def _ratio(length: Tensor, count: Tensor, corners: bool) -> Tensor:
    """Elements of x for one of the result; 0 for a result of one element."""
    if corners:
        length, count = ops.sub(length, 1.0), ops.sub(count, 1.0)
        some = ops.greater_than(count, 0.0)
    else:
        some = ops.greater_than(count, 1.0)
    ratio = ops.div(length, ops.maximum(count, 1.0))
    return ops.where(some, ratio, 0.0)


def _nearest(ratio: Tensor, index: Tensor, corners: bool) -> Tensor:
    # In float32, as the kernel does it, so that the same element is chosen.
    place = ops.mul(ops.cast(ratio, dtype="float32"), ops.cast(index, dtype="float32"))
    place = ops.add(place, 0.5) if corners else place
    return ops.cast(ops.floor(place), dtype="int64")


def _weights(d: Tensor, mode: str) -> list[tuple[int, Tensor]]:
    """(which element after the one at or before the place, weight) for distances d."""
    rest = ops.sub(1.0, d)
    if mode == "linear":
        return [(0, rest), (1, d)]
    outer, inner = _outer, _inner
    return [(-1, outer(d)), (0, inner(d)), (1, inner(rest)), (2, outer(rest))]


def _inner(d: Tensor) -> Tensor:
    """Keys's kernel for a = -0.75 at a distance d: 1.25 d^3 - 2.25 d^2 + 1."""
    square = ops.mul(d, d)
    return ops.add(ops.mul(ops.sub(ops.mul(d, 1.25), 2.25), square), 1.0)


def _outer(d: Tensor) -> Tensor:
    """Keys's kernel at a distance 1 + d: -0.75 d^3 + 1.5 d^2 - 0.75 d."""
    scaled = ops.mul(d, -0.75)
    rest = ops.sub(d, 1.0)
    return ops.mul(scaled, ops.mul(rest, rest))


def _weighted(
    x: Tensor, axis: int, first: Tensor, last: Tensor, taps: list[tuple[int, Tensor]]
) -> Tensor:
    shape = [1] * x.ndim
    shape[axis] = -1
    total: Tensor | None = None
    for step, weight in taps:
        place = ops.minimum(ops.maximum(ops.add(first, step), 0), last)
        part = ops.mul(
            ops.gather(x, place, axis=axis),
            ops.cast(ops.reshape(weight, shape=shape), dtype=x.dtype),
        )
        total = part if total is None else ops.add(total, part)
    assert total is not None
    return total
