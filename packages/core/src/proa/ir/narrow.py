"""Weights of a graph in 16 bits, widened where they are used."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Literal

import numpy as np

from proa.errors import InvalidArgumentError
from proa.ir.builder import make_node
from proa.ir.program import Array, Program, Value

HalfType = Literal["float16", "bfloat16"]

#: Constants of so few elements that are no parameters stay.
_SMALL = 64


def narrow_weights(
    program: Program,
    dtype: HalfType,
    where: str,
    excluded: Collection[str] = (),
    chosen: Callable[[str], bool] = lambda name: True,
) -> int:
    """Store float32 weights in 16 bits, each with a cast to float32 after it.

    Of one weight w the error is at most 2^-11 |w| in float16 (for 6e-5 <= |w| <= 65504)
    and 2^-8 |w| in bfloat16.

    Args:
        program: Rewritten in place.
        dtype: Dtype of the weights.
        where: The function that errors name.
        excluded: Operators whose weights stay.
        chosen: Whether the weight of a name is narrowed.

    Returns:
        How many weights were narrowed.

    Raises:
        InvalidArgumentError: If a weight is too large for float16.
    """
    count = 0
    for block in program.blocks:
        nodes = []
        for value in block.constants():
            users = [n for n in value.users if n.block is block]
            large = value.kind == "param" or math.prod(value.shape) > _SMALL
            if (
                value.dtype != "float32"
                or not large
                or value.is_output
                or any(n.op in excluded for n in users)
                or not chosen(value.name)
            ):
                continue
            narrowed = _narrowed(value, dtype, where)
            small = Value(value.name, dtype, value.shape, value.kind, narrowed)
            cast = make_node(program, "cast", [small], {"dtype": "float32"})
            block.replace(value, cast.outputs[0])
            nodes.append(cast)
        block.nodes = [*nodes, *block.nodes]
        count += len(nodes)
    return count


def _narrowed(value: Value, dtype: HalfType, where: str) -> Array:
    assert value.data is not None  # of a parameter
    if dtype == "float16":
        with np.errstate(over="ignore"):
            half = value.data.astype(np.float16)
        if np.any(np.isinf(half) & np.isfinite(value.data)):
            raise InvalidArgumentError(
                f"[{where}] expected weights of at most 65504, the largest of float16, "
                f"got {np.abs(value.data).max()} in {value.name!r}"
            )
        return half
    bits = np.ascontiguousarray(value.data).view(np.uint32)
    # Round half to even; NaNs keep a bit of their payload.
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    quiet = ((bits >> 16) | 0x40).astype(np.uint16)
    return np.where(np.isnan(value.data), quiet, rounded)
