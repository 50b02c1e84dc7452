"""Arrays to raw bytes and to JSON, and back, with every size checked."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from proa_serving.protocol.datatypes import DATATYPES, Datatype, datatype_of
from proa_serving.protocol.errors import InvalidRequestError
from proa_serving.protocol.messages import Array, Tensor

try:
    from proa_serving._native import Memory as _Memory
except ImportError:  # It was not built.
    _Memory = None  # type: ignore[assignment, misc]

Buffer = bytes | bytearray | memoryview
# An array of no elements may still claim a huge shape; NumPy refuses more than this.
MAX_DIMS = 32
MAX_DIM = 2**48
_LENGTH = struct.Struct("<I")
_CHUNK = 2**13  # elements
# What kernels like best; NumPy needs no more than the size of an element.
_ALIGNMENT = 64


def aligned_memory(size: int, skip: int = 0) -> memoryview:
    """Memory of ``size`` bytes; the byte at ``skip`` is aligned for any element.

    It is not zeroed: pages are touched, and memory used, as bytes are put there.
    """
    if _Memory is not None:
        return memoryview(_Memory(size, skip))
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -(memory.ctypes.data + skip) % _ALIGNMENT
    return memory.data[start : start + size]


def check_shape(shape: Any, where: str) -> tuple[int, ...]:
    """``shape`` as a tuple of sizes, or an error that says what is wrong with it."""
    if not isinstance(shape, Sequence) or isinstance(shape, str | bytes):
        raise InvalidRequestError(where, f"shape must be a list, got {shape!r:.80}")
    if len(shape) > MAX_DIMS:
        raise InvalidRequestError(
            where, f"shape must have at most {MAX_DIMS} dims, got {len(shape)}"
        )
    for size in shape:
        if type(size) is not int or not 0 <= size <= MAX_DIM:
            raise InvalidRequestError(
                where, f"shape must hold sizes of 0 or more, got {size!r:.80}"
            )
    sizes = tuple(shape)
    if math.prod(size or 1 for size in sizes) > MAX_DIM:
        raise InvalidRequestError(where, f"shape is beyond any memory, got {sizes}")
    return sizes


def tensor_from_raw(
    name: str, datatype: str, shape: tuple[int, ...], data: Buffer
) -> Tensor:
    """The tensor whose elements are ``data``; no copy where it is aligned."""
    where = f"tensor {name!r:.80}"
    row = datatype_of(datatype, where)
    if row.name == "BYTES":
        return Tensor(name, datatype, _bytes_from_raw(shape, data, where))
    need = math.prod(shape) * row.dtype.itemsize
    if len(data) != need:
        raise InvalidRequestError(
            where,
            f"raw data of {datatype} {list(shape)} must be {need} bytes, "
            f"got {len(data)}",
        )
    return tensor_from_checked(name, datatype, shape, data)


def tensor_from_checked(
    name: str, datatype: str, shape: tuple[int, ...], data: Buffer
) -> Tensor:
    """The same where ``data`` are as many bytes as it takes, and not BYTES."""
    array: Array = np.ndarray(shape, DATATYPES[datatype].dtype, data)
    if not array.flags.aligned:
        array = array.copy()
    return Tensor(name, datatype, array)


def _bytes_from_raw(shape: tuple[int, ...], data: Buffer, where: str) -> Array:
    count = math.prod(shape)
    if count * _LENGTH.size > len(data):
        raise InvalidRequestError(
            where,
            f"raw BYTES of {count} elements must be {count * _LENGTH.size} bytes or "
            f"more, got {len(data)}",
        )
    found: list[bytes] = []
    view, at = memoryview(data), 0
    while at < len(view):
        start = at + _LENGTH.size
        if start > len(view):
            raise InvalidRequestError(where, "raw BYTES end inside a length")
        at = start + _LENGTH.unpack_from(view, at)[0]
        if at > len(view):
            raise InvalidRequestError(where, "raw BYTES end inside an element")
        found.append(bytes(view[start:at]))
    if len(found) != count:
        raise InvalidRequestError(
            where, f"raw BYTES must hold {count} elements, got {len(found)}"
        )
    return _object_array(found, shape)


def _object_array(items: list[Any], shape: tuple[int, ...]) -> Array:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


def tensor_from_list(
    name: str, datatype: str, shape: tuple[int, ...], data: Any
) -> Tensor:
    """The tensor of a JSON list, which may be flat or nested as the shape is.

    A long list may come as an array already.
    """
    where = f"tensor {name!r:.80}"
    row = datatype_of(datatype, where)
    if not row.kinds:
        raise InvalidRequestError(where, f"{datatype} must be sent as raw data")
    if not isinstance(data, list | np.ndarray):
        raise InvalidRequestError(where, f"data must be a list, got {data!r:.40}")
    if row.name == "BYTES":
        strings = data if isinstance(data, list) else data.tolist()
        return Tensor(name, datatype, _bytes_from_list(shape, strings, where))
    try:
        array = np.asarray(data)
    except (ValueError, OverflowError) as error:
        raise InvalidRequestError(where, "data must be a regular list") from error
    if array.size and array.dtype.kind not in row.kinds:
        raise InvalidRequestError(
            where, f"data must be numbers that {datatype} holds, got {array.dtype}"
        )
    _check_range(array, row, where)
    _check_count(array.size, shape, where)
    if array.ndim > 1 and array.shape != shape:
        raise InvalidRequestError(
            where,
            f"nested data must have the shape {list(shape)}, got {list(array.shape)}",
        )
    with np.errstate(over="ignore"):
        return Tensor(name, datatype, array.astype(row.dtype).reshape(shape))


def _bytes_from_list(shape: tuple[int, ...], data: list[Any], where: str) -> Array:
    flat: list[bytes] = []
    _flatten_strings(data, flat, where, len(shape))
    _check_count(len(flat), shape, where)
    return _object_array(flat, shape)


def _flatten_strings(data: list[Any], out: list[bytes], where: str, depth: int) -> None:
    for item in data:
        if isinstance(item, str):
            out.append(item.encode("utf-8", "surrogatepass"))
        elif isinstance(item, list) and depth > 1:
            _flatten_strings(item, out, where, depth - 1)
        else:
            raise InvalidRequestError(where, f"BYTES must be strings, got {item!r:.40}")


def _check_count(count: int, shape: tuple[int, ...], where: str) -> None:
    if count != math.prod(shape):
        raise InvalidRequestError(
            where,
            f"data of shape {list(shape)} must hold {math.prod(shape)} elements, "
            f"got {count}",
        )


def _check_range(array: Array, row: Datatype, where: str) -> None:
    if row.dtype.kind not in "iu" or not array.size:
        return
    limits = np.iinfo(row.dtype)
    low, high = int(array.min()), int(array.max())
    if low < limits.min or high > limits.max:
        bad = low if low < limits.min else high
        raise InvalidRequestError(
            where, f"{row.name} must be {limits.min} to {limits.max}, got {bad}"
        )


def raw_from_tensor(tensor: Tensor) -> Buffer:
    """The elements of ``tensor`` as the binary extension carries them.

    No copy where they are contiguous: the bytes are valid as long as the array's are.
    """
    row = DATATYPES.get(tensor.datatype)
    if row is None:
        row = datatype_of(tensor.datatype, f"tensor {tensor.name!r}")  # says so
    if row.name == "BYTES":
        parts = []
        for item in tensor.array.ravel():
            held = item if isinstance(item, bytes) else str(item).encode()
            parts += [_LENGTH.pack(len(held)), held]
        return b"".join(parts)
    if not tensor.array.size:
        return b""
    array = tensor.array
    if array.dtype is not row.dtype or not array.flags.c_contiguous:
        array = np.ascontiguousarray(array, dtype=row.dtype)
    return array.data.cast("B")


def lists_from_tensor(tensor: Tensor) -> Iterator[list[Any]]:
    """The elements of ``tensor`` for JSON, in flat lists of bounded length."""
    where = f"tensor {tensor.name!r}"
    row = datatype_of(tensor.datatype, where)
    if not row.kinds:
        raise InvalidRequestError(where, f"{row.name} must be requested as raw data")
    flat = tensor.array.ravel()
    parts = (flat[at : at + _CHUNK] for at in range(0, flat.size, _CHUNK))
    if row.name != "BYTES":
        yield from (part.tolist() for part in parts)
        return
    try:
        for part in parts:
            yield [
                item.decode() if isinstance(item, bytes) else str(item) for item in part
            ]
    except UnicodeDecodeError as error:
        raise InvalidRequestError(
            where, "BYTES that are not UTF-8 must be requested as raw data"
        ) from error
