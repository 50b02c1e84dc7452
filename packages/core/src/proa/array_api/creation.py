"""Functions of the array API standard that make arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa._core import Tensor, from_numpy, ops
from proa.array_api.arrays import check_device, require_tensor, require_tensors
from proa.base.device import Place
from proa.base.dtype import DTypeLike, as_dtype, dtype
from proa.errors import InvalidArgumentError
from proa.tensor import creation as _creation
from proa.tensor.exchange import from_dlpack

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full",
    "full_like", "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros",
    "zeros_like",
]  # fmt: skip

_Shape = int | Sequence[int]


def _or_default(dtype: DTypeLike | None) -> dtype:
    return as_dtype("default" if dtype is None else dtype)


def _is_buffer(obj: object) -> bool:
    """Whether elements are stored as `memoryview` describes them."""
    try:
        memoryview(obj)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return False
    return True


def asarray(
    obj: Any,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: Place | None = None,
    copy: bool | None = None,
) -> Tensor:
    """A Tensor of a number, nested lists, an array or a buffer.

    Args:
        obj: Python numbers, also nested in lists and tuples; a Tensor; a NumPy array;
            what has ``__dlpack__`` or supports the buffer protocol.
        dtype: The dtype; by default that of an array or buffer, bool, int64, or the
            default floating or complex dtype of Python numbers.
        device: None or the CPU.
        copy: True copies; False never does; None only where sharing is impossible.

    Raises:
        InvalidArgumentError: If copy is False and a copy is needed.
        InvalidTypeError: If Tensors have no such dtype.
    """
    check_device("asarray", device)
    shared = _shared(obj, copy)
    if shared is None:
        if copy is False:
            raise InvalidArgumentError(
                f"[asarray] expected memory to share with copy=False, got "
                f"{type(obj).__name__}"
            )
        return _creation.to_tensor(obj, dtype)
    if dtype is not None and shared.dtype != dtype:
        if copy is False:
            raise InvalidArgumentError(
                f"[asarray] expected dtype {shared.dtype.name} with copy=False, got "
                f"{as_dtype(dtype).name}"
            )
        return ops.cast(shared, dtype=as_dtype(dtype))
    return ops.assign(shared) if copy else shared


def _shared(obj: Any, copy: bool | None) -> Tensor | None:
    """A Tensor on the memory of an array or buffer; None of anything else."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.generic) and copy is not False:
        return from_numpy(np.asarray(obj), True)
    if isinstance(obj, np.ndarray) or (_is_buffer(obj) and not isinstance(obj, bytes)):
        array = np.asarray(obj)
        shares = array.flags.writeable and array.dtype.isnative
        if not shares and copy is False:
            return None
        return from_numpy(array, bool(not shares))
    return from_dlpack(obj, copy=copy) if hasattr(obj, "__dlpack__") else None


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: Place | None = None,
) -> Tensor:
    """start, start + step, .. before stop; from 0 to start, if there is no stop."""
    check_device("arange", device)
    return _creation.arange(start, stop, step, dtype)


def empty(
    shape: _Shape, *, dtype: DTypeLike | None = None, device: Place | None = None
) -> Tensor:
    """An array of any values, of the default floating dtype if none is given."""
    check_device("empty", device)
    return _creation.empty(_sizes(shape), _or_default(dtype))


def empty_like(
    x: Tensor, /, *, dtype: DTypeLike | None = None, device: Place | None = None
) -> Tensor:
    """An array of any values, of the shape (and dtype) of x."""
    return full_like(x, 0, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: Place | None = None,
) -> Tensor:
    """Ones on the k-th diagonal, counted upwards from the main one, zeros elsewhere."""
    check_device("eye", device)
    columns = n_rows if n_cols is None else n_cols
    if k == 0:
        return ops.eye(rows=n_rows, columns=columns, dtype=_or_default(dtype))
    row = ops.arange(start=k, step=1, count=n_rows, dtype=as_dtype("int64"))
    column = ops.arange(start=0, step=1, count=columns, dtype=as_dtype("int64"))
    here = ops.equal(ops.unsqueeze(row, axis=[1]), column)
    return ops.cast(here, dtype=_or_default(dtype))


