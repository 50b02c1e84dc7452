"""PaddlePaddle's tensor streams: the binary form of one parameter, or of many in turn.

uint32 0, uint64 number of LoD levels (each uint64 bytes and that many bytes), uint32 0,
int32 size of a `TensorDesc` (1: data type, 2: sizes), that message, the elements.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from proa.base.safetensors import Stored
from proa.base.varint import encoded
from proa.errors import InvalidArgumentError, NotFoundError

_CODES = {
    "bool": 0, "int16": 1, "int32": 2, "int64": 3, "float16": 4, "float32": 5,
    "float64": 6, "uint8": 20, "int8": 21, "bfloat16": 22, "complex64": 23,
    "complex128": 24,
}  # fmt: skip
_NAMES = {code: name for name, code in _CODES.items()}
_LOD_TENSOR = 7


def _bad(where: str, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"[{where}] expected a complete tensor stream, got {what}"
    )


def _numpy(name: str) -> np.dtype[Any]:
    kind: np.dtype[Any] = np.dtype("<u2" if name == "bfloat16" else name)
    return cast("np.dtype[Any]", kind.newbyteorder("<"))


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("an unterminated varint")


def fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """(number, value) of a protocol buffer's fields: an int, or the field's bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}[kind]
        if at + size > len(data):
            raise ValueError("a field that is cut off")
        yield key >> 3, data[at : at + size]
        at += size


def _sizes(data: memoryview) -> tuple[int, list[int]]:
    """Data type and sizes of a `TensorDesc`; sizes may be packed."""
    code, sizes = -1, list[int]()
    for number, value in fields(data):
        if number == 1:
            code = value
        elif number == 2 and isinstance(value, int):
            sizes.append(value)
        elif number == 2:
            at = 0
            while at < len(value):
                size, at = _varint(value, at)
                sizes.append(size)
    return code, sizes


def read_stream(
    data: bytes | memoryview, at: int = 0, where: str = "load"
) -> tuple[Stored, int]:
    """The tensor that begins at a byte, and where it ends.

    Raises:
        InvalidArgumentError: If the bytes are no whole tensor.
    """
    view = memoryview(data)
    try:
        version, levels = struct.unpack_from("<IQ", view, at)
        at += 12
        for _ in range(min(levels, 64)):
            (size,) = struct.unpack_from("<Q", view, at)
            at += 8 + size
        second, length = struct.unpack_from("<Ii", view, at)
        at += 8
        if version != 0 or second != 0 or levels > 64 or length < 0:
            raise ValueError("another version")
        code, sizes = _sizes(view[at : at + length])
        at += length
        dtype = _NAMES[code]
        kind = _numpy(dtype)
        end = at + math.prod(sizes) * kind.itemsize
        if end > len(view) or min(sizes, default=0) < 0:
            raise ValueError(f"{len(view) - at} bytes for shape {sizes}")
        array = np.frombuffer(view[at:end], kind).reshape(sizes)
    except (struct.error, ValueError, KeyError, IndexError, OverflowError) as error:
        raise _bad(where, str(error)) from None
    if dtype == "bool" and array.size and array.view(np.uint8).max() > 1:
        raise _bad(where, "a bool that is neither 0 nor 1")
    return Stored(array, dtype), end


def write_stream(tensor: Stored) -> bytes:
    """The tensor's bytes."""
    array = np.ascontiguousarray(tensor.array, _numpy(tensor.dtype))
    about = b"\x08" + encoded(_CODES[tensor.dtype])
    about += b"".join(b"\x10" + encoded(size) for size in tensor.array.shape)
    head = struct.pack("<IQIi", 0, 0, 0, len(about))
    return head + about + array.tobytes()


def _parameter_names(model: bytes) -> list[str]:
    """Names of a `ProgramDesc`'s parameters, in the order of a file that has them all.

    They are the persistable variables of kind LOD_TENSOR, sorted.
    """
    names = []
    for number, block in fields(memoryview(model)):
        if number != 1:
            continue
        for field, variable in fields(block):
            if field != 3:
                continue
            name, persistable, kind = "", 0, -1
            for key, value in fields(variable):
                if key == 1:
                    name = bytes(value).decode()
                elif key == 2:
                    kind = next((v for k, v in fields(value) if k == 1), -1)
                elif key == 3:
                    persistable = value
            if persistable and kind == _LOD_TENSOR:
                names.append(name)
    return sorted(names)


def _all_in_one(model: Path, params: Path, where: str) -> dict[str, Stored]:
    try:
        names = _parameter_names(model.read_bytes())
    except (ValueError, KeyError, IndexError, UnicodeDecodeError, TypeError):
        raise _bad(where, f"{model}, which is no ProgramDesc") from None
    data, at = params.read_bytes(), 0
    found = {}
    for name in names:
        found[name], at = read_stream(data, at, where)
    if at != len(data):
        raise _bad(where, f"{len(data) - at} bytes more in {params}")
    return found


def read_folder(path: Path, where: str = "load") -> dict[str, Stored]:
    """Parameters of a folder that save_inference_model or save_params wrote: one file
    each, or all in ``__params__`` next to ``__model__``.
    """
    model, params = path / "__model__", path / "__params__"
    if model.is_file() and params.is_file():
        return _all_in_one(model, params, where)
    files = [f for f in sorted(path.iterdir()) if f.is_file() and f.name != "__model__"]
    if not files:
        raise NotFoundError(f"[{where}] expected parameter files in {path}, got none")
    found = {}
    for file in files:
        data = file.read_bytes()
        found[file.name], end = read_stream(data, 0, f"{where}: {file.name}")
        if end != len(data):
            raise _bad(where, f"{len(data) - end} bytes more in {file}")
    return found


def read_pair(prefix: Path, where: str = "load") -> dict[str, Stored]:
    """Parameters of ``PREFIX.pdmodel`` with ``PREFIX.pdiparams``."""
    model = prefix.with_name(prefix.name + ".pdmodel")
    params = prefix.with_name(prefix.name + ".pdiparams")
    return _all_in_one(model, params, where)
