"""Tensors from data, from nothing, and from other tensors."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from proa import _core
from proa._core import Tensor, ops
from proa.base.device import Place, check_place
from proa.base.dtype import DTypeLike, as_dtype, bool_, get_default_dtype, int32, int64
from proa.base.mode import static_builder
from proa.base.no_tape import NoTape
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.tensor.arguments import (
    IntsLike,
    as_count,
    as_int,
    as_ints,
    as_size,
    cast_if,
    check_rank,
    normal_axis,
    renamed,
)
from proa.tensor.symbolic_dims import SymbolicDim, has_symbolic_dims, sized, steps_from

if TYPE_CHECKING:
    from proa.base.typing import ScalarLike, TensorLike

__all__ = [
    "arange", "assign", "clone", "complex", "diag", "diag_embed", "diagflat",
    "empty", "empty_like", "eye", "full", "full_like", "linspace", "logspace",
    "meshgrid", "ones", "ones_like", "to_tensor", "tolist", "tril",
    "tril_indices", "triu", "triu_indices", "zeros", "zeros_like",
]  # fmt: skip


#: What Python numbers become; None is the default dtype.
_KINDS = {bool: bool_, int: int64, float: None}


def _contains_tensor(data: Any) -> bool:
    return isinstance(data, (Tensor, SymbolicDim)) or (
        isinstance(data, (list, tuple)) and any(map(_contains_tensor, data))
    )


def _stacked(data: Any) -> Tensor:
    if isinstance(data, (list, tuple)):
        return ops.stack(*[_stacked(d) for d in data], axis=0)
    return as_tensor(data)


def _array(data: Any) -> NDArray[Any]:
    irregular = "[to_tensor] expected regularly nested numbers, got "
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise InvalidArgumentError(f"{irregular}{data!r:.80}") from error
    if array.dtype.kind not in "biufcV":
        raise InvalidArgumentError(
            f"{irregular}{type(data).__name__} with NumPy dtype {array.dtype}"
        )
    if isinstance(data, (np.ndarray, np.generic)):
        return array
    # Python floats take the default dtype, Python ints int64.
    if array.dtype.kind == "f":
        return array.astype(get_default_dtype().numpy)
    if array.dtype.kind == "c":
        wide = get_default_dtype() == "float64"
        return array.astype(np.complex128 if wide else np.complex64)
    return array


def to_tensor(
    data: TensorLike,
    dtype: DTypeLike | None = None,
    place: Place | str | None = None,
    stop_gradient: bool = True,
) -> Tensor:
    """A new Tensor holding a copy of ``data``: numbers, nested lists, arrays, Tensors.

    Python floats become the default dtype, Python ints int64; NumPy arrays keep theirs.

    Args:
        data: A number, nested sequence, NumPy array, or Tensor (also within lists).
        dtype: Element type of the result; None keeps that of the data.
        place: The device of the result.
        stop_gradient: Whether gradients stop at the result.
    """
    if place is not None:
        check_place("to_tensor", place)
    given: Any = data
    if type(given) is np.ndarray and given.dtype.kind in "biufcV":
        result = cast_if(_core.from_numpy(given, True), dtype)
    elif dtype is None and type(given) in _KINDS and abs(given) < 2**63:
        kind = _KINDS[type(given)] or get_default_dtype()
        result = ops.full(shape=[], value=given, dtype=kind)
    elif isinstance(given, Tensor):
        result = cast_if(given.detach(), dtype)
        result = given.detach().clone() if result.dtype == given.dtype else result
    elif _contains_tensor(given):
        result = cast_if(_stacked(given).detach(), dtype)
    elif hasattr(given, "__dlpack__") and not isinstance(
        given, (np.ndarray, np.generic)
    ):
        result = _core.from_numpy(np.from_dlpack(given), True)
        result = cast_if(result, dtype)
    else:
        if dtype is not None and not isinstance(given, (np.ndarray, np.generic)):
            array = np.asarray(given)
            if array.dtype.kind not in "biufc":
                array = _array(given)
        else:
            array = _array(given)
        result = cast_if(_core.from_numpy(array, True), dtype)
    result.stop_gradient = stop_gradient
    return result


def as_tensor(value: Any, like: Tensor | None = None) -> Tensor:
    """``value`` as a Tensor; a Python number takes the dtype of ``like``."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, SymbolicDim):
        return value.astype("int64" if like is None else like.dtype)
    if like is not None and isinstance(value, (bool, int, float)):
        return ops.full(shape=[], value=value, dtype=like.dtype)
    return to_tensor(value)


