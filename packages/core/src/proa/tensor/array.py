"""Lists of tensors that grow, by the functions that Paddle has for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from proa._core import Tensor
from proa.base.dtype import as_dtype
from proa.base.mode import StaticBuilder, static_builder
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    OutOfRangeError,
    PreconditionNotMetError,
    UnimplementedError,
)
from proa.tensor.creation import full

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike

__all__ = ["array_length", "array_read", "array_write", "create_array"]


class ArrayStore(Protocol):
    """What holds the entries of an array in place of a stack."""

    def read(self, i: Tensor) -> Tensor:
        """The entry at a place."""

    def write(self, x: Tensor, i: Tensor) -> None:
        """Put an entry at a place."""

    def length(self) -> Tensor:
        """How many entries there are, int64 (1,)."""


class TensorArray(list[Tensor]):
    """A list of a static program.

    Attributes:
        depth: How many bodies of loops and branches are around where it was made.
        stack: Its entries along a new first axis, once a run computes a place; the
            list itself is empty then.
        store: What holds the entries instead, where these may differ in shape.
    """

    def __init__(self, entries: Iterable[Tensor] = (), depth: int = 0) -> None:
        super().__init__(entries)
        self.depth = depth
        self.stack: Tensor | None = None
        self.store: ArrayStore | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether the entries are no longer in the list itself."""
        return self.stack is not None or self.store is not None

    def __repr__(self) -> str:
        return f"TensorArray at {id(self):#x}"


def _begun(entries: Iterable[Tensor]) -> list[Tensor]:
    builder = static_builder()
    return list(entries) if builder is None else TensorArray(entries, builder.depth())


def _index(where: str, i: Any, array: Any) -> int | None:
    """The place; None if it is one of a static program's array that a run computes."""
    if not isinstance(i, Tensor) or i.size != 1:
        raise InvalidTypeError(f"[{where}] i must be a Tensor of one element, got {i}")
    builder = static_builder()
    is_array = isinstance(array, TensorArray) and builder is not None
    depth = 0 if builder is None else builder.depth()
    if is_array and (array.is_recorded or depth > array.depth):
        return None
    known = builder.known(i) if builder is not None and i._is_symbolic else i
    if known is None and is_array:
        return None
    if known is None:
        raise UnimplementedError(
            f"[{where}] at a place that a run computes, {i.name!r}, array must be one "
            "of create_array or array_write, got a list of its own"
        )
    at = int(known)
    if at < 0:
        raise OutOfRangeError(f"[{where}] i must not be negative, got {at}")
    return at


def _builder() -> StaticBuilder:
    builder = static_builder()
    if builder is None:
        raise PreconditionNotMetError(
            "[array] an array of a static program is used in static mode, got dynamic "
            "mode"
        )
    return builder


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
    result = _begun(initialized_list or ())
    for x in result:
        if not isinstance(x, Tensor):
            raise InvalidTypeError(
                "[create_array] initialized_list must hold Tensors, "
                f"got {type(x).__name__}"
            )
        if x.dtype != kind:
            raise InvalidArgumentError(
                f"[create_array] tensors must be {kind.name}, got {x.dtype.name}"
            )
    return result


def array_write(
    x: Tensor, i: Tensor, array: list[Tensor] | None = None
) -> list[Tensor]:
    """Put x at place i of the list, which must have i tensors at least.

    Args:
        x: Any Tensor.
        i: An integer, one element. A static program may compute it, in a loop for
            instance; the entries must then have one dtype and shape.
        array: The list, changed in place; None begins one.

    Raises:
        OutOfRangeError: If places before i would stay empty.
    """
    held = _listed("array_write", _begun(()) if array is None else array)
    at = _index("array_write", i, held)
    if at is None:
        _builder().array_write(x, i, held)
        return held
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
    held = _listed("array_read", array)
    at = _index("array_read", i, held)
    if at is None:
        return _builder().array_read(held, i)
    if at >= len(held):
        raise OutOfRangeError(
            f"[array_read] i must be below {len(held)}, the length, got {at}"
        )
    found: Tensor = held[at]
    return found


def array_length(array: list[Tensor]) -> Tensor:
    """How many tensors the list has: int64, shape (1,)."""
    held = _listed("array_length", array)
    if isinstance(held, TensorArray) and held.is_recorded:
        return _builder().array_length(held)
    return full([1], len(held), "int64")
