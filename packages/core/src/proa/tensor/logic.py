"""Comparison, logic, and tests of whole tensors."""

from __future__ import annotations

import math
from typing import Any

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.tensor.arguments import written
from proa.tensor.creation import as_tensor
from proa.tensor.symbolic_dims import has_symbolic_dims

__all__ = [
    "allclose", "equal_all", "is_complex", "is_empty", "is_floating_point",
    "is_integer", "is_tensor", "isclose", "logical_and", "logical_not", "logical_or",
    "logical_xor",
]  # fmt: skip


def logical_and(
    x: Tensor, y: Tensor, out: Tensor | None = None, name: str | None = None
) -> Tensor:
    """True where both are non-zero."""
    return written(ops.logical_and(x, y), out)


def logical_or(
    x: Tensor, y: Tensor, out: Tensor | None = None, name: str | None = None
) -> Tensor:
    """True where either is non-zero."""
    return written(ops.logical_or(x, y), out)


def logical_xor(
    x: Tensor, y: Tensor, out: Tensor | None = None, name: str | None = None
) -> Tensor:
    """True where exactly one is non-zero."""
    return written(ops.logical_xor(x, y), out)


def logical_not(
    x: Tensor, out: Tensor | None = None, name: str | None = None
) -> Tensor:
    """True where x is zero or False."""
    return written(ops.logical_not(x), out)


def isclose(
    x: Tensor,
    y: Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Tensor:
    """Where |x - y| <= atol + rtol * |y|."""
    y = as_tensor(y, x)
    bound = ops.add(ops.mul(ops.abs(y), float(rtol)), float(atol))
    close = ops.less_equal(ops.abs(ops.sub(x, y)), bound)
    # Infinite y would make any bound infinite: there only equality counts.
    close = ops.logical_and(close, ops.isfinite(y))
    close = ops.logical_or(close, ops.equal(x, y))
    if equal_nan:
        close = ops.logical_or(close, ops.logical_and(ops.isnan(x), ops.isnan(y)))
    return close


def allclose(
    x: Tensor,
    y: Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Tensor:
    """Whether all elements are close, a 0-d bool."""
    return ops.all(isclose(x, y, rtol, atol, equal_nan))


def equal_all(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """Whether shapes and all elements agree, a 0-d bool."""
    if x.shape != y.shape:
        return ops.full(shape=[], value=False, dtype=as_dtype("bool"))
    return ops.all(ops.equal(x, y))


def is_tensor(x: object) -> bool:
    """Whether x is a Tensor."""
    return isinstance(x, Tensor)


def is_empty(x: Tensor, name: str | None = None) -> Tensor:
    """Whether x has no element, a 0-d bool."""
    if has_symbolic_dims(x.shape) and 0 not in x.shape:
        sizes: Any = math.prod(x.shape)
        return ops.equal(sizes.astype("int64"), 0)
    return ops.full(shape=[], value=x.size == 0, dtype=as_dtype("bool"))


def is_floating_point(x: Tensor) -> bool:
    """Whether x holds real floating numbers."""
    return x.dtype.is_floating


def is_complex(x: Tensor) -> bool:
    """Whether x holds complex numbers."""
    return x.dtype.is_complex


def is_integer(x: Tensor) -> bool:
    """Whether x holds integers."""
    return x.dtype.is_integer
