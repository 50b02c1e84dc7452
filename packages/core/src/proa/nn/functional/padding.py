"""Padding."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.errors import ShapeError
from proa.tensor.arguments import as_ints

__all__ = ["pad", "zeropad2d"]


def pad(
    x: Tensor,
    pad: Any,
    mode: str = "constant",
    value: float = 0.0,
    data_format: str = "NCHW",
    name: Any = None,
) -> Tensor:
    """x with elements put around it.

    Args:
        x: The input.
        pad: With a pair for every axis, (before, after) axis by axis from the first.
            Else pairs for the spatial axes of ``data_format``, beginning with the last
            axis: (left, right, top, bottom).
        mode: constant, reflect, replicate or circular.
        value: What constant mode puts there.
        data_format: Which axes are spatial: NCL, NLC, NCHW, NHWC, NCDHW, NDHWC.
    """
    amount = as_ints("pad", pad)
    low, high = [0] * x.ndim, [0] * x.ndim
    if len(amount) == 2 * x.ndim and mode == "constant":
        low, high = amount[0::2], amount[1::2]
    else:
        first = 2 if data_format.startswith("NC") else 1
        if len(amount) != 2 * (x.ndim - 2):
            raise ShapeError(
                "pad", f"pad must have {2 * (x.ndim - 2)} numbers for rank {x.ndim}",
                amount,
            )  # fmt: skip
        for i in range(x.ndim - 2):
            axis = first + x.ndim - 3 - i
            low[axis], high[axis] = amount[2 * i], amount[2 * i + 1]
    kind: Any = mode  # checked by the operator
    return ops.pad(x, low=low, high=high, mode=kind, value=value)


def zeropad2d(
    x: Tensor, padding: Any, data_format: str = "NCHW", name: Any = None
) -> Tensor:
    """Zeros put around the image: left, right, top, bottom."""
    return pad(x, padding, "constant", 0.0, data_format)
