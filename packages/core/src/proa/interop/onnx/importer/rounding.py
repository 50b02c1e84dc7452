"""Numbers rounded to those that 8-bit floats and integers below 8 bits have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import proa


@dataclass(frozen=True)
class Float:
    """A narrow float's numbers.

    Attributes:
        digits: Bits of the mantissa.
        lowest: The exponent of the smallest normal number.
        highest: The greatest number.
        beyond: What is greater becomes, unless it saturates.
        negative_zero: Whether there is one.
    """

    digits: int
    lowest: int
    highest: float
    beyond: float
    negative_zero: bool = True


FLOATS = {
    "float4_e2m1fn": Float(1, 0, 6.0, 6.0),
    "float8_e4m3fn": Float(3, -6, 448.0, math.nan),
    "float8_e4m3fnuz": Float(3, -7, 240.0, math.nan, False),
    "float8_e5m2": Float(2, -14, 57344.0, math.inf),
    "float8_e5m2fnuz": Float(2, -15, 57344.0, math.nan, False),
}
#: (lowest, highest, what holds them).
INTEGERS = {
    "int2": (-2, 1, "int8"), "int4": (-8, 7, "int8"),
    "uint2": (0, 3, "uint8"), "uint4": (0, 15, "uint8"),
}  # fmt: skip


def rounded(x: Any, kind: str, saturate: bool = True) -> Any:
    """The nearest numbers of a narrow dtype, of two the even one, held by a wide one.

    Args:
        saturate: Whether numbers beyond the greatest float become that.
    """
    if kind in INTEGERS:
        low, high, held = INTEGERS[kind]
        return proa.clip(proa.round(x.astype("float32")), low, high).astype(held)
    form = FLOATS[kind]
    x = x.astype("float32")
    size = proa.abs(x)
    # The distance of numbers, which doubles with each exponent.
    step = proa.full_like(size, 2.0 ** (form.lowest - form.digits))
    for exponent in range(form.lowest + 1, math.frexp(form.highest)[1]):
        bound = 2.0**exponent
        step = proa.where(size >= bound, bound * 2.0**-form.digits, step)
    found = proa.round(size / step) * step
    beyond = form.highest if saturate else form.beyond
    found = proa.where(found > form.highest, beyond, found)
    found = proa.where(x < 0, -found, found)
    if form.negative_zero:
        return found
    return proa.where(found == 0, 0.0, found)


def converted(x: Any, kind: str, saturate: bool = True) -> Any:
    """Numbers as a cast makes them: integers without their fraction, of which the low
    bits are kept, and floats as `rounded` makes them.
    """
    if kind in FLOATS:
        return rounded(x, kind, saturate)
    low, high, held = INTEGERS[kind]
    whole = x.astype("int32")  # towards zero
    return (proa.mod(whole - low, high - low + 1) + low).astype(held)
