"""State dicts that PaddlePaddle pickled, read without running what a pickle may call.

The only things a file can make are arrays, numbers, text, bytes, dicts, lists and
tuples: NumPy's own rebuilding functions are replaced by plain checks.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError

_NAME_TABLE = "StructuredToParameterName@@"
_SLICES = "UnpackBigParamInfor@@"
_KINDS = "biufc"


class _DType:
    """The element type of a pickled array."""

    def __init__(self, code: str, *_: Any) -> None:
        self.code = str(code)
        self.order = "<"

    def __setstate__(self, state: Any) -> None:
        self.order = str(state[1])

    def numpy(self) -> np.dtype[Any]:
        """NumPy's dtype; only plain numbers are admitted."""
        found: np.dtype[Any] = np.dtype(self.code)
        if found.kind not in _KINDS or found.fields or found.subdtype:
            raise ValueError(f"elements of type {self.code!r}")
        order: Any = ">" if self.order == ">" else "<"
        return cast("np.dtype[Any]", found.newbyteorder(order))


class _Array:
    """A pickled array: its state is (version, shape, dtype, Fortran order, bytes)."""

    def __init__(self) -> None:
        self.value: NDArray[Any] = np.zeros(0)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        self.fill(shape, dtype, bool(fortran), data)

    def fill(self, shape: Any, dtype: Any, fortran: bool, data: Any) -> None:
        """Take the elements, which must be as many as the shape says."""
        if isinstance(data, str):  # Python 2 has one type for bytes and text
            data = data.encode("latin1")
        if not isinstance(dtype, _DType) or not isinstance(data, (bytes, bytearray)):
            raise ValueError("an array that is not of plain numbers")
        sizes = [int(n) for n in shape]
        kind = dtype.numpy()
        if min(sizes, default=0) < 0 or math.prod(sizes) * kind.itemsize != len(data):
            raise ValueError(f"an array of shape {sizes} in {len(data)} bytes")
        flat = np.frombuffer(data, kind).astype(kind.newbyteorder("="))
        self.value = flat.reshape(sizes, order="F" if fortran else "C")


def _reconstruct(kind: Any, shape: Any, code: Any) -> _Array:
    if kind is not _Array:
        raise ValueError("an array of another type than ndarray")
    return _Array()


def _frombuffer(data: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    array = _Array()
    array.fill(shape, dtype, order == "F", data)
    return array


def _no_bytes() -> bytes:
    return b""


def _scalar(dtype: Any, data: Any) -> Any:
    if isinstance(data, str):
        data = data.encode("latin1")
    return np.frombuffer(data, dtype.numpy())[0].item()


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if encoding != "latin1":
        raise ValueError(f"bytes encoded as {encoding!r}")
    return str(text).encode("latin1")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
    ("builtins", "tuple"): tuple,
    ("__builtin__", "tuple"): tuple,
    ("collections", "OrderedDict"): dict,
    ("builtins", "bytes"): _no_bytes,
    ("__builtin__", "bytes"): _no_bytes,
    ("_codecs", "encode"): _encode,
}
for _package in ("numpy.core", "numpy._core"):
    _ADMITTED[f"{_package}.multiarray", "_reconstruct"] = _reconstruct
    _ADMITTED[f"{_package}.multiarray", "scalar"] = _scalar
    _ADMITTED[f"{_package}.numeric", "_frombuffer"] = _frombuffer


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise ValueError(f"an object of {module}.{name}") from None


def _plain(value: Any) -> Any:
    """The tree with NumPy arrays; anything that is no plain data is refused."""
    if isinstance(value, _Array):
        return value.value
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    if isinstance(value, dict):
        return {_plain_key(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(v) for v in value)
    raise ValueError(f"an object of {type(value).__name__}")


def _plain_key(key: Any) -> Any:
    if not isinstance(key, (str, int)):
        raise ValueError(f"a key of {type(key).__name__}")
    return key


def _joined(state: dict[Any, Any]) -> dict[Any, Any]:
    """The dict with arrays put together that were cut because of their size."""
    for key, info in state.pop(_SLICES, {}).items():
        slices = [state.pop(name).reshape(-1) for name in info["slices"]]
        state[key] = np.concatenate(slices).reshape(info["OriginShape"])
    return state


def _check_memo(data: bytes | memoryview) -> None:
    """The unpickler allocates as many entries as the largest number in its memo."""
    for opcode, argument, _ in pickletools.genops(io.BytesIO(data)):
        number = int(argument or 0) if opcode.name.endswith("PUT") else 0
        if number > len(data):
            raise ValueError(f"a memo of {argument} entries in {len(data)} bytes")


def read_pickle(
    data: bytes | memoryview, where: str = "load", keep_name_table: bool = False
) -> tuple[Any, bool]:
    """What a ``.pdparams`` or ``.pdopt`` file holds, with NumPy arrays.

    bfloat16 arrays come as uint16 ones of the same bits.

    Args:
        data: The file's bytes.
        where: The caller, for errors.
        keep_name_table: Whether a state dict keeps its table of parameter names.

    Returns:
        (the value, whether it is a state dict).

    Raises:
        InvalidArgumentError: If it is damaged or holds anything else.
    """
    try:
        _check_memo(data)
        value = _plain(_Reader(io.BytesIO(data), encoding="latin1").load())
        if not isinstance(value, dict):
            return value, False
        value = _joined(value)
        named = _NAME_TABLE in value
        if not keep_name_table:
            value.pop(_NAME_TABLE, None)
        return value, named
    except Exception as error:  # a damaged pickle raises almost anything
        raise InvalidArgumentError(
            f"[{where}] a pickle must hold arrays, numbers, text, dicts, lists and "
            f"tuples alone, got {error}"
        ) from None
