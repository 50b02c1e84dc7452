"""How the functions of `proa` read their arguments: ints, axes, dtypes, arrays."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from proa import _core
from proa._core import Tensor, ops
from proa.base.dtype import DTypeLike, as_dtype
from proa.errors import (
    InvalidArgumentError,
    InvalidCountError,
    ResourceExhaustedError,
    ShapeError,
)
from proa.tensor.symbolic_dims import SymbolicDim

F = TypeVar("F", bound=Callable[..., Any])
#: A shape or a list of ints: a Tensor of ints, or a sequence of ints and 0-d Tensors.
IntsLike: TypeAlias = Tensor | int | Sequence[int | Tensor]
AxisLike: TypeAlias = int | Sequence[int] | Tensor | None


def as_int(where: str, value: Any) -> int:
    """One integer from an int, a NumPy integer or a Tensor of one element."""
    if type(value) is int:
        return value
    if isinstance(value, Tensor):
        number = value.item()
        if isinstance(number, complex) or not math.isfinite(number):
            raise InvalidArgumentError(f"[{where}] expected an integer, got {number}")
        return int(number)
    if isinstance(value, SymbolicDim):
        raise InvalidArgumentError(
            f"[{where}] expected a known number, got a symbolic dimension: give its "
            "size in InputSpec"
        )
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidArgumentError(
            f"[{where}] expected an integer, got {value!r}"
        ) from None


def as_count(where: str, name: str, value: Any, size: int = 1) -> int:
    """A count of things of at least ``size`` bytes each.

    Raises:
        ResourceExhaustedError: Memory cannot hold as many; none is allocated.
    """
    count, limit = as_int(where, value), _core.memory_limit()
    if count * size > limit:
        raise ResourceExhaustedError(
            f"[{where}] expected {name} to fit in memory ({limit} bytes), got {count} "
            f"of at least {size} bytes each"
        )
    return count


def as_ints(where: str, value: IntsLike) -> list[int]:
    """A list of integers, one if a single integer was given."""
    plain = _core.plain_ints(value)
    if plain is not None:
        return plain
    if isinstance(value, Tensor):
        flat = value.numpy().reshape(-1)
        if flat.dtype.kind not in "iu":
            raise InvalidArgumentError(
                f"[{where}] a Tensor in place of ints must hold integers, "
                f"got {value.dtype}"
            )
        return [int(v) for v in flat]
    given: Any = value
    if isinstance(given, np.ndarray):
        given = given.reshape(-1).tolist()
    if isinstance(given, (list, tuple)):
        return [as_int(where, v) for v in given]
    return [as_int(where, given)]


def as_axes(where: str, axis: AxisLike) -> list[int]:
    """The axes of a reduction; none (every axis) for None."""
    return [] if axis is None else as_ints(where, axis)


def normal_axis(where: str, axis: int, rank: int) -> int:
    """``axis`` counted from the front."""
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise InvalidArgumentError(
            f"[{where}] axis must be in [{-max(rank, 1)}, {max(rank, 1)}), got {axis}"
        )
    return axis % max(rank, 1)


def present_axis(where: str, axis: int, rank: int) -> int:
    """`normal_axis` of a tensor that must not be 0-d."""
    if rank == 0:
        raise InvalidArgumentError(
            f"[{where}] expected a tensor with at least 1 axis, got a 0-d tensor"
        )
    return normal_axis(where, axis, rank)


def check_rank(where: str, name: str, x: Tensor, low: int, high: int = 8) -> None:
    """Raise unless the number of axes of ``x`` is from ``low`` to ``high``."""
    if low <= x.ndim <= high:
        return
    axes = f"{low} axes" if low == high else f"{low} to {high} axes"
    if high == 8:
        axes = f"at least {low} {'axis' if low == 1 else 'axes'}"
    raise ShapeError(f"[{where}] expected {name} with {axes}, got shape {x.shape}")


def as_size(where: str, name: str, value: Any) -> int:
    """An integer of at least 0."""
    try:
        count = as_int(where, value)
    except InvalidArgumentError:
        count = -1
    if count < 0:
        raise InvalidCountError(
            f"[{where}] expected {name} to be an integer of at least 0, got {value!r}"
        )
    return count


def cast_if(x: Tensor, dtype: DTypeLike | None) -> Tensor:
    """``x`` in ``dtype``; ``x`` itself if it has that dtype or none is requested."""
    if dtype is None:
        return x
    wanted = as_dtype(dtype)
    return x if x.dtype is wanted else ops.cast(x, dtype=wanted)


def written(result: Tensor, out: Tensor | None) -> Tensor:
    """``result``, copied into ``out`` if that is given."""
    return result if out is None else out.set_value(result)


def renamed(**names: str) -> Callable[[F], F]:
    """Let a function take keywords by their names in another version: new="old"."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def called(*args: Any, **keywords: Any) -> Any:
            for new, old in names.items():
                if old in keywords:
                    keywords[new] = keywords.pop(old)
            return function(*args, **keywords)

        return called  # type: ignore[return-value]  # the same signature and more

    return decorate


def is_floating(x: Tensor) -> bool:
    """Whether x holds real or complex floating numbers."""
    return x.dtype.is_floating or x.dtype.is_complex
