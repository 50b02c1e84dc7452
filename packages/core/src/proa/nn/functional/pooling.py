"""Pooling. All is done by rows over images.

A line is an image of one row. Windows of a volume are products of windows of each axis,
so a volume is pooled within its frames, which are taken as channels, and the result
along the depth:

    (N, C, D, H, W) -> (N, C * D, H', W') -> (N, C, D, H' * W') -> (N, C, D', H' * W')
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.nn.functional.geometry import (
    channels_first,
    placement,
    restored,
    split_axis,
)
from proa.tensor.arguments import as_int

if TYPE_CHECKING:
    from proa.base.typing import OutputSizeLike, PaddingLike
    from proa.tensor.arguments import IntsLike

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d",
]  # fmt: skip

#: Attributes of a pooling operator: lists with one number (padding: two) for each axis.
PoolWindow = dict[str, list[int]]


def _pool_window(
    where: str,
    x: Tensor,
    kernel_size: IntsLike,
    stride: IntsLike | None,
    padding: PaddingLike,
    data_format: str = "NCHW",
) -> PoolWindow:
    """The windows over x (N, C, spatial axes)."""
    kernel, steps, border, _ = placement(
        where, x.shape[2:], kernel_size, stride, padding, 1, data_format
    )
    for i, n in enumerate(border):
        if n >= kernel[i // 2]:
            raise InvalidArgumentError(
                f"[{where}] padding must be less than the kernel's {kernel}, "
                f"got {padding}"
            )
    return {"kernel": kernel, "stride": steps, "padding": border}


def _adaptive(where: str, x: Tensor, output_size: OutputSizeLike) -> PoolWindow:
    """Windows that cover x; None keeps the size of an axis."""
    axes = x.ndim - 2
    wanted = output_size if isinstance(output_size, (list, tuple)) else [output_size]
    wanted = list(wanted) * axes if len(wanted) == 1 else wanted
    if len(wanted) != axes:
        raise InvalidArgumentError(
            f"[{where}] output_size must be one number or {axes}, got {output_size}"
        )
    size = [
        n if want is None else as_int(where, want)
        for n, want in zip(x.shape[2:], wanted, strict=True)
    ]
    if min(size) < 1:
        raise InvalidArgumentError(
            f"[{where}] output_size must be positive (None for a known size), "
            f"got {output_size}"
        )
    return {"size": size}


def _along(window: PoolWindow, first: int, last: int) -> PoolWindow:
    """The windows of axes [first, last)."""
    return {
        name: v[2 * first : 2 * last] if name == "padding" else v[first:last]
        for name, v in window.items()
    }


def _one_axis(window: PoolWindow, others: int, before: bool) -> PoolWindow:
    """Windows of one axis, with an axis of ``others`` elements that stays."""
    idle = {"kernel": [1], "stride": [1], "padding": [0, 0], "size": [others]}
    return {
        name: idle[name] + v if before else v + idle[name] for name, v in window.items()
    }


def _in_frames(row: str, x: Tensor, window: PoolWindow, **flags: bool) -> Tensor:
    """Every frame of a volume by the row, and all as (N, C, D, H' * W')."""
    flat = ops.flatten(x, start_axis=1, stop_axis=2)
    y = getattr(ops, row)(flat, **_along(window, 1, 3), **flags)
    y = ops.flatten(y, start_axis=2, stop_axis=3)
    return split_axis(y, 1, x.shape[1:3])


def _size_of_frames(
    row: str, x: Tensor, window: PoolWindow, **flags: bool
) -> list[int]:
    """H' and W' that the row makes of a frame."""
    if "size" in window:
        return window["size"][1:]
    result = []
    for d in (1, 2):
        n, k, s = x.shape[2 + d], window["kernel"][d], window["stride"][d]
        low, high = window["padding"][2 * d : 2 * d + 2]
        if n < 0:
            result.append(-1)
            continue
        up = s - 1 if flags.get("ceil_mode") else 0
        count = (n + low + high - k + up) // s + 1
        result.append(count - (up > 0 and (count - 1) * s >= n + low))
    return result


def _pool(row: str, x: Tensor, window: PoolWindow, **flags: bool) -> Tensor:
    """The row over x (N, C, 1 to 3 axes)."""
    function = getattr(ops, row)
    if x.ndim == 3:
        image = ops.unsqueeze(x, axis=[2])
        y = function(image, **_one_axis(window, 1, True), **flags)
        return ops.squeeze(y, axis=[2])
    if x.ndim == 4:
        result: Tensor = function(x, **window, **flags)
        return result
    frames = _in_frames(row, x, window, **flags)
    depth = _one_axis(_along(window, 0, 1), frames.shape[3], False)
    size = _size_of_frames(row, x, window, **flags)
    return split_axis(function(frames, **depth, **flags), 3, size)


def _places(row: str, x: Tensor, window: PoolWindow, **flags: bool) -> Tensor:
    """The index of each maximum within its (spatial) plane or volume."""
    index = f"{row}_index"
    if x.ndim < 5:
        return _pool(index, x, window, **flags)
    frames = _in_frames(row, x, window, **flags)
    within = _in_frames(index, x, window, **flags)  # of its frame
    depth = _one_axis(_along(window, 0, 1), frames.shape[3], False)
    best = getattr(ops, index)(frames, **depth, **flags)  # d * (H' * W') + place there
    at = ops.take_along_axis(
        ops.flatten(within, start_axis=2, stop_axis=3),
        ops.flatten(best, start_axis=2, stop_axis=3), axis=2,
    )  # fmt: skip
    d = ops.floor_div(best, frames.shape[3])
    places = ops.add(ops.mul(d, x.shape[3] * x.shape[4]), ops.reshape_like(at, best))
    return split_axis(places, 3, _size_of_frames(row, x, window, **flags))


def _max(
    where: str,
    x: Tensor,
    axes: int,
    window: Any,
    return_mask: bool,
    data_format: str,
    **flags: bool,
) -> Any:
    """Maxima and, on request, their indices."""
    image = channels_first(x, data_format, where, axes)
    row = "max_pool2d" if flags else "adaptive_max_pool2d"
    found = window(image)
    y = restored(_pool(row, image, found, **flags), data_format)
    if not return_mask:
        return y
    return y, restored(_places(row, image, found, **flags), data_format)


def _max_pool(
    where: str,
    x: Tensor,
    axes: int,
    kernel_size: IntsLike,
    stride: IntsLike | None,
    padding: PaddingLike,
    return_mask: bool,
    ceil_mode: bool,
    data_format: str,
) -> Any:
    return _max(
        where, x, axes,
        lambda image: _pool_window(
            where, image, kernel_size, stride, padding, data_format
        ),
        return_mask, data_format, ceil_mode=ceil_mode,
    )  # fmt: skip


def _avg_pool(
    where: str,
    x: Tensor,
    axes: int,
    kernel_size: IntsLike,
    stride: IntsLike | None,
    padding: PaddingLike,
    ceil_mode: bool,
    exclusive: bool,
    divisor_override: float | None,
    data_format: str,
) -> Tensor:
    image = channels_first(x, data_format, where, axes)
    window = _pool_window(where, image, kernel_size, stride, padding, data_format)
    if divisor_override is None:
        y = _pool("avg_pool2d", image, window, ceil_mode=ceil_mode, exclusive=exclusive)
        return restored(y, data_format)
    if divisor_override == 0:
        raise InvalidArgumentError(
            f"[{where}] divisor_override must not be 0, got {divisor_override}"
        )
    y = _pool("avg_pool2d", image, window, ceil_mode=ceil_mode, exclusive=False)
    y = ops.scale(y, scale=math.prod(window["kernel"]) / divisor_override)
    return restored(y, data_format)


def _adaptive_avg(
    where: str, x: Tensor, axes: int, output_size: OutputSizeLike, data_format: str
) -> Tensor:
    image = channels_first(x, data_format, where, axes)
    window = _adaptive(where, image, output_size)
    return restored(_pool("adaptive_avg_pool2d", image, window), data_format)


def _adaptive_max(
    where: str, x: Tensor, axes: int, output_size: OutputSizeLike, return_mask: bool
) -> Any:
    return _max(
        where, x, axes, lambda image: _adaptive(where, image, output_size),
        return_mask, {1: "NCL", 2: "NCHW", 3: "NCDHW"}[axes],
    )  # fmt: skip


def max_pool1d(
    x: Tensor,
    kernel_size: IntsLike,
    stride: IntsLike | None = None,
    padding: PaddingLike = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Any:
    """Greatest element of each window of (N, C, L).

    Arguments are those of `max_pool2d` for 1 axis.
    """
    return _max_pool(
        "max_pool1d", x, 1, kernel_size, stride, padding, return_mask, ceil_mode,
        "NCL",
    )  # fmt: skip


def max_pool2d(
    x: Tensor,
    kernel_size: IntsLike,
    stride: IntsLike | None = None,
    padding: PaddingLike = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """Greatest element of each window of (N, C, H, W).

    y[n, c, i, j] = max of x[n, c, h, w] over the window that begins at
    (i * stride - top, j * stride - left)

    Args:
        x: (N, C, H, W), or (N, H, W, C) by data_format.
        kernel_size: One number or one for each axis; likewise stride.
        stride: Distance of the windows; None is kernel_size.
        padding: One number, (height, width), (top, bottom, left, right), pairs for
            every axis, "same" or "valid"; never greater than what is pooled.
        return_mask: Also give h * W + w of each element, int32; the first of equals.
        ceil_mode: Also take a last window that is partly outside.
        data_format: NCHW or NHWC.

    Raises:
        ShapeError: If the rank of x does not fit.
        InvalidArgumentError: If another argument is not as described.
    """
    return _max_pool(
        "max_pool2d", x, 2, kernel_size, stride, padding, return_mask, ceil_mode,
        data_format,
    )  # fmt: skip


def max_pool3d(
    x: Tensor,
    kernel_size: IntsLike,
    stride: IntsLike | None = None,
    padding: PaddingLike = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Any:
    """Greatest element of each window of (N, C, D, H, W).

    Arguments are those of `max_pool2d` for 3 axes.
    """
    return _max_pool(
        "max_pool3d", x, 3, kernel_size, stride, padding, return_mask, ceil_mode,
        data_format,
    )  # fmt: skip


def avg_pool1d(
    x: Tensor,
    kernel_size: IntsLike,
    stride: IntsLike | None = None,
    padding: PaddingLike = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Tensor:
    """Mean of each window of (N, C, L).

    Arguments are those of `avg_pool2d` for 1 axis.
    """
    return _avg_pool(
        "avg_pool1d", x, 1, kernel_size, stride, padding, ceil_mode, exclusive,
        None, "NCL",
    )  # fmt: skip


def avg_pool2d(
    x: Tensor,
    kernel_size: IntsLike,
    stride: IntsLike | None = None,
    padding: PaddingLike = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Mean of each window of (N, C, H, W).

    Args:
        x: (N, C, H, W), or (N, H, W, C) by data_format.
        kernel_size: One number or one for each axis; likewise stride.
        stride: Distance of the windows; None is kernel_size.
        padding: In the forms that `max_pool2d` takes.
        ceil_mode: Also take a last window that is partly outside.
        exclusive: Divide by the elements that are no padding, not by the window's size.
        divisor_override: Divide by this number instead.
        data_format: NCHW or NHWC.

    Raises:
        ShapeError: If the rank of x does not fit.
        InvalidArgumentError: If another argument is not as described.
    """
    return _avg_pool(
        "avg_pool2d", x, 2, kernel_size, stride, padding, ceil_mode, exclusive,
        divisor_override, data_format,
    )  # fmt: skip


