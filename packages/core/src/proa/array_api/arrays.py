"""What the functions of the namespace require of their arguments."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from proa._core import Tensor, ops
from proa.base.device import check_place
from proa.errors import InvalidArgumentError, InvalidTypeError, OutOfRangeError


def require_tensor(where: str, x: object) -> Tensor:
    """x, if it is a Tensor.

    Raises:
        InvalidTypeError: If it is none: other arrays go through `asarray`.
    """
    if not isinstance(x, Tensor):
        raise InvalidTypeError(
            f"[{where}] expected a Tensor, got {type(x).__name__}: use asarray"
        )
    return x


def require_tensors(where: str, arrays: object) -> list[Tensor]:
    """The Tensors of a list or tuple of at least one."""
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise InvalidArgumentError(
            f"[{where}] expected a list or tuple of Tensors, got {arrays!r:.80}"
        )
    return [require_tensor(where, x) for x in arrays]


def flat(x: Tensor) -> Tensor:
    """The elements in row-major order along one axis."""
    return ops.reshape(x, shape=[-1])


def check_device(where: str, device: object) -> None:
    """Raise unless the device is None or the CPU."""
    check_place(where, device)


def axis_number(where: str, axis: Any, rank: int) -> int:
    """An axis of an array of that rank, counted from 0.

    Raises:
        OutOfRangeError: If there is no such axis.
    """
    try:
        number = operator.index(axis)
    except TypeError:
        raise InvalidTypeError(
            f"[{where}] axis must be an int, got {type(axis).__name__}"
        ) from None
    if not -rank <= number < rank:
        raise OutOfRangeError(
            f"[{where}] axis must be in [{-rank}, {rank}), got {number}"
        )
    return number % rank


def axis_numbers(
    where: str, axis: int | Sequence[int] | None, rank: int
) -> tuple[int, ...]:
    """The axes that are named, each once, counted from 0; all for None."""
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    numbers = tuple(axis_number(where, each, rank) for each in given)
    if len(set(numbers)) != len(numbers):
        raise InvalidArgumentError(f"[{where}] axis must name each axis once: {axis}")
    return numbers
