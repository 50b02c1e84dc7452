"""Data types, places and precisions by their names in Paddle Inference."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from proa.errors import InvalidTypeError


class DataType(Enum):
    """Dtypes of elements. NumPy lacks bfloat16: its bits are passed as uint16."""

    FLOAT32 = 0
    INT64 = 1
    INT32 = 2
    UINT8 = 3
    INT8 = 4
    FLOAT16 = 5
    BOOL = 6
    FLOAT64 = 7
    BFLOAT16 = 8
    INT16 = 9
    COMPLEX64 = 10
    COMPLEX128 = 11

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of arrays of it."""
        name = self.name.lower()
        return np.dtype("uint16" if name == "bfloat16" else name)


class PlaceType(Enum):
    """Where memory is; the predictor's is the CPU's."""

    UNK = -1
    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM = 3


class PrecisionType(Enum):
    """Precision of a model's weights or arithmetic."""

    Float32 = 0
    Int8 = 1
    Half = 2
    Bfloat16 = 3


def get_num_bytes_of_data_type(dtype: DataType) -> int:
    """Bytes of one element.

    Raises:
        InvalidTypeError: If it is no `DataType`.
    """
    if not isinstance(dtype, DataType):
        raise InvalidTypeError(
            f"[get_num_bytes_of_data_type] expected a DataType, got {dtype!r}"
        )
    return int(dtype.numpy.itemsize)