def full(
    shape: _Shape,
    fill_value: complex,
    *,
    dtype: DTypeLike | None = None,
    device: Place | None = None,
) -> Tensor:
    """One value in all places; by default of the dtype of that Python number."""
    check_device("full", device)
    value: Any = fill_value
    return _creation.full(_sizes(shape), value, dtype)


def full_like(
    x: Tensor,
    /,
    fill_value: complex,
    *,
    dtype: DTypeLike | None = None,
    device: Place | None = None,
) -> Tensor:
    """One value in all places, of the shape (and dtype) of x."""
    require_tensor("full_like", x)
    kind = x.dtype if dtype is None else dtype
    return full(x.shape, fill_value, dtype=kind, device=device)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: Place | None = None,
    endpoint: bool = True,
) -> Tensor:
    """``num`` numbers evenly from start to stop, which endpoint includes."""
    check_device("linspace", device)
    values = np.linspace(start, stop, num, endpoint=endpoint)
    kind = _or_default(dtype)
    if dtype is None and values.dtype.kind == "c":
        kind = as_dtype("complex128" if kind == "float64" else "complex64")
    if kind.is_integer:
        values = np.floor(values)
    return ops.cast(from_numpy(values, True), dtype=kind)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Each one-dimensional array spread over the grid of all.

    Args:
        arrays: Arrays of one axis (or none), of one dtype.
        indexing: 'xy': the first two axes are those of the second and first array;
            'ij': the axes are in the order of the arrays.

    Raises:
        InvalidArgumentError: If dtypes differ, or indexing is neither.
    """
    if indexing not in ("xy", "ij"):
        raise InvalidArgumentError(
            f"[meshgrid] indexing must be 'xy' or 'ij', got {indexing!r}"
        )
    if not arrays:
        return []
    given = require_tensors("meshgrid", arrays)
    if len({x.dtype for x in given}) > 1:
        raise InvalidArgumentError("[meshgrid] expected arrays of one dtype")
    rank = len(given)
    order = list(range(rank))
    if indexing == "xy" and rank > 1:
        order[:2] = [1, 0]
    sizes = [0] * rank
    for x, place in zip(given, order, strict=True):
        sizes[place] = x.size
    grids = []
    for x, place in zip(given, order, strict=True):
        line = ops.reshape(x, shape=[-1 if i == place else 1 for i in range(rank)])
        grids.append(ops.assign(ops.broadcast_to(line, shape=sizes)))
    return grids


def ones(
    shape: _Shape, *, dtype: DTypeLike | None = None, device: Place | None = None
) -> Tensor:
    """Ones, of the default floating dtype if none is given."""
    return full(shape, 1, dtype=_or_default(dtype), device=device)


def ones_like(
    x: Tensor, /, *, dtype: DTypeLike | None = None, device: Place | None = None
) -> Tensor:
    """Ones, of the shape (and dtype) of x."""
    return full_like(x, 1, dtype=dtype, device=device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The k-th diagonal of matrices and what is below it; zeros elsewhere."""
    return ops.tril(_matrices("tril", x), diagonal=k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The k-th diagonal of matrices and what is above it; zeros elsewhere."""
    return ops.triu(_matrices("triu", x), diagonal=k)


def zeros(
    shape: _Shape, *, dtype: DTypeLike | None = None, device: Place | None = None
) -> Tensor:
    """Zeros, of the default floating dtype if none is given."""
    return full(shape, 0, dtype=_or_default(dtype), device=device)


def zeros_like(
    x: Tensor, /, *, dtype: DTypeLike | None = None, device: Place | None = None
) -> Tensor:
    """Zeros, of the shape (and dtype) of x."""
    return full_like(x, 0, dtype=dtype, device=device)


def _matrices(where: str, x: Tensor) -> Tensor:
    if require_tensor(where, x).ndim < 2:
        raise InvalidArgumentError(
            f"[{where}] expected at least 2 axes, got shape {tuple(x.shape)}"
        )
    return x


def _sizes(shape: _Shape) -> list[int]:
    return [shape] if isinstance(shape, int) else list(shape)
