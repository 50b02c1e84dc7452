"""x[...] with index arrays, by NumPy's rules; plain ints and slices are handled in C++.

An index is a tuple of slices, ints, None, Ellipsis and index arrays (Tensors, arrays,
lists). A bool array of rank r must have the shape of the r axes it indexes and means
its r arrays of coordinates; a single bool is an index array, [0] or [], on a new
axis of size 1. Index arrays broadcast against each other; the result has their axes at
the place of the first one if they were adjacent, else in front. (Unlike in NumPy, an
Ellipsis that covers no axis separates nothing.)
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from proa._core import Tensor, ops
from proa.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    OutOfRangeError,
    ShapeError,
)
from proa.tensor.arguments import cast_if
from proa.tensor.creation import arange, as_tensor
from proa.tensor.manipulation import TO_END, TO_START, broadcast_shape, expand
from proa.tensor.search import entries_where, nonzero
from proa.tensor.symbolic_dims import (
    SymbolicDim,
    has_symbolic_dims,
    limited,
    steps_from,
)


@dataclass(frozen=True)
class NewAxisIndex:
    """The index array, [0] or [], of a single bool on its new axis of size 1."""

    index: Tensor


#: One entry of a normalized index: a slice, None (a new axis), or an int64 Tensor.
Entry: TypeAlias = slice | Tensor | NewAxisIndex | None


def _index_tensor(item: Any) -> Tensor:
    """An array-like entry as a Tensor of bools or int64."""
    if isinstance(item, Tensor):
        array = item
    else:
        try:
            found = np.asarray(item)
        except ValueError as error:
            raise OutOfRangeError(
                f"[getitem] expected regularly nested index arrays, got {item!r:.80}"
            ) from error
        if found.size == 0 and not isinstance(item, np.ndarray):
            found = found.astype(np.int64)  # [] has no dtype of its own
        if found.dtype.kind not in "biu":
            raise OutOfRangeError(
                "[getitem] expected ints, slices, Ellipsis, None or arrays of integers "
                f"or bools as indices, got {item!r:.80}"
            )
        array = as_tensor(found)
    if array.dtype == "bool":
        return array
    if not array.dtype.is_integer:
        raise OutOfRangeError(
            f"[getitem] expected index arrays of integers or bools, got {array.dtype}"
        )
    return cast_if(array, "int64")


def _has_tensor(item: Any) -> bool:
    return isinstance(item, Tensor) or (
        isinstance(item, (list, tuple)) and any(map(_has_tensor, item))
    )


def _bound(value: Any) -> Any:
    if value is None or isinstance(value, SymbolicDim):
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidTypeError(
            f"[getitem] expected integers as bounds of a slice, got {value!r:.80}"
        ) from None


def _read(item: Any) -> Any:
    """An item as None, Ellipsis, a slice of ints, an int, or a Tensor."""
    if item is None or item is Ellipsis or isinstance(item, SymbolicDim):
        return item
    if isinstance(item, slice):
        return slice(_bound(item.start), _bound(item.stop), _bound(item.step))
    if isinstance(item, (list, tuple)) and _has_tensor(item):
        return _index_tensor(ops.stack(*[as_tensor(i) for i in item], axis=0))
    if isinstance(item, (bool, np.bool_)) or not hasattr(item, "__index__"):
        return _index_tensor(item)
    if isinstance(item, (Tensor, np.ndarray)):
        return _index_tensor(item)
    return operator.index(item)


def _axis_count(item: Any) -> int:
    """How many axes of x an item indexes."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype == "bool" else 1


def _check_range(axis: int, size: int, value: int) -> None:
    if not -size <= value < size:
        raise OutOfRangeError(
            f"[getitem] expected an index of axis {axis} in [{-size}, {size}), "
            f"got {value}"
        )


def _places_where(mask: Tensor, axis: int, sizes: list[int]) -> list[Entry]:
    """The coordinates where a mask of the axes from ``axis`` on holds."""
    given = mask.shape
    if any(m != n and m >= 0 and n >= 0 for m, n in zip(given, sizes, strict=True)):
        raise OutOfRangeError(
            f"[getitem] expected a mask of the shape of the axes it indexes, from axis "
            f"{axis} on {sizes}, got {given}"
        )
    if not given:
        index = np.zeros(int(ops.count_nonzero(mask).item()), np.int64)
        return [NewAxisIndex(as_tensor(index))]
    found = nonzero(mask)
    if has_symbolic_dims(sizes):
        found = ops.add(found, _checked_zero(given, sizes))
    return [ops.select(found, axis=1, index=i) for i in range(mask.ndim)]


