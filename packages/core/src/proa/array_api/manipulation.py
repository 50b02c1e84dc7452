"""Functions of the array API standard that rearrange arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from proa._core import Tensor, ops
from proa.array_api.arrays import (
    axis_number,
    axis_numbers,
    flat,
    require_tensor,
    require_tensors,
)
from proa.array_api.data_types import result_type
from proa.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from proa.tensor import manipulation as _manipulation

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis",
    "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "tile", "unstack",
]  # fmt: skip


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The arrays, each spread to the shape that all of them broadcast to."""
    if not arrays:
        return []
    given = require_tensors("broadcast_arrays", arrays)
    shape: list[int] = []
    for x in given:
        shape = _manipulation.broadcast_shape(shape, x.shape)
    return [ops.broadcast_to(x, shape=shape) for x in given]


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """x repeated along axes of size 1 and new leading ones, to a shape."""
    return ops.broadcast_to(require_tensor("broadcast_to", x), shape=list(shape))


def concat(
    arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int | None = 0
) -> Tensor:
    """Arrays one after another along an axis; flattened first, if it is None."""
    given = require_tensors("concat", arrays)
    kind = result_type(*given)
    if axis is None:
        given, axis = [flat(x) for x in given], 0
    place = axis_number("concat", axis, given[0].ndim)
    return ops.concat(*(ops.cast(x, dtype=kind) for x in given), axis=place)


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """x with a new axis of size 1 at that place of the result."""
    rank = require_tensor("expand_dims", x).ndim + 1
    return ops.unsqueeze(x, axis=[axis_number("expand_dims", axis, rank)])


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """The elements in reverse order along axes, all by default."""
    axes = axis_numbers("flip", axis, require_tensor("flip", x).ndim)
    return _manipulation.flip(x, list(axes)) if axes else ops.assign(x)


def moveaxis(
    x: Tensor,
    source: int | tuple[int, ...],
    destination: int | tuple[int, ...],
    /,
) -> Tensor:
    """Axes moved to other places; the others keep their order."""
    rank = require_tensor("moveaxis", x).ndim
    old = axis_numbers("moveaxis", source, rank)
    new = axis_numbers("moveaxis", destination, rank)
    if len(old) != len(new):
        raise InvalidArgumentError(
            f"[moveaxis] expected as many destinations as sources, got {source} and "
            f"{destination}"
        )
    order = [axis for axis in range(rank) if axis not in old]
    for place, axis in sorted(zip(new, old, strict=True)):
        order.insert(place, axis)
    return ops.transpose(x, perm=order)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """The axes in another order, of which each is named once."""
    rank = require_tensor("permute_dims", x).ndim
    order = axis_numbers("permute_dims", tuple(axes), rank)
    if len(order) != rank:
        raise InvalidArgumentError(
            f"[permute_dims] expected {rank} axes, got {tuple(axes)}"
        )
    return ops.transpose(x, perm=list(order))


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element, or slice along an axis, several times in a row.

    Args:
        x: The array; flattened, if axis is None.
        repeats: How many times: one number, or one for each element or slice.
        axis: The axis, or None.
    """
    source = flat(require_tensor("repeat", x)) if axis is None else x
    place = axis_number("repeat", 0 if axis is None else axis, source.ndim)
    if isinstance(repeats, Tensor):
        if not repeats.dtype.is_integer:
            raise InvalidTypeError(
                f"[repeat] repeats must be integers, got {repeats.dtype.name}"
            )
        size = source.shape[place]
        if repeats.shape not in ([], [1], [size]):
            raise ShapeError("repeat", f"repeats must be of size {size}", repeats.shape)
        repeats = ops.broadcast_to(repeats, shape=[size])
    return _manipulation.repeat_interleave(source, repeats, place)


def reshape(
    x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None
) -> Tensor:
    """The elements in row-major order in another shape, one size of which may be -1.

    Raises:
        InvalidArgumentError: If copy is False and the elements must be copied.
        ShapeError: If the shape holds another number of elements.
    """
    require_tensor("reshape", x)
    sizes = _known_sizes(x, shape)
    # Paddle's 0 stands for the size that x has there; here it is a size.
    y = ops.broadcast_to(_empty(x), shape=sizes) if 0 in sizes else ops.reshape(
        x, shape=sizes
    )  # fmt: skip
    if copy is False and x.size and y.data_ptr() != x.data_ptr():
        raise InvalidArgumentError("[reshape] copy=False, but the layout needs a copy")
    return ops.assign(y) if copy else y


def _known_sizes(x: Tensor, shape: int | Sequence[int]) -> list[int]:
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if sizes.count(-1) == 1:
        rest = math.prod(size for size in sizes if size != -1)
        if rest:
            sizes[sizes.index(-1)] = x.size // rest
    if min(sizes, default=0) < 0 or math.prod(sizes) != x.size:
        raise ShapeError("reshape", f"a shape of {x.size} elements", sizes)
    return sizes


def _empty(x: Tensor) -> Tensor:
    """One axis of no elements, of x, which has none."""
    return ops.full(shape=[1], value=0, dtype=x.dtype)


def roll(
    x: Tensor,
    /,
    shift: int | tuple[int, ...],
    *,
    axis: int | tuple[int, ...] | None = None,
) -> Tensor:
    """The elements moved along axes; what passes the end comes in at the start.

    Args:
        x: The array; moved as if it were flat, if axis is None.
        shift: By how many places, for each axis.
        axis: The axes; one may be named several times.
    """
    rank = require_tensor("roll", x).ndim
    if axis is None:
        if isinstance(shift, tuple):
            raise InvalidArgumentError("[roll] shift must be an int without an axis")
        return reshape(_manipulation.roll(flat(x), shift, 0), tuple(x.shape))
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise InvalidArgumentError(
            f"[roll] expected a shift for each axis, got {shift} and {axis}"
        )
    y = ops.assign(x)
    for by, along in zip(shifts, axes, strict=True):
        y = _manipulation.roll(y, by, axis_number("roll", along, rank))
    return y


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """x without these axes of size 1.

    Raises:
        ShapeError: If such an axis has another size.
    """
    axes = axis_numbers("squeeze", axis, require_tensor("squeeze", x).ndim)
    if any(x.shape[a] != 1 for a in axes):
        raise ShapeError("squeeze", f"size 1 along {axis}", x.shape)
    return ops.squeeze(x, axis=list(axes)) if axes else ops.assign(x)


def stack(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis."""
    given = require_tensors("stack", arrays)
    kind = result_type(*given)
    place = axis_number("stack", axis, given[0].ndim + 1)
    return ops.stack(*(ops.cast(x, dtype=kind) for x in given), axis=place)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """x several times along each axis, the last of which the last number is for."""
    rank = require_tensor("tile", x).ndim
    times: list[Any] = [1] * (rank - len(repetitions)) + list(repetitions)
    sizes = [1] * (len(times) - rank) + list(x.shape)
    if 0 in times or 0 in sizes:
        result = [n * size for n, size in zip(times, sizes, strict=True)]
        return ops.full(shape=result, value=0, dtype=x.dtype)
    return _manipulation.tile(reshape(x, tuple(sizes)), times)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, without it."""
    place = axis_number("unstack", axis, require_tensor("unstack", x).ndim)
    return tuple(ops.select(x, axis=place, index=i) for i in range(x.shape[place]))
