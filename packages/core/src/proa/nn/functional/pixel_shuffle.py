"""Pixel shuffle and unshuffle, and channel shuffle."""

from __future__ import annotations

from proa._core import Tensor, ops
from proa.errors import ShapeError
from proa.nn.functional.geometry import channels_first, restored, split_axis

__all__ = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


def _divides(where: str, part: int, whole: int, what: str, x: Tensor) -> None:
    if part < 1 or whole % part:
        raise ShapeError(where, f"{part} must divide the {what}", x.shape)


def pixel_shuffle(
    x: Tensor, upscale_factor: int, data_format: str = "NCHW", name: str | None = None
) -> Tensor:
    """(N, C r r, H, W) -> (N, C, H r, W r).

    y[n, c, h r + i, w r + j] = x[n, (c r + i) r + j, h, w]

    Args:
        x: The images.
        upscale_factor: r.
        data_format: NCHW or NHWC.

    Raises:
        ShapeError: If r * r does not divide the channels.

    Source: Shi et al., Real-time single image and video super-resolution, 2016.
    """
    image, r = channels_first(x, data_format, "pixel_shuffle"), int(upscale_factor)
    _divides("pixel_shuffle", r * r, image.shape[1], "channels", x)
    y = split_axis(image, 1, [image.shape[1] // (r * r), r * r])
    y = ops.transpose(split_axis(y, 2, [r, r]), perm=[0, 1, 4, 2, 5, 3])
    y = ops.flatten(y, start_axis=4, stop_axis=5)
    return restored(ops.flatten(y, start_axis=2, stop_axis=3), data_format)


def pixel_unshuffle(
    x: Tensor, downscale_factor: int, data_format: str = "NCHW", name: str | None = None
) -> Tensor:
    """(N, C, H r, W r) -> (N, C r r, H, W), undoing `pixel_shuffle`."""
    image, r = channels_first(x, data_format, "pixel_unshuffle"), int(downscale_factor)
    for n in image.shape[2:]:
        _divides("pixel_unshuffle", r, max(n, 0), "height and width", x)
    y = split_axis(image, 3, [-1, r])
    y = ops.transpose(split_axis(y, 2, [-1, r]), perm=[0, 1, 3, 5, 2, 4])
    y = ops.flatten(y, start_axis=1, stop_axis=3)
    return restored(y, data_format)


def channel_shuffle(
    x: Tensor, groups: int, data_format: str = "NCHW", name: str | None = None
) -> Tensor:
    """Channels g * (C / groups) + k of (N, C, H, W) moved to k * groups + g.

    Source: Zhang et al., ShuffleNet, 2017.
    """
    image = channels_first(x, data_format, "channel_shuffle")
    _divides("channel_shuffle", groups, image.shape[1], "channels", x)
    y = split_axis(image, 1, [groups, image.shape[1] // groups])
    y = ops.transpose(y, perm=[0, 2, 1, 3, 4])
    return restored(ops.flatten(y, start_axis=1, stop_axis=2), data_format)
