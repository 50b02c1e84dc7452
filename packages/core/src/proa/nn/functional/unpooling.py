"""Undoing of max pooling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn.functional.geometry import channels_first, placement, restored
from proa.tensor.arguments import as_ints

if TYPE_CHECKING:
    from proa.base.typing import PaddingLike
    from proa.tensor.arguments import IntsLike

__all__ = ["max_unpool1d", "max_unpool2d", "max_unpool3d"]


def _unpool(
    where: str,
    x: Tensor,
    indices: Tensor,
    axes: int,
    kernel_size: IntsLike,
    stride: IntsLike | None,
    padding: PaddingLike,
    data_format: str,
    output_size: IntsLike | None,
) -> Tensor:
    image = channels_first(x, data_format, where, axes)
    places = channels_first(indices, data_format, where, axes)
    if image.shape != places.shape:
        raise ShapeError(where, f"indices must have shape {x.shape}", indices.shape)
    kernel, steps, border, _ = placement(
        where, image.shape[2:], kernel_size, stride, padding, 1, data_format
    )
    if output_size is None:
        size = [
            (n - 1) * s + k - border[2 * i] - border[2 * i + 1]
            for i, (n, k, s) in enumerate(
                zip(image.shape[2:], kernel, steps, strict=True)
            )
        ]
    else:
        size = as_ints(where, output_size)
        if len(size) == axes + 2:
            size = size[2:] if data_format.startswith("NC") else size[1:-1]
    if len(size) != axes or min(size) < 1:
        raise InvalidArgumentError(
            f"[{where}] output_size must be {axes} positive numbers, got {output_size}"
        )
    flat = ops.flatten(image, start_axis=2, stop_axis=-1)
    zero = ops.slice(flat, axes=[2], starts=[0], ends=[1], steps=[1])
    zeros = ops.broadcast_to(
        ops.full_like(zero, value=0, dtype=x.dtype), shape=[-1, -1, math.prod(size)]
    )
    at = ops.flatten(places, start_axis=2, stop_axis=-1)
    y = ops.put_along_axis(zeros, at, flat, axis=2)
    y = ops.unsqueeze(y, axis=list(range(2, 1 + axes)))
    return restored(ops.reshape(y, shape=[0, 0, *size]), data_format)


def max_unpool1d(
    x: Tensor,
    indices: Tensor,
    kernel_size: IntsLike,
    stride: IntsLike | None = None,
    padding: PaddingLike = 0,
    data_format: str = "NCL",
    output_size: IntsLike | None = None,
    name: str | None = None,
) -> Tensor:
    """x (N, C, L) put where `max_pool1d` found it; zeros elsewhere."""
    return _unpool(
        "max_unpool1d", x, indices, 1, kernel_size, stride, padding, data_format,
        output_size,
    )  # fmt: skip


def max_unpool2d(
    x: Tensor,
    indices: Tensor,
    kernel_size: IntsLike,
    stride: IntsLike | None = None,
    padding: PaddingLike = 0,
    data_format: str = "NCHW",
    output_size: IntsLike | None = None,
    name: str | None = None,
) -> Tensor:
    """x (N, C, H, W) put where `max_pool2d` found it; zeros elsewhere.

    Args:
        x: What the pooling gave.
        indices: The mask that it gave, h * W + w.
        kernel_size: The pooling's; likewise stride and padding.
        stride: None is kernel_size.
        padding: In the forms that `max_pool2d` takes.
        data_format: NCHW or NHWC.
        output_size: Height and width of the result, where the pooling left some over:
            by default (H - 1) * stride + kernel_size - padding.

    Raises:
        ShapeError: If x and indices are not of one shape.
        OutOfRangeError: If an index is outside the result.
    """
    return _unpool(
        "max_unpool2d", x, indices, 2, kernel_size, stride, padding, data_format,
        output_size,
    )  # fmt: skip


def max_unpool3d(
    x: Tensor,
    indices: Tensor,
    kernel_size: IntsLike,
    stride: IntsLike | None = None,
    padding: PaddingLike = 0,
    data_format: str = "NCDHW",
    output_size: IntsLike | None = None,
    name: str | None = None,
) -> Tensor:
    """x (N, C, D, H, W) put where `max_pool3d` found it; zeros elsewhere."""
    return _unpool(
        "max_unpool3d", x, indices, 3, kernel_size, stride, padding, data_format,
        output_size,
    )  # fmt: skip
