"""Reading and writing safetensors files with NumPy alone.

A file is: the header's length (8 bytes, little-endian), the header (JSON: name, dtype,
shape, offsets into what follows; and ``__metadata__``, text to text), the tensors'
bytes. bfloat16 is carried as uint16 with the dtype's name next to the array.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proa.base import files
from proa.base.file_formats import HEADER_LIMIT, format_of_bytes, starts_safetensors
from proa.errors import InvalidArgumentError

_NUMPY = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8",
    "F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
    "C128": "<c16", "U16": "<u2", "U32": "<u4", "U64": "<u8",
}  # fmt: skip
_NAMES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "int32": "I32",
    "int64": "I64", "float16": "F16", "bfloat16": "BF16", "float32": "F32",
    "float64": "F64", "complex64": "C64", "complex128": "C128",
}  # fmt: skip
_DTYPES = {v: k for k, v in _NAMES.items()}


class Stored(NamedTuple):
    """An array and its element type's name (bfloat16 is a uint16 array)."""

    array: NDArray[Any]
    dtype: str


class Contents(NamedTuple):
    """What a file holds."""

    tensors: dict[str, Stored]
    metadata: dict[str, str]


def chunks(
    tensors: Mapping[str, Stored], metadata: Mapping[str, str]
) -> Iterator[bytes | memoryview]:
    """The file's bytes, chunk by chunk."""
    header: dict[str, Any] = {}
    if metadata:
        header["__metadata__"] = dict(metadata)
    offset = 0
    for name, (array, dtype) in tensors.items():
        if name == "__metadata__":
            raise InvalidArgumentError(
                "[save] the name '__metadata__' is reserved, got a tensor of that name"
            )
        header[name] = {
            "dtype": _NAMES[dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(len(text) + 8) % 64)  # tensors begin at a multiple of 64
    yield len(text).to_bytes(8, "little")
    yield text
    for array, dtype in tensors.values():
        plain = np.ascontiguousarray(array, dtype=_NUMPY[_NAMES[dtype]])
        yield plain.reshape(-1).view(np.uint8).data


def write(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Stored],
    metadata: Mapping[str, str],
) -> None:
    """Write a file; a crash at any time leaves the old file or the new, whole."""
    files.replace(path, chunks(tensors, metadata))


def read(path: str | os.PathLike[str]) -> Contents:
    """Read a file and check all of it; anything else raises InvalidArgumentError."""
    return parse(files.read(path), path)


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The metadata of a file, of which the header alone is read."""
    length = int.from_bytes(files.read(path, count=8), "little")
    start = files.read(path, count=8 + min(length, HEADER_LIMIT))
    return _metadata(path, _header(path, start)[0])


def parse(data: bytes | memoryview, path: object) -> Contents:
    """The same for bytes that were read from somewhere."""
    header, body = _header(path, data)
    metadata = _metadata(path, header)
    tensors = {name: _tensor(path, name, e, body) for name, e in header.items()}
    _check_layout(path, header, len(body))
    return Contents(tensors, metadata)


def _metadata(path: object, header: dict[str, Any]) -> dict[str, str]:
    """The header's metadata, which are taken out of it."""
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(
        isinstance(v, str) for v in metadata.values()
    ):
        raise _bad(path, "metadata must map text to text")
    return metadata


def _bad(path: object, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"[load] {path} must be a safetensors file: {what}")


def _header(
    path: object, data: bytes | memoryview
) -> tuple[dict[str, Any], memoryview]:
    if not starts_safetensors(data) and (kind := format_of_bytes(data)):
        raise _bad(path, f"got {kind}")
    if len(data) < 8:
        raise _bad(path, f"at least 8 bytes are needed, got {len(data)}")
    length = int.from_bytes(data[:8], "little")
    if length > min(HEADER_LIMIT, len(data) - 8):
        raise _bad(
            path,
            "the header's length, its first 8 bytes, must fit into the file, got "
            f"{length} of {len(data) - 8}",
        )
    try:
        header = json.loads(str(data[8 : 8 + length], "utf-8"))
    except (ValueError, RecursionError):
        raise _bad(path, "the header must be JSON") from None
    if not isinstance(header, dict):
        raise _bad(path, "the header must be a JSON object")
    return header, memoryview(data)[8 + length :]


def _check_layout(path: object, header: dict[str, Any], size: int) -> None:
    """Tensors follow one another, without holes or overlaps, as the format demands."""
    at = 0
    for begin, end in sorted(tuple(e["data_offsets"]) for e in header.values()):
        if begin != at:
            raise _bad(path, f"tensors must follow one another, got {begin} after {at}")
        at = end
    if at != size:
        raise _bad(path, f"tensors must cover all {size} bytes, got {at}")


def _tensor(path: object, name: str, entry: Any, body: memoryview) -> Stored:
    try:
        code, shape = entry["dtype"], entry["shape"]
        begin, end = entry["data_offsets"]
        numpy_type = np.dtype(_NUMPY[code])
        count = math.prod(shape)
        ok = all(isinstance(n, int) and n >= 0 for n in (*shape, begin, end))
    except (TypeError, KeyError, ValueError):
        raise _bad(path, f"the entry of {name!r} is malformed") from None
    if not ok or not begin <= end <= len(body):
        raise _bad(
            path, f"{name!r} must be within {len(body)} bytes, got {begin} to {end}"
        )
    if count * numpy_type.itemsize != end - begin:
        raise _bad(path, f"{name!r} of shape {shape} cannot take {end - begin} bytes")
    try:
        array = np.frombuffer(body[begin:end], numpy_type).reshape(shape)
    except ValueError:
        raise _bad(path, f"{name!r} of shape {shape} is no array") from None
    if code == "BOOL" and array.size and array.view(np.uint8).max() > 1:
        raise _bad(path, f"{name!r} holds a bool that is neither 0 nor 1")
    return Stored(array, _DTYPES.get(code, code.lower()))
