"""Pooling. Overloads state what a flag adds to the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, overload

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.nn.functional.geometry import channels_first, restored
from proa.nn.functional.pool_windows import (
    PoolWindow,
    adaptive_window,
    max_indices,
    pool,
    pool_window,
)

if TYPE_CHECKING:
    from proa.base.typing import MaybeIndices, OutputSizeLike, PaddingLike
    from proa.tensor.arguments import IntsLike

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d",
]  # fmt: skip


def _max(
    where: str,
    x: Tensor,
    axes: int,
    window: Callable[[Tensor], PoolWindow],
    return_mask: bool,
    data_format: str,
    **flags: bool,
) -> MaybeIndices:
    """Maxima and, on request, their indices."""
    image = channels_first(x, data_format, where, axes)
    row = "max_pool2d" if flags else "adaptive_max_pool2d"
    found = window(image)
    y = restored(pool(row, image, found, **flags), data_format)
    if not return_mask:
        return y
    return y, restored(max_indices(row, image, found, **flags), data_format)


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
) -> MaybeIndices:
    return _max(
        where, x, axes,
        lambda image: pool_window(
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
    window = pool_window(where, image, kernel_size, stride, padding, data_format)
    if divisor_override is None:
        y = pool("avg_pool2d", image, window, ceil_mode=ceil_mode, exclusive=exclusive)
        return restored(y, data_format)
    if divisor_override == 0:
        raise InvalidArgumentError(
            f"[{where}] divisor_override must not be 0, got {divisor_override}"
        )
    y = pool("avg_pool2d", image, window, ceil_mode=ceil_mode, exclusive=False)
    y = ops.scale(y, scale=math.prod(window["kernel"]) / divisor_override)
    return restored(y, data_format)


def _adaptive_avg(
    where: str, x: Tensor, axes: int, output_size: OutputSizeLike, data_format: str
) -> Tensor:
    image = channels_first(x, data_format, where, axes)
    window = adaptive_window(where, image, output_size)
    return restored(pool("adaptive_avg_pool2d", image, window), data_format)


def _adaptive_max(
    where: str, x: Tensor, axes: int, output_size: OutputSizeLike, return_mask: bool
) -> MaybeIndices:
    return _max(
        where, x, axes, lambda image: adaptive_window(where, image, output_size),
        return_mask, {1: "NCL", 2: "NCHW", 3: "NCDHW"}[axes],
    )  # fmt: skip


@overload
def max_pool1d(
    x: Tensor, kernel_size: IntsLike, stride: IntsLike | None = ...,
    padding: PaddingLike = ..., return_mask: Literal[False] = ...,
    ceil_mode: bool = ..., name: str | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def max_pool1d(
    x: Tensor, kernel_size: IntsLike, stride: IntsLike | None = ...,
    padding: PaddingLike = ..., return_mask: Literal[True] = ...,
    ceil_mode: bool = ..., name: str | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def max_pool1d(
    x: Tensor, kernel_size: IntsLike, stride: IntsLike | None = ...,
    padding: PaddingLike = ..., return_mask: bool = ...,
    ceil_mode: bool = ..., name: str | None = ...,
) -> MaybeIndices: ...  # fmt: skip
def max_pool1d(
    x: Tensor,
    kernel_size: IntsLike,
    stride: IntsLike | None = None,
    padding: PaddingLike = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> MaybeIndices:
    """Greatest element of each window of (N, C, L).

    Arguments are those of `max_pool2d` for 1 axis.
    """
    return _max_pool(
        "max_pool1d", x, 1, kernel_size, stride, padding, return_mask, ceil_mode,
        "NCL",
    )  # fmt: skip


@overload
def max_pool2d(
    x: Tensor, kernel_size: IntsLike, stride: IntsLike | None = ...,
    padding: PaddingLike = ..., return_mask: Literal[False] = ...,
    ceil_mode: bool = ..., data_format: str = ..., name: str | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def max_pool2d(
    x: Tensor, kernel_size: IntsLike, stride: IntsLike | None = ...,
    padding: PaddingLike = ..., return_mask: Literal[True] = ...,
    ceil_mode: bool = ..., data_format: str = ..., name: str | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def max_pool2d(
    x: Tensor, kernel_size: IntsLike, stride: IntsLike | None = ...,
    padding: PaddingLike = ..., return_mask: bool = ...,
    ceil_mode: bool = ..., data_format: str = ..., name: str | None = ...,
) -> MaybeIndices: ...  # fmt: skip
def max_pool2d(
    x: Tensor,
    kernel_size: IntsLike,
    stride: IntsLike | None = None,
    padding: PaddingLike = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> MaybeIndices:
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


@overload
def max_pool3d(
    x: Tensor, kernel_size: IntsLike, stride: IntsLike | None = ...,
    padding: PaddingLike = ..., return_mask: Literal[False] = ...,
    ceil_mode: bool = ..., data_format: str = ..., name: str | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def max_pool3d(
    x: Tensor, kernel_size: IntsLike, stride: IntsLike | None = ...,
    padding: PaddingLike = ..., return_mask: Literal[True] = ...,
    ceil_mode: bool = ..., data_format: str = ..., name: str | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def max_pool3d(
    x: Tensor, kernel_size: IntsLike, stride: IntsLike | None = ...,
    padding: PaddingLike = ..., return_mask: bool = ...,
    ceil_mode: bool = ..., data_format: str = ..., name: str | None = ...,
) -> MaybeIndices: ...  # fmt: skip
def max_pool3d(
    x: Tensor,
    kernel_size: IntsLike,
    stride: IntsLike | None = None,
    padding: PaddingLike = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> MaybeIndices:
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


@overload
def adaptive_max_pool1d(
    x: Tensor, output_size: OutputSizeLike, return_mask: Literal[False] = ...,
    name: str | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def adaptive_max_pool1d(
    x: Tensor, output_size: OutputSizeLike, return_mask: Literal[True] = ...,
    name: str | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def adaptive_max_pool1d(
    x: Tensor, output_size: OutputSizeLike, return_mask: bool = ...,
    name: str | None = ...,
) -> MaybeIndices: ...  # fmt: skip
def adaptive_max_pool1d(
    x: Tensor,
    output_size: OutputSizeLike,
    return_mask: bool = False,
    name: str | None = None,
) -> MaybeIndices:
    """Greatest element of output_size windows that cover (N, C, L).

    With return_mask also the index of each within its line, int32.
    """
    return _adaptive_max("adaptive_max_pool1d", x, 1, output_size, return_mask)


@overload
def adaptive_max_pool2d(
    x: Tensor, output_size: OutputSizeLike, return_mask: Literal[False] = ...,
    name: str | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def adaptive_max_pool2d(
    x: Tensor, output_size: OutputSizeLike, return_mask: Literal[True] = ...,
    name: str | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def adaptive_max_pool2d(
    x: Tensor, output_size: OutputSizeLike, return_mask: bool = ...,
    name: str | None = ...,
) -> MaybeIndices: ...  # fmt: skip
def adaptive_max_pool2d(
    x: Tensor,
    output_size: OutputSizeLike,
    return_mask: bool = False,
    name: str | None = None,
) -> MaybeIndices:
    """Greatest element of output_size windows that cover (N, C, H, W).

    With return_mask also the index of each within its image, int32.
    """
    return _adaptive_max("adaptive_max_pool2d", x, 2, output_size, return_mask)


@overload
def adaptive_max_pool3d(
    x: Tensor, output_size: OutputSizeLike, return_mask: Literal[False] = ...,
    name: str | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def adaptive_max_pool3d(
    x: Tensor, output_size: OutputSizeLike, return_mask: Literal[True] = ...,
    name: str | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
@overload
def adaptive_max_pool3d(
    x: Tensor, output_size: OutputSizeLike, return_mask: bool = ...,
    name: str | None = ...,
) -> MaybeIndices: ...  # fmt: skip
def adaptive_max_pool3d(
    x: Tensor,
    output_size: OutputSizeLike,
    return_mask: bool = False,
    name: str | None = None,
) -> MaybeIndices:
    """Greatest element of output_size windows that cover (N, C, D, H, W).

    With return_mask also the index of each within its volume, int32.
    """
    return _adaptive_max("adaptive_max_pool3d", x, 3, output_size, return_mask)