def _checked_zero(given: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """An int64 0 whose computation a run refuses with OutOfRangeError unless the sizes,
    some open in the recording, are those given.

    It is looked up at sum((size - given)^2) in an array of one element.
    """
    terms = []
    for m, n in zip(given, sizes, strict=True):
        if isinstance(n, SymbolicDim):
            left = ops.sub(n.astype("int64"), as_tensor(np.int64(m)))
            terms.append(ops.mul(left, left))
    mismatch = ops.sum(ops.stack(*terms, axis=0), axis=[0])
    return ops.gather(as_tensor(np.zeros(1, np.int64)), mismatch, axis=0)


def _integer(item: Any, axis: int, size: int) -> Tensor:
    """A single integer as a 0-d index array."""
    if isinstance(item, SymbolicDim):
        return ops.reshape(arange(item, item + 1), shape=[])
    if size >= 0:
        _check_range(axis, size, item)
    return as_tensor(np.asarray(item, np.int64))


def _expanded(x: Tensor, key: Any) -> list[Entry]:
    """``key`` with Ellipsis expanded, every axis covered, ints as 0-d index arrays."""
    items = [_read(i) for i in (key if isinstance(key, tuple) else (key,))]
    ellipses = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise OutOfRangeError(
            "[getitem] expected at most one Ellipsis in an index, got more"
        )
    left = x.ndim - sum(map(_axis_count, items))
    if left < 0:
        raise OutOfRangeError(
            f"[getitem] expected indices of at most {x.ndim} axes, got {x.ndim - left}"
        )
    at = ellipses[0] if ellipses else len(items)
    items[at : at + 1] = [slice(None)] * left
    entries: list[Entry] = []
    axis, shape = 0, x.shape
    for item in items:
        count = _axis_count(item)
        if isinstance(item, Tensor) and item.dtype == "bool":
            entries.extend(_places_where(item, axis, shape[axis : axis + count]))
        elif item is None or isinstance(item, (slice, Tensor)):
            entries.append(item)
        else:
            entries.append(_integer(item, axis, shape[axis]))
        axis += count
    _check_integers_with_empty(entries, shape)
    return entries


def _check_integers_with_empty(entries: list[Entry], shape: list[int]) -> None:
    """Check 0-d index arrays where another is empty: no kernel reads them there."""
    arrays = [_array(e) for e in entries]
    if not any(a is not None and a.size == 0 for a in arrays):
        return
    axis = 0
    for entry, array in zip(entries, arrays, strict=True):
        known = array is not None and array.ndim == 0 and not array._is_symbolic
        if array is not None and known and shape[axis] >= 0:
            _check_range(axis, shape[axis], int(array.item()))
        axis += not (entry is None or isinstance(entry, NewAxisIndex))


def _array(entry: Entry) -> Tensor | None:
    """The index array of an entry that has one."""
    if isinstance(entry, NewAxisIndex):
        return entry.index
    return entry if isinstance(entry, Tensor) else None


def _basic(x: Tensor, entries: list[Entry]) -> tuple[Tensor, list[Tensor | None]]:
    """Slices and new axes applied; what is left is an index array or None per axis."""
    axes, starts, ends, steps = [], [], [], []
    new_axes, arrays = [], list[Tensor | None]()
    axis = 0
    for entry in entries:
        if entry is None or isinstance(entry, NewAxisIndex):
            new_axes.append(len(arrays))
            arrays.append(_array(entry))
            continue
        if _has_open_bounds(entry):
            x = ops.gather(x, _open_slice(entry, x, axis), axis=axis)
            entry = slice(None)
        if isinstance(entry, slice):
            step = 1 if entry.step is None else entry.step
            if entry != slice(None):
                first = 0 if step > 0 else TO_END
                last = TO_END if step > 0 else TO_START
                axes.append(axis)
                starts.append(first if entry.start is None else entry.start)
                ends.append(last if entry.stop is None else entry.stop)
                steps.append(step)
            arrays.append(None)
        else:
            arrays.append(entry)
        axis += 1
    if axes:
        x = ops.slice(x, axes=axes, starts=starts, ends=ends, steps=steps)
    if new_axes:
        x = ops.unsqueeze(x, axis=new_axes)
    return x, arrays


def _has_open_bounds(entry: Entry) -> TypeGuard[slice]:
    return isinstance(entry, slice) and has_symbolic_dims([entry.start, entry.stop])


#: Bounds of slices beyond this are as far as any array reaches.
_LIMIT = 2**62


def _open_bound(bound: Any, x: Tensor, axis: int) -> Any:
    """Where a slice bound is along an axis of x: from 0 to its size, by the rules of
    Python, which count what is below 0 from the end.
    """
    if isinstance(bound, SymbolicDim):
        if bound.is_axis_of(x) and bound.axis == axis:
            return bound
        return limited(bound, x, axis, from_end=not bound.is_not_negative())
    bound, size = max(-_LIMIT, min(bound, _LIMIT)), x.shape[axis]
    if size >= 0:
        return max(bound + size, 0) if bound < 0 else min(bound, size)
    return limited(bound, x, axis, from_end=True) if bound else 0


def _open_slice(entry: slice, x: Tensor, axis: int) -> Tensor:
    """The indices of a slice of an axis of x whose bounds or size are symbolic."""
    if isinstance(entry.step, SymbolicDim) or entry.step == 0:
        got = "a symbolic dimension" if entry.step else "0"
        raise InvalidArgumentError(
            f"[getitem] expected a known step other than 0, got {got}"
        )
    step = 1 if entry.step is None else entry.step
    start, stop, size = entry.start, entry.stop, x.shape[axis]
    if step < 0:  # element k of the reversed axis is its element -1 - k
        start, stop = (None if n is None else -1 - n for n in (start, stop))
    first = 0 if start is None else _open_bound(start, x, axis)
    end = size if stop is None else _open_bound(stop, x, axis)
    span = end - first
    if stop is not None and not (type(first) is int and first == 0):
        span = (
            limited(span, x, axis) if has_symbolic_dims([first, end]) else max(span, 0)
        )
    places = steps_from(first, span, abs(step))
    if step > 0:
        return places
    last = size.astype("int64") if isinstance(size, SymbolicDim) else size
    return last - 1 - places


def _common_shape(arrays: list[Tensor]) -> list[int]:
    """The shape that index arrays broadcast to."""
    shape: list[int] = []
    try:
        for array in arrays:
            shape = broadcast_shape(shape, array.shape)
    except ShapeError:
        raise OutOfRangeError(
            "[getitem] expected index arrays that broadcast to one shape, got "
            f"{[a.shape for a in arrays]}"
        ) from None
    return shape


def _coordinates(arrays: list[Tensor]) -> Tensor:
    """Index arrays broadcast and put together along a last axis."""
    shape = _common_shape(arrays)
    return ops.stack(*[ops.broadcast_to(a, shape=shape) for a in arrays], axis=-1)


def get_item(x: Tensor, key: Any) -> Tensor:
    """x[key] for keys with index arrays; a copy, through which gradients flow."""
    if isinstance(key, np.ndarray) and key.dtype == bool:
        key = as_tensor(key)
    is_mask = isinstance(key, Tensor) and key.dtype == "bool" and key.ndim > 0
    if is_mask and key.shape == x.shape[: key.ndim]:
        return entries_where(x, key)
    y, arrays = _basic(x, _expanded(x, key))
    places = [i for i, a in enumerate(arrays) if a is not None]
    given = [a for a in arrays if a is not None]
    if not given:
        return y
    if len(given) == 1:
        return ops.gather(y, given[0], axis=places[0])
    rest = [i for i in range(y.ndim) if i not in places]
    perm = places + rest
    if perm != list(range(y.ndim)):
        y = ops.transpose(y, perm=perm)
    index = _coordinates(given)
    picked = ops.gather_nd(y, index)
    first = places[0]
    if places[-1] - first + 1 != len(places) or first == 0:
        return picked
    # Side by side: the index's axes go to where the first of them stood.
    n = index.ndim - 1
    order = [*range(n, n + first), *range(n), *range(n + first, picked.ndim)]
    return ops.transpose(picked, perm=order)


def _open_slice_as_array(x: Tensor, entries: list[Entry]) -> None:
    """Makes the first slice with symbolic bounds an index array, if none is there."""
    if any(_array(e) is not None for e in entries):
        return
    axis = 0
    for i, entry in enumerate(entries):
        if _has_open_bounds(entry):
            entries[i] = _open_slice(entry, x, axis)
            return
        axis += entry is not None


def _steps_of(entry: slice, x: Tensor, axis: int) -> Tensor:
    size = x.shape[axis]
    if _has_open_bounds(entry) or (size < 0 and entry != slice(None)):
        return _open_slice(entry, x, axis)
    if size < 0:
        return arange(size)
    return as_tensor(np.arange(*entry.indices(size), dtype=np.int64))


def _aligned(array: Tensor, first: int, rank: int) -> Tensor:
    """An array with its axes from ``first`` on among ``rank``, the others of size 1."""
    last = first + array.ndim
    return ops.unsqueeze(array, axis=[*range(first), *range(last, rank)])


def _layout(x: Tensor, entries: list[Entry]) -> tuple[list[Tensor], list[int]]:
    """Coordinates of every leading axis, shaped for the result; and the result's shape.

    Slices become ranges, so that one `index_put` on the leading axes writes it all.
    """
    arrays = [(i, a) for i, e in enumerate(entries) if (a := _array(e)) is not None]
    common = _common_shape([a for _, a in arrays])
    where = [i for i, _ in arrays]
    adjacent = where[-1] - where[0] + 1 == len(where)
    shape: list[int] = [] if adjacent else list(common)
    axis = first = 0  # of x; the place of the broadcast axes in the result
    parts: list[tuple[Tensor, int | None]] = []  # coordinates; axis of a range
    for i, entry in enumerate(entries):
        if adjacent and i == where[0]:
            first = len(shape)
            shape.extend(common)
        if entry is None:
            shape.append(1)
        elif isinstance(entry, slice):
            steps = _steps_of(entry, x, axis)
            parts.append((steps, len(shape)))
            shape.append(steps.shape[0])
        elif isinstance(entry, Tensor):
            parts.append((entry, None))
        axis += not (entry is None or isinstance(entry, NewAxisIndex))
    rank, end = len(shape), first + len(common)
    return [
        _aligned(a, end - a.ndim if at is None else at, rank) for a, at in parts
    ], shape


def _with_new_axes(entries: list[Entry]) -> tuple[Any, ...]:
    """A key whose only index arrays are those of single bools that all hold, as a basic
    index with one new axis in their place.
    """
    where = [i for i, e in enumerate(entries) if isinstance(e, NewAxisIndex)]
    adjacent = where[-1] - where[0] + 1 == len(where)
    rest = [e for e in entries if not isinstance(e, NewAxisIndex)]
    rest.insert(where[0] if adjacent else 0, None)
    return tuple(rest)


def set_item(x: Tensor, key: Any, value: Any) -> None:
    """x[key] = value for keys with index arrays, in place; value broadcasts."""
    given = cast_if(as_tensor(value, x), x.dtype)
    entries = _expanded(x, key)
    _open_slice_as_array(x, entries)
    if not any(isinstance(e, Tensor) for e in entries):
        flags = [e.index for e in entries if isinstance(e, NewAxisIndex)]
        if all(f.size for f in flags):
            x[_with_new_axes(entries) if flags else tuple(entries)] = given
            return
    last = max(i for i, e in enumerate(entries) if _array(e) is not None)
    tail = entries[last + 1 :]
    if all(isinstance(e, slice) and e == slice(None) for e in tail):
        whole = x.shape[x.ndim - len(tail) :] if tail else []
        entries = entries[: last + 1]
    else:
        whole = []
    coordinates, shape = _layout(x, entries)
    # Axes kept whole are last in the result unless the arrays' axes were moved first;
    # either way they trail, for the slices before them keep their order.
    target = [*shape, *whole]
    extra = given.ndim - len(target)
    if extra > 0 and all(n == 1 for n in given.shape[:extra]):
        given = ops.squeeze(given, axis=list(range(extra)))
    given = expand(given, target)
    if 0 in target and not x._is_symbolic:
        get_item(x, key)  # nothing is written, but every index is checked
        return
    spread = [expand(c, shape) for c in coordinates]
    ops.index_put_(x, ops.stack(*spread, axis=-1), given)
