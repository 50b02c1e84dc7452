"""Element types as objects: `proa.float32` and its kin."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from proa import _core
from proa.errors import InvalidArgumentError
from proa.schema.dtypes import CODES, COMPLEX, FLOATING, INTEGERS


class dtype:
    """An element type. Equal to its name and to the NumPy type of that name.

    ``str(proa.float32)`` is ``"paddle.float32"``, as PaddlePaddle prints it;
    ``repr`` is ``"proa.float32"``, what a program of Proa writes.
    """

    __slots__ = ("code", "itemsize", "name")

    def __init__(self, name: str, code: int, itemsize: int) -> None:
        self.name, self.code, self.itemsize = name, code, itemsize

    @property
    def is_floating(self) -> bool:
        """True for float16, bfloat16, float32 and float64."""
        return self.name in FLOATING

    @property
    def is_complex(self) -> bool:
        """True for complex64 and complex128."""
        return self.name in COMPLEX

    @property
    def is_integer(self) -> bool:
        """True for uint8 and the signed integers."""
        return self.name in INTEGERS

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type that holds the elements; uint16 for bfloat16."""
        return np.dtype("uint16" if self.name == "bfloat16" else self.name)

    def __repr__(self) -> str:
        return f"proa.{self.name}"

    def __str__(self) -> str:
        # What programs for PaddlePaddle print, compare and write into files.
        return f"paddle.{self.name}"

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, dtype):
            return self is other
        if isinstance(other, str):
            return other.rpartition(".")[2] == self.name
        if isinstance(other, (np.dtype, type)):
            try:
                return self.name != "bfloat16" and np.dtype(other) == self.numpy
            except TypeError:
                return False
        return NotImplemented

    def __reduce__(self) -> tuple[object, ...]:
        return as_dtype, (self.name,)


_SIZES = (1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16)
#: Every dtype by name, in the order of the file numbers.
DTYPES = {name: dtype(name, code, _SIZES[code]) for name, code in CODES.items()}
_core.set_dtypes(list(DTYPES.values()))

bool_ = DTYPES["bool"]
uint8 = DTYPES["uint8"]
int8 = DTYPES["int8"]
int16 = DTYPES["int16"]
int32 = DTYPES["int32"]
int64 = DTYPES["int64"]
float16 = DTYPES["float16"]
bfloat16 = DTYPES["bfloat16"]
float32 = DTYPES["float32"]
float64 = DTYPES["float64"]
complex64 = DTYPES["complex64"]
complex128 = DTYPES["complex128"]


#: What names an element type: itself, "float32", or what NumPy takes.
DTypeLike: TypeAlias = dtype | str | type[object] | np.dtype[Any]


def as_dtype(value: DTypeLike) -> dtype:
    """The dtype of a dtype, a name, a NumPy type or a Python number type.

    `float` and "default" are the default dtype, `int` is int64.
    """
    if isinstance(value, dtype):
        return value
    if value is float or (isinstance(value, str) and value == "default"):
        return get_default_dtype()
    if value is int:
        return int64
    name = value if isinstance(value, str) else None
    if name is None:
        try:
            name = np.dtype(value).name
        except (TypeError, ValueError):
            name = str(value)
    found = DTYPES.get(name.rpartition(".")[2])
    if found is None:
        raise InvalidArgumentError(
            f"[dtype] expected one of {', '.join(DTYPES)}, got {value!r}"
        )
    return found


def set_default_dtype(d: DTypeLike) -> None:
    """Make ``d`` (a floating one) the dtype of Python floats and new parameters."""
    wanted = as_dtype(d)
    if not wanted.is_floating:
        raise InvalidArgumentError(
            f"[set_default_dtype] expected a floating dtype, got {wanted}"
        )
    _core.set_default_dtype(wanted)


def get_default_dtype() -> dtype:
    """The dtype of Python floats: float32 unless set."""
    found: dtype = _core.get_default_dtype()
    return found
