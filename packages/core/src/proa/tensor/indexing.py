"""x[...] with index arrays, by NumPy's rules; plain ints and slices are handled in C++.

An index is a tuple of slices, ints, None, Ellipsis and index arrays (Tensors, arrays,
lists; a bool array of rank r stands for its r arrays of coordinates). Index arrays
broadcast against each other; their axes stand where they were if they were side by
side, else first.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, OutOfRangeError
from proa.tensor.arguments import as_tensor, cast_if
from proa.tensor.creation import arange
from proa.tensor.manipulation import TO_END, TO_START
from proa.tensor.search import entries_where
from proa.tensor.sizes import OpenSize, is_open

#: One entry of a normalised index: a slice, None (a new axis), or an int64 Tensor.
Entry: TypeAlias = "slice | Tensor | None"


def _index_tensors(item: Any) -> list[Tensor]:
    """The int64 index arrays that one array-like entry stands for."""
    if isinstance(item, (list, tuple)) and not item:
        item = np.zeros(0, np.int64)
    if isinstance(item, OpenSize):
        item = ops.reshape(arange(item, item + 1), shape=[])
    array = item if isinstance(item, Tensor) else as_tensor(np.asarray(item))
    if array.dtype == "bool":
        count = int(ops.count_nonzero(array).item())
        found = ops.nonzero(array, count=count)
        return [ops.select(found, axis=1, index=i) for i in range(array.ndim)]
    if not array.dtype.is_integer:
        raise OutOfRangeError(
            f"[index] an index array must hold integers or bools, got {array.dtype}"
        )
    return [cast_if(array, "int64")]


def _consumed(item: Any) -> int:
    """How many axes of x an entry takes."""
    if item is None or item is Ellipsis or isinstance(item, (bool, np.bool_)):
        return 0
    if isinstance(item, Tensor):
        return item.ndim if item.dtype == "bool" else 1
    if isinstance(item, (list, np.ndarray)):
        array = np.asarray(item)
        return array.ndim if array.dtype == bool and array.size else 1
    return 1


def _has_tensor(item: Any) -> bool:
    return isinstance(item, Tensor) or (
        isinstance(item, (list, tuple)) and any(map(_has_tensor, item))
    )


def _readable(item: Any) -> Any:
    """Lists of Tensors become one Tensor; 0-d int Tensors become ints."""
    if isinstance(item, (list, tuple)) and _has_tensor(item):
        return ops.stack(*[as_tensor(i) for i in item], axis=0)
    if isinstance(item, slice):
        parts = (item.start, item.stop, item.step)
        return slice(*(int(p) if isinstance(p, Tensor) else p for p in parts))
    return item


def _expanded(x: Tensor, key: Any) -> list[Entry]:
    """``key`` with Ellipsis spelt out, every axis covered, ints as 0-d index arrays."""
    items = [_readable(i) for i in (key if isinstance(key, tuple) else (key,))]
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise OutOfRangeError("[index] an index may have one Ellipsis, got more")
    left = x.ndim - sum(map(_consumed, items))
    if left < 0:
        raise OutOfRangeError(
            f"[index] an index may have {x.ndim} entries, got {x.ndim - left}"
        )
    at = dots[0] if dots else len(items)
    items[at : at + 1] = [slice(None)] * left
    entries: list[Entry] = []
    for item in items:
        if item is None or isinstance(item, slice):
            entries.append(item)
        elif isinstance(item, (bool, np.bool_)):
            raise InvalidArgumentError(
                "[index] a bool must be an array's, got a single bool"
            )
        else:
            entries.extend(_index_tensors(item))
    return entries


def _basic(x: Tensor, entries: list[Entry]) -> tuple[Tensor, list[Tensor | None]]:
    """Slices and new axes applied; what is left is an index array or None per axis."""
    axes, starts, ends, steps = [], [], [], []
    new_axes, arrays = [], list[Tensor | None]()
    axis = 0
    for entry in entries:
        if entry is None:
            new_axes.append(len(arrays))
            arrays.append(None)
            continue
        if isinstance(entry, slice) and is_open([entry.start, entry.stop]):
            x = ops.gather(x, _open_slice(entry, x.shape[axis]), axis=axis)
            entry = slice(None)
        if isinstance(entry, slice):
            step = 1 if entry.step is None else int(entry.step)
            if entry != slice(None):
                far = TO_END if step > 0 else TO_START
                near = 0 if step > 0 else TO_END
                axes.append(axis)
                starts.append(near if entry.start is None else int(entry.start))
                ends.append(far if entry.stop is None else int(entry.stop))
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


def _open_slice(entry: slice, size: int) -> Tensor:
    """The indices of a slice whose bounds only a run tells; they must be in bounds."""
    start, stop = (
        n + size if type(n) is int and n < 0 else n for n in (entry.start, entry.stop)
    )
    return arange(
        0 if start is None else start,
        size if stop is None else stop,
        1 if entry.step is None else entry.step,
    )


def _coordinates(arrays: list[Tensor]) -> Tensor:
    """Index arrays broadcast and put together along a last axis."""
    shape = list(np.broadcast_shapes(*(a.shape for a in arrays)))
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


def _steps_of(entry: slice, size: int) -> Tensor:
    return as_tensor(np.arange(*entry.indices(size), dtype=np.int64))


def _layout(x: Tensor, entries: list[Entry]) -> tuple[list[Tensor], list[int]]:
    """Coordinates of every leading axis, shaped for the result; and the result's shape.

    Slices become ranges, so that one `index_put` on the leading axes writes it all.
    """
    arrays = [(i, e) for i, e in enumerate(entries) if isinstance(e, Tensor)]
    broad = list(np.broadcast_shapes(*(a.shape for _, a in arrays)))
    where = [i for i, _ in arrays]
    together = where[-1] - where[0] + 1 == len(where)
    sizes = iter(x.shape)
    plan: list[tuple[Entry, int]] = [
        (e, 1 if e is None else next(sizes)) for e in entries
    ]
    shape: list[int] = [] if together else list(broad)
    spot = 0  # where the broadcast axes stand in the result
    ranges: list[tuple[int, Tensor]] = []  # (axis in the result, range) for slices
    order: list[tuple[str, int]] = []
    for i, (entry, size) in enumerate(plan):
        if isinstance(entry, Tensor):
            if together and i == where[0]:
                spot = len(shape)
                shape.extend(broad)
            order.append(("array", where.index(i)))
        elif entry is None:
            shape.append(1)
        else:
            steps = _steps_of(entry, size)
            order.append(("range", len(ranges)))
            ranges.append((len(shape), steps))
            shape.append(steps.size)
    rank = len(shape)
    result = []
    for kind, n in order:
        if kind == "array":
            source = arrays[n][1]
            own = [1] * (len(broad) - source.ndim) + source.shape
            view = [1] * spot + own + [1] * (rank - spot - len(broad))
        else:
            axis, source = ranges[n]
            view = [1] * axis + [-1] + [1] * (rank - axis - 1)
        result.append(ops.reshape(source, shape=view))
    return result, shape


def set_item(x: Tensor, key: Any, value: Any) -> None:
    """x[key] = value for keys with index arrays, in place; value broadcasts."""
    given = cast_if(as_tensor(value, x), x.dtype)
    entries = _expanded(x, key)
    if not any(isinstance(e, Tensor) for e in entries):
        x[tuple(entries)] = given
        return
    last = max(i for i, e in enumerate(entries) if isinstance(e, Tensor))
    tail = entries[last + 1 :]
    if all(isinstance(e, slice) and e == slice(None) for e in tail):
        kept = x.shape[x.ndim - len(tail) :] if tail else []
        entries = entries[: last + 1]
    else:
        kept = []
    coordinates, shape = _layout(x, entries)
    # Axes kept whole stand last in the result unless the arrays' axes were moved first;
    # either way they trail, for the slices before them keep their order.
    spread = [ops.broadcast_to(c, shape=shape) for c in coordinates]
    index = ops.stack(*spread, axis=-1)
    target = [*shape, *kept]
    extra = given.ndim - len(target)
    if extra > 0 and all(n == 1 for n in given.shape[:extra]):
        given = ops.reshape(given, shape=given.shape[extra:])
    ops.index_put_(x, index, ops.broadcast_to(given, shape=target))
