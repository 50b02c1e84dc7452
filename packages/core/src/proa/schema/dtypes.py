"""Element types: names, file numbers, and the sets that rows admit."""

from __future__ import annotations

#: Name -> number; the numbers are those of csrc/portable/base/dtype.h.
CODES = {
    "bool": 0,
    "uint8": 1,
    "int8": 2,
    "int16": 3,
    "int32": 4,
    "int64": 5,
    "float16": 6,
    "bfloat16": 7,
    "float32": 8,
    "float64": 9,
    "complex64": 10,
    "complex128": 11,
}

BOOL = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
INTEGERS = ("uint8", *SIGNED)
FLOATING = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
REAL = INTEGERS + FLOATING
NUMERIC = REAL + COMPLEX
ALL = BOOL + NUMERIC
INEXACT = FLOATING + COMPLEX


def promote(a: str, b: str) -> str:
    """The dtype that both convert to: bool < integers < floats < complex.

    uint8 with a signed integer gives at least int16; float16 with bfloat16 gives
    float32; complex64 with float64 or an int64 follows NumPy's kind rule with the
    float width kept (PaddlePaddle 2.1 table).
    """
    if a == b:
        return a
    low, high = sorted((a, b), key=CODES.__getitem__)
    if high in INTEGERS and low == "uint8":
        return "int16" if high == "int8" else high
    if {low, high} == {"float16", "bfloat16"}:
        return "float32"
    if high == "complex64" and low == "float64":
        return "complex128"
    return high
