"""The protocol's datatypes and how each is held in NumPy, on the wire and in JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from proa_serving.protocol.errors import InvalidRequestError, UnsupportedError


@dataclass(frozen=True)
class Datatype:
    """One row: a datatype of the protocol.

    Args:
        name: As the protocol spells it.
        dtype: How NumPy holds it; BYTES are Python objects, BF16 its 16-bit words.
        contents: The field of ``InferTensorContents`` for it; none if raw bytes only.
        kinds: NumPy kinds that a JSON list of it may come as.
    """

    name: str
    dtype: np.dtype[Any]
    contents: str | None
    kinds: str


_ROWS = (
    Datatype("BOOL", np.dtype("?"), "bool_contents", "b"),
    Datatype("UINT8", np.dtype("u1"), "uint_contents", "iu"),
    Datatype("UINT16", np.dtype("<u2"), "uint_contents", "iu"),
    Datatype("UINT32", np.dtype("<u4"), "uint_contents", "iu"),
    Datatype("UINT64", np.dtype("<u8"), "uint64_contents", "iu"),
    Datatype("INT8", np.dtype("i1"), "int_contents", "iu"),
    Datatype("INT16", np.dtype("<i2"), "int_contents", "iu"),
    Datatype("INT32", np.dtype("<i4"), "int_contents", "iu"),
    Datatype("INT64", np.dtype("<i8"), "int64_contents", "iu"),
    Datatype("FP16", np.dtype("<f2"), None, "iuf"),
    Datatype("BF16", np.dtype("<u2"), None, ""),
    Datatype("FP32", np.dtype("<f4"), "fp32_contents", "iuf"),
    Datatype("FP64", np.dtype("<f8"), "fp64_contents", "iuf"),
    Datatype("BYTES", np.dtype(object), "bytes_contents", "SUO"),
)
DATATYPES = {row.name: row for row in _ROWS}
# BF16 shares UINT16's storage, so a dtype alone never names it.
_BY_DTYPE = {row.dtype: row.name for row in _ROWS if row.name != "BF16"}


def datatype_of(name: str, where: str) -> Datatype:
    """The row called ``name``; ``where`` is for the error."""
    row = DATATYPES.get(name)
    if row is None:
        known = ", ".join(DATATYPES)
        raise InvalidRequestError(
            where, f"datatype must be one of {known}, got {name!r:.80}"
        )
    return row


def name_of_dtype(dtype: np.dtype[Any]) -> str:
    """The datatype that holds arrays of ``dtype``."""
    if dtype.kind in "SU":
        return "BYTES"
    name = _BY_DTYPE.get(dtype.newbyteorder("<"))
    if name is None:
        raise UnsupportedError(
            "datatype", f"dtype must be one the protocol knows, got {dtype}"
        )
    return name
