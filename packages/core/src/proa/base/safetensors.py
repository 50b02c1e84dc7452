"""Reading and writing safetensors files with NumPy alone.

A file is: the header's length (8 bytes, little-endian), the header (JSON: name, dtype,
shape, offsets into what follows; and ``__metadata__``, text to text), the tensors'
bytes. bfloat16 is carried as uint16 with the dtype's name beside the array.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError, NotFoundError

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
#: A longer header is refused, as the reference reader does.
_HEADER_LIMIT = 100_000_000
_MAPPED_FROM = 1 << 24


class Stored(NamedTuple):
    """An array and its element type's name (bfloat16 lies in a uint16 array)."""

    array: NDArray[Any]
    dtype: str


class Contents(NamedTuple):
    """What a file holds."""

    tensors: dict[str, Stored]
    metadata: dict[str, str]


def chunks(
    tensors: Mapping[str, Stored], metadata: Mapping[str, str]
) -> Iterator[bytes | memoryview]:
    """The file's bytes, piece by piece."""
    header: dict[str, Any] = {}
    if metadata:
        header["__metadata__"] = dict(metadata)
    offset = 0
    for name, (array, dtype) in tensors.items():
        if name == "__metadata__":
            raise InvalidArgumentError(
                "[save] a tensor's name must not be '__metadata__', got it"
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
    replace(path, chunks(tensors, metadata))


def replace(path: str | os.PathLike[str], pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file of these bytes in the place of an old one, all at once."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(
        prefix=f".{path.name}.", suffix=".part", dir=path.parent
    )
    try:
        with os.fdopen(handle, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, 0o666 & ~_umask())
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def read(path: str | os.PathLike[str]) -> Contents:
    """Read a file and check all of it; anything else raises InvalidArgumentError.

    A large file is mapped: arrays lie in it until they are copied.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < _MAPPED_FROM:
                return parse(file.read(), path)
            return parse(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), path)
    except FileNotFoundError:
        raise NotFoundError(f"[load] the file must exist, got {path}") from None


def parse(data: bytes | mmap.mmap, path: object) -> Contents:
    """The same for bytes that were read from somewhere."""
    header, body = _header(path, data)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(
        isinstance(v, str) for v in metadata.values()
    ):
        raise _bad(path, "metadata must map text to text")
    tensors = {name: _tensor(path, name, e, body) for name, e in header.items()}
    return Contents(tensors, metadata)


def _bad(path: object, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"[load] {path} must be a safetensors file: {what}")


def _header(path: object, data: bytes | mmap.mmap) -> tuple[dict[str, Any], memoryview]:
    if data[:1] == b"\x80" and data[1:2] in b"\x02\x03\x04\x05":
        raise _bad(path, "got a Python pickle, which is not read unasked")
    if len(data) < 8:
        raise _bad(path, f"at least 8 bytes are needed, got {len(data)}")
    length = int.from_bytes(data[:8], "little")
    if length > min(_HEADER_LIMIT, len(data) - 8):
        raise _bad(
            path, f"the header must fit into the file, got {length} of {len(data) - 8}"
        )
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError):
        raise _bad(path, "the header must be JSON") from None
    if not isinstance(header, dict):
        raise _bad(path, "the header must be a JSON object")
    return header, memoryview(data)[8 + length :]


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
            path, f"{name!r} must lie within {len(body)} bytes, got {begin} to {end}"
        )
    if count * numpy_type.itemsize != end - begin:
        raise _bad(path, f"{name!r} of shape {shape} cannot take {end - begin} bytes")
    array = np.frombuffer(body[begin:end], numpy_type).reshape(shape)
    if code == "BOOL" and array.size and array.view(np.uint8).max() > 1:
        raise _bad(path, f"{name!r} holds a bool that is neither 0 nor 1")
    return Stored(array, _DTYPES.get(code, code.lower()))
