"""Padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.arguments import as_ints

if TYPE_CHECKING:
    from proa.tensor.arguments import IntsLike

__all__ = ["pad", "zeropad2d"]

_MODES = ("constant", "reflect", "replicate", "circular")
_FORMATS = {
    3: ("NCL", "NLC", "NCHW"),
    4: ("NCHW", "NHWC"),
    5: ("NCDHW", "NDHWC", "NCHW"),
}


def _check_room(x: Tensor, low: list[int], high: list[int], mode: str) -> None:
    """Nothing can be mirrored or wrapped around that is not there."""
    room = {"reflect": 1, "circular": 0}.get(mode)
    for n, before, after in zip(x.shape, low, high, strict=True):
        if min(before, after) < 0:
            raise InvalidArgumentError(
                f"[pad] pad must not be negative in mode {mode}, got {before}, {after}"
            )
        if room is not None and 0 <= n < max(before, after) + room:
            raise ShapeError(
                "pad", f"an axis must have {max(before, after) + room} elements to be "
                f"padded by {before} and {after} in mode {mode}", x.shape,
            )  # fmt: skip


def pad(
    x: Tensor,
    pad: IntsLike,
    mode: str = "constant",
    value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """x with elements put around it.

    Args:
        x: The input, of rank 3 to 5 unless ``pad`` has a pair for every axis.
        pad: With a pair for every axis, (before, after) axis by axis from the first;
            constant mode only. Else pairs for the spatial axes of ``data_format``,
            beginning with the last: (left, right, top, bottom, front, back).
            Negative numbers crop, in constant mode.
        mode: constant, reflect (the edge is not repeated), replicate or circular.
        value: What constant mode puts there.
        data_format: Which axes are spatial: NCL, NLC, NCHW, NHWC, NCDHW, NDHWC.

    Raises:
        InvalidArgumentError: If mode or data_format is not as described.
        ShapeError: If pad does not fit x.
    """
    if mode not in _MODES:
        raise InvalidArgumentError(
            f"[pad] mode must be one of {', '.join(_MODES)}, got {mode!r}"
        )
    amount = as_ints("pad", pad)
    low, high = [0] * x.ndim, [0] * x.ndim
    if len(amount) == 2 * x.ndim and mode == "constant":
        low, high = amount[0::2], amount[1::2]
    else:
        if x.ndim not in _FORMATS:
            raise ShapeError("pad", "x must have rank 3, 4 or 5", x.shape)
        if data_format not in _FORMATS[x.ndim]:
            raise InvalidArgumentError(
                f"[pad] data_format must be one of {_FORMATS[x.ndim]}, "
                f"got {data_format!r}"
            )
        axes = x.ndim - 2
        if len(amount) != 2 * axes:
            raise ShapeError(
                "pad", f"pad must have {2 * axes} numbers for rank {x.ndim}", amount
            )
        first = 2 if data_format.startswith("NC") else 1
        for i in range(axes):
            axis = first + axes - 1 - i
            low[axis], high[axis] = amount[2 * i], amount[2 * i + 1]
    if mode != "constant":
        _check_room(x, low, high, mode)
    kind: Any = mode
    return ops.pad(x, low=low, high=high, mode=kind, value=value)


def zeropad2d(
    x: Tensor, padding: IntsLike, data_format: str = "NCHW", name: str | None = None
) -> Tensor:
    """Zeros put around the image: left, right, top, bottom."""
    amount = as_ints("zeropad2d", padding)
    return pad(x, amount * (4 if len(amount) == 1 else 1), data_format=data_format)
