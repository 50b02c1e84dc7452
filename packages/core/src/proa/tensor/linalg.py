"""Norms, distances and small matrix work."""

from __future__ import annotations

import math
from typing import Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.tensor.arguments import as_ints

__all__ = ["cross", "dist", "norm", "t"]


def _p_norm(x: Tensor, p: float, axis: list[int], keepdim: bool) -> Tensor:
    size = ops.abs(x)
    if p == math.inf:
        return ops.max(size, axis=axis, keepdim=keepdim)
    if p == -math.inf:
        return ops.min(size, axis=axis, keepdim=keepdim)
    if p == 0:
        hit = ops.cast(ops.not_equal(size, 0.0), dtype=size.dtype)
        return ops.sum(hit, axis=axis, keepdim=keepdim)
    if p == 1:
        return ops.sum(size, axis=axis, keepdim=keepdim)
    if p == 2:
        total = ops.sum(ops.square(size), axis=axis, keepdim=keepdim)
    else:
        total = ops.sum(ops.pow(size, float(p)), axis=axis, keepdim=keepdim)

    # The root has no slope at 0; there the gradient is taken as 0 instead of NaN.
    nought = ops.equal(total, 0.0)
    one = ops.full(shape=[], value=1, dtype=total.dtype)
    zero = ops.full(shape=[], value=0, dtype=total.dtype)
    safe = ops.where(nought, one, total)
    root = ops.sqrt(safe) if p == 2 else ops.pow(safe, 1.0 / p)
    return ops.where(nought, zero, root)


def norm(
    x: Tensor,
    p: float | str = "fro",
    axis: Any = None,
    keepdim: bool = False,
    name: Any = None,
) -> Tensor:
    """Vector norm over the axes, by default all; "fro" is the 2-norm."""
    if isinstance(p, str):
        if p != "fro":
            raise InvalidArgumentError(f"[norm] p must be 'fro' or a number, got {p!r}")
        p = 2.0
    axes = [] if axis is None else as_ints("norm", axis)
    return _p_norm(x, float(p), axes, keepdim)


def dist(x: Tensor, y: Tensor, p: float = 2, name: Any = None) -> Tensor:
    """The p-norm of x - y."""
    return _p_norm(ops.sub(x, y), float(p), [], False)


def t(input: Tensor, name: Any = None) -> Tensor:
    """The transpose of a matrix; vectors and scalars as they are."""
    if input.ndim > 2:
        raise InvalidArgumentError(f"[t] rank must be at most 2, got {input.ndim}")
    return ops.swap_last(input) if input.ndim == 2 else ops.assign(input)


def cross(x: Tensor, y: Tensor, axis: int | None = None, name: Any = None) -> Tensor:
    """Cross product along an axis of size 3 (by default the first such)."""
    if axis is None or axis == 9:
        found = [i for i, n in enumerate(x.shape) if n == 3]
        if not found:
            raise InvalidArgumentError(
                f"[cross] x must have an axis of size 3, got {x.shape}"
            )
        axis = found[0]
    a = [ops.select(x, axis=axis, index=i) for i in range(3)]
    b = [ops.select(y, axis=axis, index=i) for i in range(3)]
    parts = [
        ops.sub(ops.mul(a[i], b[j]), ops.mul(a[j], b[i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return ops.stack(*parts, axis=axis)
