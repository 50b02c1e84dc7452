"""Bits of integers moved up and down, by products and quotients with powers of 2."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.base.dtype import DTYPES
from proa.errors import InvalidTypeError
from proa.schema.dtypes import promote
from proa.tensor.creation import as_tensor


def _integers(where: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both in the promoted dtype; a Python int takes that of the other."""
    like = x if isinstance(x, Tensor) else y
    one, two = as_tensor(x, like), as_tensor(y, like)
    kind = DTYPES[promote(one.dtype.name, two.dtype.name)]
    if not (one.dtype.is_integer and two.dtype.is_integer):
        raise InvalidTypeError(
            f"[{where}] expected integers, got {one.dtype.name} and {two.dtype.name}"
        )
    return ops.cast(one, dtype=kind), ops.cast(two, dtype=kind)


def left_shift(x: Tensor | int, y: Tensor | int) -> Tensor:
    """The bits of x moved up by y >= 0; those beyond the width are lost."""
    number, count = _integers("left_shift", x, y)
    two = ops.full(shape=[], value=2, dtype=number.dtype)
    # Powers of 2 and products wrap, so that both lose the bits beyond the width.
    return ops.mul(number, ops.pow(two, count))


def right_shift(x: Tensor | int, y: Tensor | int) -> Tensor:
    """x divided by 2 ** y, y >= 0, and rounded down."""
    number, count = _integers("right_shift", x, y)
    two = ops.full(shape=[], value=2, dtype=number.dtype)
    # 2 ** (width - 1) is no signed integer: two divisions by less than that.
    count = ops.minimum(count, 8 * number.element_size() - 1)
    half = ops.floor_div(count, 2)
    first = ops.floor_div(number, ops.pow(two, half))
    return ops.floor_div(first, ops.pow(two, ops.sub(count, half)))
