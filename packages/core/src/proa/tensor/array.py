"""Lists of tensors that grow, by the functions that Paddle has for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from proa._core import Tensor
from proa.base.dtype import as_dtype
from proa.base.mode import static_builder
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    OutOfRangeError,
    UnimplementedError,
)
from proa.tensor.creation import full

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike

__all__ = ["array_length", "array_read", "array_write", "create_array"]


def _index(where: str, i: Any) -> int:
    if not isinstance(i, Tensor) or i.size != 1:
        raise InvalidTypeError(f"[{where}] i must be a Tensor of one element, got {i}")
    builder = static_builder() if i._is_symbolic else None
    known = i if builder is None else builder.known(i)
    if known is None:
        raise UnimplementedError(
            f"[{where}] a static program expects i that is known when it is built, got "
            f"the Variable {i.name!r}, which follows from data or changes in a loop"
        )
    at = int(known)
    if at < 0:
        raise OutOfRangeError(f"[{where}] i must not be negative, got {at}")
    return at


def _listed(where: str, array: Any) -> list[Tensor]:
    if not isinstance(array, list):
        raise InvalidTypeError(
            f"[{where}] array must be a list of Tensors, got {type(array).__name__}"
        )
    return array


def create_array(
    dtype: DTypeLike = "float32", initialized_list: Sequence[Tensor] | None = None
) -> list[Tensor]:
    """A list for `array_write`, with these tensors in it.

    Raises:
        InvalidTypeError: If one of them is no Tensor.
        InvalidArgumentError: If one has another dtype.
    """
    kind = as_dtype(dtype)
    made = list(initialized_list or ())
    for x in made:
        if not isinstance(x, Tensor):
            raise InvalidTypeError(
                "[create_array] initialized_list must hold Tensors, "
                f"got {type(x).__name__}"
            )
        if x.dtype != kind:
            raise InvalidArgumentError(
                f"[create_array] tensors must be {kind.name}, got {x.dtype.name}"
            )
    return made


def array_write(
    x: Tensor, i: Tensor, array: list[Tensor] | None = None
) -> list[Tensor]:
    """Put x at place i of the list, which must have i tensors at least.

    Args:
        x: Any Tensor.
        i: An integer, one element.
        array: The list, changed in place; None begins one.

    Raises:
        OutOfRangeError: If places before i would stay empty.
    """
    at = _index("array_write", i)
    held = _listed("array_write", [] if array is None else array)
    if at > len(held):
        raise OutOfRangeError(
            f"[array_write] i must be at most {len(held)}, the length, got {at}"
        )
    held[at : at + 1] = [x]
    return held


def array_read(array: list[Tensor], i: Tensor) -> Tensor:
    """The tensor at place i of the list.

    Raises:
        OutOfRangeError: If the list has no such place.
    """
    at = _index("array_read", i)
    held = _listed("array_read", array)
    if at >= len(held):
        raise OutOfRangeError(
            f"[array_read] i must be below {len(held)}, the length, got {at}"
        )
    found: Tensor = held[at]
    return found


def array_length(array: list[Tensor]) -> Tensor:
    """How many tensors the list has: int64, shape (1,)."""
    return full([1], len(_listed("array_length", array)), "int64")
