"""Products of matrices and vectors, of the array API standard."""

from __future__ import annotations

import math
from collections.abc import Sequence

from proa._core import Tensor, ops
from proa.array_api.arrays import axis_number, axis_numbers, require_tensor
from proa.array_api.data_types import result_type
from proa.array_api.manipulation import reshape
from proa.base.dtype import as_dtype, dtype
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor import math as _math

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def _multiplied(x1: Tensor, x2: Tensor, kind: dtype) -> Tensor:
    """The matrix product; of narrow integers modulo 2 ** bits, as their products."""
    narrow = kind.name in ("uint8", "int8", "int16")
    wide = as_dtype("int32") if narrow else kind
    product = _math.matmul(ops.cast(x1, dtype=wide), ops.cast(x2, dtype=wide))
    return ops.cast(product, dtype=kind)


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product over the last two axes; those before them broadcast.

    Args:
        x1: (.., m, k), or (k,) as a row whose axis is removed from the result.
        x2: (.., k, n), or (k,) as a column whose axis is removed from the result.

    Raises:
        ShapeError: If an array has no axis.
    """
    kind = result_type(require_tensor("matmul", x1), require_tensor("matmul", x2))
    return _multiplied(x1, x2, kind)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged: (.., m, n) -> (.., n, m)."""
    if require_tensor("matrix_transpose", x).ndim < 2:
        raise ShapeError("matrix_transpose", "at least 2 axes", x.shape)
    return ops.swap_last(x)


def _contracted(
    x1: Tensor, x2: Tensor, axes: int | tuple[Sequence[int], Sequence[int]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of each over which `tensordot` sums."""
    if isinstance(axes, int):
        if not 0 <= axes <= min(x1.ndim, x2.ndim):
            raise InvalidArgumentError(
                f"[tensordot] axes must be in [0, {min(x1.ndim, x2.ndim)}], got {axes}"
            )
        return tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes))
    first = axis_numbers("tensordot", tuple(axes[0]), x1.ndim)
    second = axis_numbers("tensordot", tuple(axes[1]), x2.ndim)
    sizes = [x1.shape[a] for a in first], [x2.shape[a] for a in second]
    if sizes[0] != sizes[1]:
        raise ShapeError("tensordot", f"sizes {sizes[0]} along axes", sizes[1])
    return first, second


def tensordot(
    x1: Tensor,
    x2: Tensor,
    /,
    *,
    axes: int | tuple[Sequence[int], Sequence[int]] = 2,
) -> Tensor:
    """The sum of products over pairs of axes; no conjugates are taken.

    Args:
        x1: The first array.
        x2: The second array.
        axes: How many of the last axes of x1 and the first of x2, in order; or the axes
            of x1 and those of x2, of which the i-th go together.

    Returns:
        The axes of x1 and then of x2 that are not summed over.
    """
    kind = result_type(require_tensor("tensordot", x1), require_tensor("tensordot", x2))
    first, second = _contracted(x1, x2, axes)
    rows = [a for a in range(x1.ndim) if a not in first]
    columns = [a for a in range(x2.ndim) if a not in second]
    shape = [x1.shape[a] for a in rows] + [x2.shape[a] for a in columns]
    inner = math.prod(x1.shape[a] for a in first)
    left = ops.transpose(x1, perm=[*rows, *first])
    right = ops.transpose(x2, perm=[*second, *columns])
    left = reshape(left, (math.prod(x1.shape[a] for a in rows), inner))
    right = reshape(right, (inner, math.prod(x2.shape[a] for a in columns)))
    return reshape(_multiplied(left, right, kind), tuple(shape))


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sum of conj(x1) * x2 along an axis of one size; the others broadcast.

    Raises:
        ShapeError: If the sizes along the axis differ.
    """
    kind = result_type(require_tensor("vecdot", x1), require_tensor("vecdot", x2))
    one, two = (
        _axis_last(ops.cast(x, dtype=kind), axis_number("vecdot", axis, x.ndim))
        for x in (x1, x2)
    )
    if one.shape[-1] != two.shape[-1]:
        raise ShapeError("vecdot", f"{one.shape[-1]} along the axis", two.shape[-1:])
    product = ops.mul(ops.conj(one) if kind.is_complex else one, two)
    return ops.cast(ops.sum(product, axis=[-1]), dtype=kind)


def _axis_last(x: Tensor, axis: int) -> Tensor:
    order = [a for a in range(x.ndim) if a != axis]
    return ops.transpose(x, perm=[*order, axis])
