"""Values of a graph: tensors, arrays that are known without running, and sequences.

A value is a `Tensor`; a NumPy array of text, or of sizes of which some are symbolic
dimensions; a list of values (a sequence); or None (an absent optional).
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

import proa
from proa._core import Tensor, from_numpy
from proa.errors import InvalidTypeError, UnimplementedError
from proa.tensor.symbolic_dims import SymbolicDim

Array = NDArray[Any]

#: What holds numbers of types that tensors do not have.
_HELD_AS = {"uint16": "int32", "uint32": "int64", "uint64": "int64"}


def is_sizes(value: Any) -> TypeGuard[Array]:
    """Whether it is an array of sizes of which some are symbolic."""
    return isinstance(value, np.ndarray) and value.dtype == object


def is_symbolic(value: Any) -> bool:
    """Whether it is a tensor of a program that is being recorded."""
    return isinstance(value, Tensor) and bool(value._is_symbolic)


def held_dtype(name: str) -> str:
    """The tensors' dtype that holds elements of a dtype."""
    return _HELD_AS.get(name, name)


def constant(array: Array, owned: bool = False) -> Any:
    """The value of an array of constants.

    Args:
        owned: Whether nobody else has the array, so that the tensor may share it.
    """
    if array.dtype.kind in "OSU":
        flat = [t.decode() if isinstance(t, bytes) else str(t) for t in array.flat]
        return np.array(flat, dtype=np.str_).reshape(array.shape)
    name = array.dtype.name
    if name == "bfloat16":
        return proa.to_tensor(array.astype(np.float32)).astype("bfloat16")
    if array.dtype.kind not in "biufc":
        raise InvalidTypeError(f"[load] expected a dtype of Proa, got {name}")
    array = np.ascontiguousarray(array, held_dtype(name)).reshape(array.shape)
    if owned and array.flags.writeable:
        return from_numpy(array, False)
    return proa.to_tensor(array)


def as_tensor(value: Any) -> Any:
    """The value as a tensor; sequences and None as they are."""
    if is_sizes(value):
        flat = [int(n) if type(n) is not SymbolicDim else n for n in value.flat]
        if value.ndim == 0:
            return proa.cast(SymbolicDim.stacked(flat), "int64").reshape([])
        stacked = proa.cast(SymbolicDim.stacked(flat), "int64")
        return stacked if value.ndim == 1 else stacked.reshape(list(value.shape))
    return value


def as_host(value: Any, what: str) -> Array:
    """The value as an array, bfloat16 as float32; sizes may be symbolic.

    Raises:
        UnimplementedError: If it depends on the elements of an input of a recording.
    """
    if isinstance(value, np.ndarray):
        return value
    if is_symbolic(value):
        raise UnimplementedError(
            f"{what} must be known while a graph is recorded, got one that "
            "follows from the elements of an input"
        )
    if value.dtype == "bfloat16":  # NumPy would get its bits
        value = value.astype("float32")
    found: Array = np.asarray(value.numpy())
    return found


def sizes(items: Any) -> Array | Any:
    """Numbers, symbolic ones among them, as a 1-D value."""
    items = list(items)
    if any(isinstance(n, SymbolicDim) for n in items):
        found = np.empty(len(items), object)
        found[:] = items
        return found
    return proa.to_tensor(np.array(items, np.int64))


def simplified(array: Any) -> Any:
    """An array of objects as a tensor if no symbolic dimension is left in it."""
    if not isinstance(array, np.ndarray):  # what NumPy makes of arrays without axes
        item, array = array, np.empty([], object)
        array[()] = item
    if array.dtype == object and any(type(n) is SymbolicDim for n in array.flat):
        return array
    kind = np.bool_ if _all_bool(array) else np.int64
    return proa.to_tensor(array.astype(kind))


def _all_bool(array: Array) -> bool:
    if array.dtype != object:
        return array.dtype == np.bool_
    return bool(array.size) and all(isinstance(n, (bool, np.bool_)) for n in array.flat)


def without_axis(x: Any, axis: int) -> Any:
    """x at the only place of an axis, also if its size is symbolic."""
    if isinstance(x.shape[axis], SymbolicDim):  # squeeze would leave it
        return x[(slice(None),) * axis + (0,)]
    return proa.squeeze(x, [axis])