def avg_pool3d(
    x: Tensor,
    kernel_size: IntsLike,
    stride: IntsLike | None = None,
    padding: PaddingLike = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """Mean of each window of (N, C, D, H, W).

    Arguments are those of `avg_pool2d` for 3 axes.
    """
    return _avg_pool(
        "avg_pool3d", x, 3, kernel_size, stride, padding, ceil_mode, exclusive,
        divisor_override, data_format,
    )  # fmt: skip


def adaptive_avg_pool1d(
    x: Tensor, output_size: OutputSizeLike, name: str | None = None
) -> Tensor:
    """Mean over output_size windows that cover (N, C, L); None keeps a size."""
    return _adaptive_avg("adaptive_avg_pool1d", x, 1, output_size, "NCL")


def adaptive_avg_pool2d(
    x: Tensor,
    output_size: OutputSizeLike,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Mean over output_size windows that cover (N, C, H, W); None keeps a size.

    Window i of an axis covers floor(i * n / size) to ceil((i + 1) * n / size).
    """
    return _adaptive_avg("adaptive_avg_pool2d", x, 2, output_size, data_format)


def adaptive_avg_pool3d(
    x: Tensor,
    output_size: OutputSizeLike,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """Mean over output_size windows that cover (N, C, D, H, W); None keeps a size."""
    return _adaptive_avg("adaptive_avg_pool3d", x, 3, output_size, data_format)


def adaptive_max_pool1d(
    x: Tensor,
    output_size: OutputSizeLike,
    return_mask: bool = False,
    name: str | None = None,
) -> Any:
    """Greatest element of output_size windows that cover (N, C, L).

    With return_mask also the index of each within its line, int32.
    """
    return _adaptive_max("adaptive_max_pool1d", x, 1, output_size, return_mask)


def adaptive_max_pool2d(
    x: Tensor,
    output_size: OutputSizeLike,
    return_mask: bool = False,
    name: str | None = None,
) -> Any:
    """Greatest element of output_size windows that cover (N, C, H, W).

    With return_mask also the index of each within its image, int32.
    """
    return _adaptive_max("adaptive_max_pool2d", x, 2, output_size, return_mask)


def adaptive_max_pool3d(
    x: Tensor,
    output_size: OutputSizeLike,
    return_mask: bool = False,
    name: str | None = None,
) -> Any:
    """Greatest element of output_size windows that cover (N, C, D, H, W).

    With return_mask also the index of each within its volume, int32.
    """
    return _adaptive_max("adaptive_max_pool3d", x, 3, output_size, return_mask)
