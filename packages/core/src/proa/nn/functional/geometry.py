"""How functions over images read their arguments: layouts, windows and padding."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, ShapeError
from proa.tensor.arguments import as_ints

__all__ = [
    "channels_first",
    "edges",
    "per_axis",
    "restored",
    "spatial_size",
    "split_axis",
]

#: Channels first and last, by the number of spatial axes.
FORMATS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def per_axis(
    where: str, value: Any, axes: int, what: str = "an argument", minimum: int = 1
) -> list[int]:
    """One integer >= ``least`` for each of ``axes`` axes, from one or from as many."""
    numbers = as_ints(where, value)
    if len(numbers) not in (1, axes) or min(numbers) < minimum:
        raise InvalidArgumentError(
            f"[{where}] {what} must be one number or {axes}, each at least {minimum}, "
            f"got {value}"
        )
    return numbers * axes if len(numbers) == 1 else numbers


def channels_first(x: Tensor, data_format: str, where: str, axes: int = 2) -> Tensor:
    """x as (N, C, spatial axes) whatever its format; a view."""
    formats = FORMATS[axes]
    if data_format not in formats:
        raise InvalidArgumentError(
            f"[{where}] data_format must be {formats[0]} or {formats[1]}, "
            f"got {data_format!r}"
        )
    if x.ndim != axes + 2:
        raise ShapeError(where, f"x must have rank {axes + 2}", x.shape)
    if data_format == formats[0]:
        return x
    return ops.transpose(x, perm=[0, axes + 1, *range(1, axes + 1)])


def restored(y: Tensor, data_format: str) -> Tensor:
    """y, which is (N, C, spatial axes), in the format of the call."""
    if data_format.startswith("NC"):
        return y
    return ops.transpose(y, perm=[0, *range(2, y.ndim), 1])


def spatial_size(x: Tensor, data_format: str) -> list[int]:
    """The dimensions of x that are neither batch nor channels."""
    return x.shape[2:] if data_format.startswith("NC") else x.shape[1:-1]


def _pairs(where: str, padding: Any, axes: int, last: bool) -> list[int]:
    """Pairs for every axis, or for the spatial ones alone, as a list of the latter."""
    pairs = [as_ints(where, p) for p in padding]
    if len(pairs) == axes + 2:
        outer = [pairs[0], pairs.pop() if last else pairs.pop(1)]
        pairs = pairs[1:]
        if any(n for p in outer for n in p):
            raise InvalidArgumentError(
                f"[{where}] padding of the batch and channel axes must be 0, "
                f"got {padding}"
            )
    if len(pairs) != axes or any(len(p) != 2 or min(p) < 0 for p in pairs):
        raise InvalidArgumentError(
            f"[{where}] padding must have a pair of numbers >= 0 for each of {axes} or "
            f"{axes + 2} axes, got {padding}"
        )
    return [n for p in pairs for n in p]


def _same(where: str, size: int, reach: int, stride: int) -> list[int]:
    """Padding by which a window of ``reach`` gives ceil(size / stride) positions."""
    if size < 0 and stride != 1:
        raise InvalidArgumentError(
            f"[{where}] padding 'same' with a stride needs the size of x, got -1"
        )
    total = (
        reach - 1 if stride == 1 else (-(-size // stride) - 1) * stride + reach - size
    )
    total = max(total, 0)
    return [total // 2, total - total // 2]


def edges(
    where: str,
    padding: Any,
    size: list[int],
    kernel: list[int],
    stride: list[int],
    dilation: list[int],
    data_format: str,
) -> list[int]:
    """Padding as before, after for every spatial axis.

    It may be given as one number, one or two numbers for each spatial axis, pairs for
    the spatial or for all axes, "same" or "valid".
    """
    axes = len(size)
    if isinstance(padding, str):
        kind = padding.lower()
        if kind == "valid":
            return [0] * (2 * axes)
        if kind != "same":
            raise InvalidArgumentError(
                f"[{where}] padding must be numbers, 'same' or 'valid', got {padding!r}"
            )
        found = [
            _same(where, n, d * (k - 1) + 1, s)
            for n, k, s, d in zip(size, kernel, stride, dilation, strict=True)
        ]
        return [n for p in found for n in p]
    if isinstance(padding, (list, tuple)) and any(
        isinstance(p, (list, tuple)) for p in padding
    ):
        return _pairs(where, padding, axes, not data_format.startswith("NC"))
    numbers = as_ints(where, padding)
    if len(numbers) == 2 * axes and min(numbers) >= 0:
        return numbers
    each = per_axis(where, numbers, axes, "padding", 0)
    return [n for p in each for n in (p, p)]


class Placement(NamedTuple):
    """Stride, dilation and padding of each axis (padding: two numbers). Immutable."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]


def _fixed(value: Any) -> Any:
    """Numbers as something that a cache can look up."""
    kind = type(value)
    if kind is int or kind is str or value is None:
        return value
    if kind is list or kind is tuple:
        return tuple([v if type(v) is int else _fixed(v) for v in value])
    return tuple(as_ints("window", value))


def placement(
    where: str,
    size: list[int],
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    data_format: str,
) -> Placement:
    """The windows over axes of these sizes, from what a caller may say of them.

    A stride of None is the kernel's size. Results are cached, as programs repeat
    arguments.
    """
    known = tuple(size) if isinstance(padding, str) else (0,) * len(size)
    return _placement(
        where, known, _fixed(kernel), _fixed(stride), _fixed(padding),
        _fixed(dilation), data_format,
    )  # fmt: skip


@lru_cache(maxsize=4096, typed=True)
def _placement(
    where: str,
    size: tuple[int, ...],
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    data_format: str,
) -> Placement:
    axes = len(size)
    window = per_axis(where, kernel, axes, "kernel_size")
    steps = window if stride is None else per_axis(where, stride, axes, "stride")
    gaps = per_axis(where, dilation, axes, "dilation")
    border = edges(where, padding, list(size), window, steps, gaps, data_format)
    return Placement(window, steps, border, gaps)


def split_axis(x: Tensor, axis: int, sizes: list[int]) -> Tensor:
    """Axis ``axis`` as the two axes ``sizes``; dimensions may be unknown (-1)."""
    # A 0 means the dimension that is there to reshape: an empty one stays in place.
    wide = ops.unsqueeze(x, axis=[axis + 1 if sizes[0] == 0 else axis])
    shape = [0] * wide.ndim
    shape[axis : axis + 2] = sizes
    return ops.reshape(wide, shape=shape)