def _filled(shape: IntsLike, value: Any, dtype: DTypeLike | None) -> Tensor:
    if has_symbolic_dims(shape):
        return _like(sized(shape), value, dtype or "default")
    size = as_ints("full", shape)
    if isinstance(value, builtins.complex):
        return ops.assign(ops.broadcast_to(_complex_number(value, dtype), shape=size))
    kind = get_default_dtype() if dtype is None else as_dtype(dtype)
    return ops.full(shape=size, value=value, dtype=kind)


def _complex_number(value: Any, dtype: DTypeLike | None) -> Tensor:
    """A 0-d tensor of a complex number."""
    double = as_dtype("default") == "float64"
    kind = as_dtype(dtype or ("complex128" if double else "complex64"))
    return cast_if(_core.from_numpy(np.asarray(value), True), kind)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, (Tensor, np.generic)) else value


def full(
    shape: IntsLike,
    fill_value: ScalarLike,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """``shape`` filled with one value; the dtype is that of the value by default."""
    value = _number(fill_value)
    if isinstance(value, SymbolicDim):
        kind = as_dtype(dtype or "int64")
        return ops.mul(_filled(shape, 1, kind), value.astype(kind))
    if dtype is None and isinstance(value, bool):
        dtype = "bool"
    elif dtype is None and isinstance(value, int):
        dtype = "int64"
    return _filled(shape, value, dtype)


def zeros(
    shape: IntsLike, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """``shape`` filled with 0."""
    return _filled(shape, 0, dtype)


def ones(
    shape: IntsLike, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """``shape`` filled with 1."""
    return _filled(shape, 1, dtype)


def empty(
    shape: IntsLike, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """``shape`` with values that mean nothing (zeros at present)."""
    return _filled(shape, 0, dtype)


def _like(x: Tensor, value: Any, dtype: DTypeLike | None) -> Tensor:
    if isinstance(value, builtins.complex):
        number = _complex_number(value, dtype or x.dtype)
        return ops.assign(ops.broadcast_like(number, x))
    return ops.full_like(x, value=value, dtype=as_dtype(dtype or x.dtype))


def full_like(
    x: Tensor,
    fill_value: ScalarLike,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """The shape (and dtype) of x filled with one value."""
    return _like(x, _number(fill_value), dtype)


def zeros_like(
    x: Tensor, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """The shape (and dtype) of x filled with 0."""
    return _like(x, 0, dtype)


def ones_like(
    x: Tensor, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """The shape (and dtype) of x filled with 1."""
    return _like(x, 1, dtype)


def empty_like(
    x: Tensor, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """The shape (and dtype) of x with values that mean nothing."""
    return _like(x, 0, dtype)


def arange(
    start: ScalarLike = 0,
    end: ScalarLike | None = None,
    step: ScalarLike = 1,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """start, start + step, … before end; int64 if all three are integers."""
    low: Any = _number(start)
    high: Any = _number(end)
    by: Any = _number(step)
    if end is None:
        low, high = 0, low
    if by == 0:
        raise InvalidArgumentError("[arange] step must not be 0, got 0")
    if has_symbolic_dims([low, high]):
        return _open_range(low, high, by, dtype or "int64")
    if isinstance(low, int) and isinstance(high, int) and isinstance(by, int):
        kind = int64 if dtype is None else as_dtype(dtype)
        count = max(0, -((low - high) // by))
    else:
        kind = get_default_dtype() if dtype is None else as_dtype(dtype)
        steps = (high - low) / by
        if not math.isfinite(steps):
            raise InvalidArgumentError(
                "[arange] expected a finite number of steps, got "
                f"start={low}, end={high}, step={by}"
            )
        count = max(0, math.ceil(steps))
    return ops.arange(start=low, step=by, count=count, dtype=kind)


def _open_range(start: Any, end: Any, step: Any, dtype: DTypeLike) -> Tensor:
    """`arange` with symbolic ends: the cumulative sum of as many steps."""
    if any(not isinstance(n, int) and n != int(n) for n in (start, end, step)):
        raise InvalidArgumentError(
            "[arange] expected integers where a bound is a symbolic dimension, got "
            f"{start!r}, {end!r} and {step!r}"
        )
    step = int(step)
    span = end - start if step > 0 else start - end
    return cast_if(steps_from(start, span, step), as_dtype(dtype))


def linspace(
    start: ScalarLike,
    stop: ScalarLike,
    num: int | Tensor,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """``num`` numbers evenly from start to stop, both included."""
    if isinstance(num, SymbolicDim):
        steps = ops.maximum((num - 1).astype("float64"), 1.0)
        size = (float(_number(stop)) - float(_number(start))) / steps
        places = _open_range(0, num, 1, "float64") * size + float(_number(start))
        return cast_if(places, dtype or "default")
    count = as_int("linspace", num)
    if count < 1:
        raise InvalidArgumentError(f"[linspace] num must be at least 1, got {count}")
    return ops.linspace(
        start=float(_number(start)),
        stop=float(_number(stop)),
        count=count,
        dtype=as_dtype(dtype or "default"),
    )


def logspace(
    start: ScalarLike,
    stop: ScalarLike,
    num: int | Tensor,
    base: ScalarLike = 10.0,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """``base``, greater than 0, to the powers evenly from start to stop."""
    if not _number(base) > 0:
        raise InvalidArgumentError(
            f"[logspace] expected base to be greater than 0, got {_number(base)}"
        )
    exponents = linspace(start, stop, num, "float64")
    scaled = ops.scale(exponents, scale=math.log(float(_number(base))))
    return cast_if(ops.exp(scaled), as_dtype(dtype or "default"))


def eye(
    num_rows: int | Tensor,
    num_columns: int | Tensor | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """1 on the diagonal, 0 elsewhere."""
    rows = as_int("eye", num_rows)
    columns = rows if num_columns is None else as_int("eye", num_columns)
    return ops.eye(rows=rows, columns=columns, dtype=as_dtype(dtype or "default"))


@renamed(x="input")
def tril(x: Tensor, diagonal: int = 0, name: str | None = None) -> Tensor:
    """The part on and below the diagonal; zeros elsewhere."""
    return ops.tril(x, diagonal=diagonal)


@renamed(x="input")
def triu(x: Tensor, diagonal: int = 0, name: str | None = None) -> Tensor:
    """The part on and above the diagonal; zeros elsewhere."""
    return ops.triu(x, diagonal=diagonal)


def _check_index_dtype(where: str, dtype: DTypeLike) -> None:
    if as_dtype(dtype) not in (int32, int64):
        raise InvalidTypeError(
            f"[{where}] expected dtype to be int32 or int64, got {dtype!r}"
        )


def tril_indices(
    row: int, col: int | None = None, offset: int = 0, dtype: DTypeLike = "int64"
) -> Tensor:
    """Row and column numbers of the lower triangle, (2, count)."""
    rows = as_size("tril_indices", "row", row)
    columns = rows if col is None else as_size("tril_indices", "col", col)
    as_count("tril_indices", "row * col", rows * columns, 8)
    _check_index_dtype("tril_indices", dtype)
    # Beyond the matrix every diagonal is as far as the next.
    diagonals = rows + columns
    shift = min(max(as_int("tril_indices", offset), -diagonals), diagonals)
    pair = np.tril_indices(rows, shift, columns if rows > 0 else 0)
    return to_tensor(np.stack(pair), dtype)


def triu_indices(
    row: int, col: int | None = None, offset: int = 0, dtype: DTypeLike = "int64"
) -> Tensor:
    """Row and column numbers of the upper triangle, (2, count)."""
    rows = as_size("triu_indices", "row", row)
    columns = rows if col is None else as_size("triu_indices", "col", col)
    as_count("triu_indices", "row * col", rows * columns, 8)
    _check_index_dtype("triu_indices", dtype)
    # Beyond the matrix every diagonal is as far as the next.
    diagonals = rows + columns
    shift = min(max(as_int("triu_indices", offset), -diagonals), diagonals)
    pair = np.triu_indices(rows, shift, columns if rows > 0 else 0)
    return to_tensor(np.stack(pair), dtype)


def meshgrid(*args: Any, **kwargs: object) -> list[Tensor]:
    """Coordinate grids of 1-D (or 0-d) tensors: result i varies along axis i."""
    given: Sequence[Tensor] = args
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        given = args[0]
    vectors = [ops.reshape(t, shape=[-1]) for t in given]
    shape = [v.shape[0] for v in vectors]
    grids = []
    for i, v in enumerate(vectors):
        own = [-1 if k == i else 1 for k in range(len(shape))]
        grid = ops.reshape(v, shape=own)
        if has_symbolic_dims(shape):
            grids.append(ops.broadcast_like(grid, sized(shape)))
        else:
            grids.append(ops.broadcast_to(grid, shape=shape))
    return grids


def diag_embed(
    input: Tensor,
    offset: int = 0,
    dim1: int = -2,
    dim2: int = -1,
    name: str | None = None,
) -> Tensor:
    """Matrices with the last axis of ``input`` on a diagonal, zeros elsewhere."""
    check_rank("diag_embed", "input", input, 1)
    size = input.shape[-1] + abs(offset)
    rank = input.ndim + 1
    axis1 = normal_axis("diag_embed", dim1, rank)
    axis2 = normal_axis("diag_embed", dim2, rank)
    if axis1 == axis2:
        raise InvalidArgumentError(
            f"[diag_embed] dim1 and dim2 must differ, got {dim1} and {dim2}"
        )
    mask = ops.eye(rows=size, columns=size, dtype=as_dtype("bool"))
    low, high = max(-offset, 0), max(offset, 0)
    # Rows low.. of a (size, size) identity shifted by offset hold the diagonal.
    padding = [0] * (input.ndim - 1)
    rows = ops.pad(input, low=[*padding, low], high=[*padding, high])
    cols = ops.unsqueeze(rows, axis=[-1])  # (.., size, 1)
    if offset:
        mask = ops.cast(
            ops.pad(
                ops.eye(rows=size, columns=size, dtype=as_dtype("int32")),
                low=[0, offset],
                high=[0, -offset],
            ),
            dtype=as_dtype("bool"),
        )
    zero = ops.full(shape=[], value=0, dtype=input.dtype)
    full_matrix = ops.where(mask, cols, zero)
    order = [a for a in range(rank) if a not in (axis1, axis2)]
    perm = [0] * rank
    for position, axis in enumerate([*order, axis1, axis2]):
        perm[axis] = position
    return ops.transpose(full_matrix, perm=perm)


def diag(
    x: Tensor, offset: int = 0, padding_value: float = 0, name: str | None = None
) -> Tensor:
    """The matrix that has a vector on a diagonal, or the diagonal of a matrix."""
    if x.ndim == 2:
        return ops.diagonal(x, offset=offset)
    if x.ndim > 2:
        raise InvalidArgumentError(f"[diag] x must have rank 1 or 2, got {x.shape}")
    matrix = diag_embed(ops.reshape(x, shape=[-1]), offset)
    if padding_value:
        where_diagonal = diag_embed(ones([x.size], "bool"), offset)
        fill = ops.full(shape=[], value=padding_value, dtype=x.dtype)
        matrix = ops.where(where_diagonal, matrix, fill)
    return matrix


def diagflat(x: Tensor, offset: int = 0, name: str | None = None) -> Tensor:
    """The matrix with the elements of x, flattened, on a diagonal."""
    return diag_embed(ops.reshape(x, shape=[-1]), offset)


def assign(x: TensorLike, output: Tensor | None = None) -> Tensor:
    """A copy of x (numbers, array or Tensor), put into ``output`` if given.

    An output of another shape takes x's; a Variable stands for the copy from there on.
    In static mode the copy is a Variable too.
    """
    source = as_tensor(x)
    if output is None:
        result = ops.assign(source)
        builder = None if result._is_symbolic else static_builder()
        return result if builder is None else builder.constant(result)
    if output._is_symbolic and (builder := static_builder()) is not None:
        builder.assign(source, output)
    elif output._is_symbolic:  # what is recorded is done by every run
        with NoTape():
            output[...] = source
    elif output.shape == source.shape:
        output.set_value(source)
    else:
        output._share_from(ops.assign(source.detach()))
    return output


def clone(x: Tensor, name: str | None = None) -> Tensor:
    """A copy of x through which gradients flow."""
    return x.clone()


def tolist(x: Tensor) -> Any:
    """The elements as nested lists of Python numbers; a number if x is 0-d."""
    return x.tolist()


def complex(real: Tensor, imag: Tensor, name: str | None = None) -> Tensor:
    """real + i * imag."""
    return ops.make_complex(real, imag)
