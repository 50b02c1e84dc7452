"""proa_lite.h through ctypes: the wheel's own library, or one built for a model."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from proa_lite.errors import InvalidArgumentError, NotFoundError, VersionError

ABI = 1
MAX_RANK = 8


class Array(ctypes.Structure):
    """proa_lite_array."""

    data: int | None  # the address
    dtype: int
    rank: int
    shape: ctypes.Array[ctypes.c_int64]

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_RANK),
    ]


_MODEL = ctypes.c_void_p
_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "proa_lite_abi": (ctypes.c_int32, []),
    "proa_lite_isa": (ctypes.c_char_p, []),
    "proa_lite_open": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(_MODEL)]),
    "proa_lite_open_bytes": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(_MODEL)],
    ),
    "proa_lite_close": (None, [_MODEL]),
    "proa_lite_error": (ctypes.c_char_p, [_MODEL]),
    "proa_lite_input_count": (ctypes.c_int32, [_MODEL]),
    "proa_lite_output_count": (ctypes.c_int32, [_MODEL]),
    "proa_lite_input_name": (ctypes.c_char_p, [_MODEL, ctypes.c_int32]),
    "proa_lite_output_name": (ctypes.c_char_p, [_MODEL, ctypes.c_int32]),
    "proa_lite_input_spec": (
        ctypes.c_int,
        [_MODEL, ctypes.c_int32, ctypes.POINTER(Array)],
    ),
    "proa_lite_output_spec": (
        ctypes.c_int,
        [_MODEL, ctypes.c_int32, ctypes.POINTER(Array)],
    ),
    "proa_lite_run": (ctypes.c_int, [_MODEL, ctypes.c_void_p, ctypes.c_void_p]),
    "proa_lite_memory": (ctypes.c_size_t, [_MODEL]),
}


@cache
def load(path: Path | None = None) -> ctypes.CDLL:
    """The library at `path`, by default the wheel's.

    Raises:
        NotFoundError: If there is no library.
        InvalidArgumentError: If it is another library, or for another machine.
        VersionError: If it has another ABI.
    """
    where = path or Path(__file__).with_name("libproa_lite.so")
    if not where.is_file():
        raise NotFoundError(
            f"[proa_lite] the library must be a file, got {str(where)!r}"
        )
    try:
        library = ctypes.CDLL(str(where))
        library.proa_lite_abi  # noqa: B018  # raises if it is another library
    except (OSError, AttributeError) as error:
        raise InvalidArgumentError(
            f"[proa_lite] {where} must be a library of proa_lite for this machine, "
            f"got {error}"
        ) from None
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    abi = library.proa_lite_abi()
    if abi != ABI:
        raise VersionError(f"[proa_lite] the library must have ABI {ABI}, got {abi}")
    return library
