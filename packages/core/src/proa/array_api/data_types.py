"""Data types of the array API standard: promotion, casting and their limits."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from proa._core import Tensor, ops
from proa.array_api.arrays import check_device, require_tensor
from proa.base.device import Place
from proa.base.dtype import DTYPES, DTypeLike, as_dtype, dtype
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.schema.dtypes import promote

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

#: Kinds of `isdtype` and the dtypes of each.
KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8",),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = (
    KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]
)
_Kind: TypeAlias = "dtype | str | tuple[_Kind, ...]"
#: Tensors of these exist too; the standard knows none of them.
_HALVES = ("float16", "bfloat16")


@dataclass(frozen=True)
class FInfo:
    """Limits of a floating dtype.

    Attributes:
        bits: Bits of an element, of a complex one of either part.
        eps: From 1 to the next greater number.
        max: The greatest finite number.
        min: The least finite number.
        smallest_normal: The least positive number of full precision.
        dtype: The real dtype.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: dtype


@dataclass(frozen=True)
class IInfo:
    """Limits of an integer dtype.

    Attributes:
        bits: Bits of an element.
        max: The greatest number.
        min: The least number.
        dtype: The dtype.
    """

    bits: int
    max: int
    min: int
    dtype: dtype


def dtype_of(where: str, value: object) -> dtype:
    """The dtype of a Tensor or of what names one."""
    if isinstance(value, Tensor):
        return value.dtype
    given: Any = value
    if isinstance(given, dtype):
        return given
    if isinstance(given, (str, type, np.dtype)):
        return as_dtype(given)
    raise InvalidTypeError(
        f"[{where}] expected a Tensor or a dtype, got {type(given).__name__}"
    )


def astype(
    x: Tensor, dtype: DTypeLike, /, *, copy: bool = True, device: Place | None = None
) -> Tensor:
    """The elements of x converted to a dtype.

    Args:
        x: Any Tensor.
        dtype: The wanted dtype.
        copy: If False, x itself is returned where it has that dtype already.
        device: None or the CPU.

    Raises:
        InvalidTypeError: If x is complex and dtype is of real numbers: take `real`.
    """
    check_device("astype", device)
    wanted = as_dtype(dtype)
    if require_tensor("astype", x).dtype == wanted:
        return ops.assign(x) if copy else x
    if x.dtype.is_complex and not wanted.is_complex:
        if wanted != "bool":
            raise InvalidTypeError(
                f"[astype] expected a complex dtype for {x.dtype.name}, got "
                f"{wanted.name}: take real(x) or imag(x)"
            )
        return ops.not_equal(x, 0)
    return ops.cast(x, dtype=wanted)


def can_cast(from_: Tensor | DTypeLike, to: DTypeLike, /) -> bool:
    """Whether promotion of both gives the dtype ``to``."""
    wanted = dtype_of("can_cast", to)
    return promote(dtype_of("can_cast", from_).name, wanted.name) == wanted.name


def result_type(*arrays_and_dtypes: Tensor | DTypeLike | builtins.complex) -> dtype:
    """The dtype of an elementwise function of these.

    Within a kind it is the standard's. Of kinds that the standard leaves open it is
    that of Proa's operators: the floating or complex one. A Python number widens
    nothing: a float makes integers the default floating dtype.

    Raises:
        InvalidArgumentError: If there is no Tensor and no dtype.
    """
    numbers = [v for v in arrays_and_dtypes if type(v) in (bool, int, float, complex)]
    names = [
        dtype_of("result_type", v).name
        for v in arrays_and_dtypes
        if type(v) not in (bool, int, float, complex)
    ]
    if not names:
        raise InvalidArgumentError("[result_type] expected a Tensor or a dtype")
    found = names[0]
    for name in names[1:]:
        found = promote(found, name)
    for number in numbers:
        found = _with_number(found, number)
    return DTYPES[found]


def _with_number(name: str, number: object) -> str:
    """The dtype of an operation of an array and a Python number."""
    if isinstance(number, complex):
        double = name == "float64"
        return name if name in KINDS["complex floating"] else (
            "complex128" if double else "complex64"
        )  # fmt: skip
    if isinstance(number, float) and name in KINDS["integral"] + KINDS["bool"]:
        return as_dtype("default").name
    if type(number) is int and name == "bool":
        return "int64"
    return name


def isdtype(dtype: dtype, kind: _Kind) -> bool:
    """Whether a dtype is of a kind.

    Args:
        dtype: A dtype of Proa.
        kind: A dtype, or 'bool', 'signed integer', 'unsigned integer', 'integral',
            'real floating', 'complex floating' or 'numeric', or a tuple of any of
            these, of which one must hold.

    Raises:
        InvalidArgumentError: If a kind has another name.
        InvalidTypeError: If dtype is none.
    """
    own = dtype_of("isdtype", dtype)
    if isinstance(kind, tuple):
        return any(isdtype(own, each) for each in kind)
    if not isinstance(kind, str):
        return own == dtype_of("isdtype", kind)
    if kind not in KINDS:
        raise InvalidArgumentError(
            f"[isdtype] kind must be one of {', '.join(KINDS)}, got {kind!r}"
        )
    halves = _HALVES if kind in ("real floating", "numeric") else ()
    return own.name in KINDS[kind] + halves


def finfo(type: Tensor | DTypeLike, /) -> FInfo:
    """The limits of a floating or complex dtype, or of that of a Tensor.

    Raises:
        InvalidArgumentError: If it is another dtype.
    """
    own = dtype_of("finfo", type)
    if own == "bfloat16":
        largest = float.fromhex("0x1.fep127")
        return FInfo(16, 2.0**-7, largest, -largest, 2.0**-126, own)
    if not (own.is_floating or own.is_complex):
        raise InvalidArgumentError(f"[finfo] expected a floating dtype, got {own.name}")
    limits: Any = np.finfo(own.name)
    real = as_dtype(limits.dtype)
    largest, tiny = float(limits.max), float(limits.tiny)
    return FInfo(limits.bits, float(limits.eps), largest, -largest, tiny, real)


def iinfo(type: Tensor | DTypeLike, /) -> IInfo:
    """The limits of an integer dtype, or of that of a Tensor.

    Raises:
        InvalidArgumentError: If it is another dtype.
    """
    own = dtype_of("iinfo", type)
    if not own.is_integer:
        raise InvalidArgumentError(f"[iinfo] expected an integer dtype, got {own.name}")
    limits = np.iinfo(own.name)
    return IInfo(limits.bits, int(limits.max), int(limits.min), own)
