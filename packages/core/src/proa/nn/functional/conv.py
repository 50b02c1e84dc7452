"""Convolutions. All are conv2d or its transpose.

A line is an image of one row. A volume is taken apart along its depth D: the frames a
kernel meets at one depth become channels of one image,

    (N, C, D, H, W) -> (N * D', C * KD, H, W),   (O, C, KD, KH, KW) -> (O, C * KD, ..)

so that one conv2d over it sums over the depth of the kernel as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn.functional.geometry import (
    channels_first,
    per_axis,
    placement,
    restored,
    split_axis,
)
from proa.tensor.arguments import as_int

if TYPE_CHECKING:
    from proa.base.typing import PaddingLike
    from proa.tensor.arguments import IntsLike

__all__ = [
    "conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d",
    "conv3d_transpose",
]  # fmt: skip


def _checked(where: str, weight: Tensor, groups: int, axes: int) -> list[int]:
    """The shape of the kernels."""
    shape = weight.shape
    if len(shape) != axes + 2 or 0 in shape:
        must = f"weight must have rank {axes + 2} and not be empty"
        raise ShapeError(where, must, shape)
    if as_int(where, groups) < 1:
        raise InvalidArgumentError(f"[{where}] groups must be positive, got {groups}")
    return shape


def _check_channels(where: str, channels: int, weight: Tensor, groups: int) -> None:
    """Channels of a convolution's input, -1 if unknown, are those of its kernels."""
    got = f"in_channels={channels}, groups={groups}"
    if channels >= 0 and channels % groups:
        raise ShapeError(
            f"[{where}] expected in_channels divisible by groups, got {got}"
        )
    per_group = weight.shape[1]
    if channels not in (-1, per_group * groups):
        raise ShapeError(
            f"[{where}] expected in_channels equal to groups * weight.shape[1], got "
            f"{got}, weight.shape[1]={per_group}"
        )


def _depth_as_channels(
    x: Tensor, size: int, stride: int, padding: list[int], dilation: int
) -> tuple[Tensor, int]:
    """(N, C, D, H, W) -> (N * D', C * size, H, W), and D'."""
    if any(padding):
        x = ops.pad(x, low=[0, 0, padding[0], 0, 0], high=[0, 0, padding[1], 0, 0])
    frames = ops.windows(x, axis=2, size=size, step=stride, dilation=dilation)
    frames = ops.transpose(frames, perm=[0, 2, 1, 5, 3, 4])  # N, D', C, size, H, W
    count = frames.shape[1]
    merged = ops.flatten(frames, start_axis=0, stop_axis=1)
    return ops.flatten(merged, start_axis=1, stop_axis=2), count


def _conv(
    where: str,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: IntsLike,
    padding: PaddingLike,
    dilation: IntsLike,
    groups: int,
    data_format: str,
    axes: int,
) -> Tensor:
    image = channels_first(x, data_format, where, axes)
    _, _, *kernel = _checked(where, weight, groups, axes)
    _, channels, *size = image.shape
    _check_channels(where, channels, weight, groups)
    _, steps, border, gaps = placement(
        where, size, kernel, stride, padding, dilation, data_format
    )
    if axes == 1:
        image, weight = ops.unsqueeze(image, axis=[2]), ops.unsqueeze(weight, axis=[2])
        steps, gaps, border = [1, *steps], [1, *gaps], [0, 0, *border]
    depth = 0
    if axes == 3:
        image, depth = _depth_as_channels(
            image, kernel[0], steps[0], border[:2], gaps[0]
        )
        weight = ops.flatten(weight, start_axis=1, stop_axis=2)
        steps, gaps, border = steps[1:], gaps[1:], border[2:]
    y = ops.conv2d(
        image, weight, bias,
        stride=steps, padding=border, dilation=gaps, groups=groups,
    )  # fmt: skip
    if axes == 1:
        y = ops.squeeze(y, axis=[2])
    if axes == 3:
        y = ops.transpose(split_axis(y, 0, [x.shape[0], depth]), perm=[0, 2, 1, 3, 4])
    return restored(y, data_format)


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntsLike = 1,
    padding: PaddingLike = 0,
    dilation: IntsLike = 1,
    groups: int = 1,
    data_format: str = "NCL",
    name: str | None = None,
) -> Tensor:
    """Cross-correlation of (N, C, L) with kernels (O, C / groups, K), plus a bias.

    Arguments are those of `conv2d` for one axis.
    """
    return _conv(
        "conv1d", x, weight, bias, stride, padding, dilation, groups, data_format, 1
    )


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntsLike = 1,
    padding: PaddingLike = 0,
    dilation: IntsLike = 1,
    groups: int = 1,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Cross-correlation of images with kernels, plus a bias.

    y[n, o, i, j] = bias[o] + sum over c, p, q of
    weight[o, c, p, q] * x[n, c, i * stride - top + p * dilation, j * stride - ..]

    Args:
        x: (N, C, H, W), or (N, H, W, C) by data_format.
        weight: (O, C / groups, KH, KW) in either format.
        bias: (O,) or None.
        stride: One number or one for each axis; likewise dilation.
        padding: One number, (height, width), (top, bottom, left, right), pairs for
            every axis, "same" (ceil(size / stride) positions) or "valid".
        dilation: Distance of the kernels' taps.
        groups: Blocks of channels that do not mix.
        data_format: NCHW or NHWC.

    Raises:
        ShapeError: If ranks or channels do not fit.
        InvalidArgumentError: If another argument is not as described.
    """
    return _conv(
        "conv2d", x, weight, bias, stride, padding, dilation, groups, data_format, 2
    )


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntsLike = 1,
    padding: PaddingLike = 0,
    dilation: IntsLike = 1,
    groups: int = 1,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """Cross-correlation of (N, C, D, H, W) with (O, C / groups, KD, KH, KW).

    Arguments are those of `conv2d` for three axes.
    """
    return _conv(
        "conv3d", x, weight, bias, stride, padding, dilation, groups, data_format, 3
    )


def _left_over(
    where: str,
    output_padding: IntsLike,
    output_size: IntsLike | None,
    minimum: list[int],
    steps: list[int],
) -> list[int]:
    """Elements after the last window, from either of the ways to request them."""
    axes = len(steps)
    extra = per_axis(where, output_padding, axes, "output_padding", 0)
    if output_size is None:
        low, what = [0] * axes, "output_padding"
    else:
        if any(extra):
            raise InvalidArgumentError(
                f"[{where}] output_padding must be 0 where output_size is given, "
                f"got {output_padding}"
            )
        low, what = minimum, "output_size"
        size = per_axis(where, output_size, axes, what)
        if min(minimum) < 0:
            raise InvalidArgumentError(
                f"[{where}] output_size must not be given for x of unknown size, "
                f"got {output_size}"
            )
        extra = [n - m for n, m in zip(size, minimum, strict=True)]
    if any(not 0 <= e < s for e, s in zip(extra, steps, strict=True)):
        limits = ", ".join(f"[{n}, {n + s})" for n, s in zip(low, steps, strict=True))
        got = output_padding if output_size is None else output_size
        raise InvalidArgumentError(f"[{where}] {what} must be in {limits}, got {got}")
    return extra


def _channels_as_depth(
    y: Tensor,
    sizes: tuple[int, int, int],
    stride: int,
    padding: list[int],
    dilation: int,
    extra: int,
) -> Tensor:
    """(N * D, O * KD, H, W) -> (N, O, D', H, W): every frame added where it belongs.

    ``sizes`` are N, D (one of which may be unknown) and KD.
    """
    count, depth, taps = sizes
    frames = split_axis(split_axis(y, 0, [count, depth]), 2, [y.shape[1] // taps, taps])
    frames = ops.transpose(frames, perm=[0, 2, 1, 4, 5, 3])  # N, O, D, H, W, KD
    if depth < 0:
        raise InvalidArgumentError(
            "[conv3d_transpose] the depth of x must be known, got -1"
        )
    whole = (depth - 1) * stride + dilation * (taps - 1) + 1 + extra
    one = ops.slice(frames, axes=[2, 5], starts=[0, 0], ends=[1, 1], steps=[1, 1])
    like = ops.broadcast_to(ops.squeeze(one, axis=[5]), shape=[-1, -1, whole, -1, -1])
    y = ops.windows_grad(
        frames, like, axis=2, size=taps, step=stride, dilation=dilation
    )
    if not any(padding):
        return y
    end = whole - padding[1]
    return ops.slice(y, axes=[2], starts=[padding[0]], ends=[end], steps=[1])


def _conv_transpose(
    where: str,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: IntsLike,
    padding: PaddingLike,
    output_padding: IntsLike,
    dilation: IntsLike,
    groups: int,
    output_size: IntsLike | None,
    data_format: str,
    axes: int,
) -> Tensor:
    image = channels_first(x, data_format, where, axes)
    inputs, _, *kernel = _checked(where, weight, groups, axes)
    _, channels, *size = image.shape
    if channels not in (-1, inputs):
        raise ShapeError(
            f"[{where}] expected in_channels equal to weight.shape[0], got "
            f"in_channels={channels}, weight.shape[0]={inputs}"
        )
    _, steps, border, gaps = placement(
        where, size, kernel, stride, padding, dilation, data_format
    )
    minimum = [
        -1
        if size[i] < 0
        else (size[i] - 1) * steps[i] + gaps[i] * (kernel[i] - 1) + 1
        - border[2 * i] - border[2 * i + 1]
        for i in range(axes)
    ]  # fmt: skip
    extra = _left_over(where, output_padding, output_size, minimum, steps)
    if axes == 3:
        image = ops.transpose(image, perm=[0, 2, 1, 3, 4])
        image = ops.flatten(image, start_axis=0, stop_axis=1)
        weight = ops.flatten(weight, start_axis=1, stop_axis=2)
    if axes == 1:
        image, weight = ops.unsqueeze(image, axis=[2]), ops.unsqueeze(weight, axis=[2])
        steps, gaps, extra = [1, *steps], [1, *gaps], [0, *extra]
        border = [0, 0, *border]
    y = ops.conv2d_transpose(
        image, weight, None if axes == 3 else bias,
        stride=steps[-2:], padding=border[-4:], dilation=gaps[-2:], groups=groups,
        output_padding=extra[-2:],
    )  # fmt: skip
    if axes == 1:
        y = ops.squeeze(y, axis=[2])
    if axes == 3:
        sizes = (x.shape[0], size[0], kernel[0])
        y = _channels_as_depth(y, sizes, steps[0], border[:2], gaps[0], extra[0])
        if bias is not None:
            y = ops.add(y, ops.reshape(bias, shape=[1, -1, 1, 1, 1]))
    return restored(y, data_format)


def conv1d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntsLike = 1,
    padding: PaddingLike = 0,
    output_padding: IntsLike = 0,
    groups: int = 1,
    dilation: IntsLike = 1,
    output_size: IntsLike | None = None,
    data_format: str = "NCL",
    name: str | None = None,
) -> Tensor:
    """The transpose of conv1d: (N, C, L) with weight (C, O / groups, K).

    Arguments are those of `conv2d_transpose` for one axis.
    """
    return _conv_transpose(
        "conv1d_transpose", x, weight, bias, stride, padding, output_padding, dilation,
        groups, output_size, data_format, 1,
    )  # fmt: skip


def conv2d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntsLike = 1,
    padding: PaddingLike = 0,
    output_padding: IntsLike = 0,
    groups: int = 1,
    dilation: IntsLike = 1,
    data_format: str = "NCHW",
    output_size: IntsLike | None = None,
    name: str | None = None,
) -> Tensor:
    """The transpose of conv2d: every x[n, c, i, j] adds itself times kernel c.

    H' = (H - 1) * stride - top - bottom + dilation * (KH - 1) + 1 + output_padding

    Args:
        x: (N, C, H, W), or (N, H, W, C) by data_format.
        weight: (C, O / groups, KH, KW) in either format.
        bias: (O,) or None.
        stride: One number or one for each axis; likewise dilation.
        padding: What is cut off the border, in the forms that `conv2d` takes.
        output_padding: What is added at the end, less than the stride.
        groups: Blocks of channels that do not mix.
        dilation: Distance of the kernels' taps.
        data_format: NCHW or NHWC.
        output_size: H' and W', in place of output_padding.

    Raises:
        ShapeError: If ranks or channels do not fit.
        InvalidArgumentError: If another argument is not as described.
    """
    return _conv_transpose(
        "conv2d_transpose", x, weight, bias, stride, padding, output_padding, dilation,
        groups, output_size, data_format, 2,
    )  # fmt: skip


def conv3d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntsLike = 1,
    padding: PaddingLike = 0,
    output_padding: IntsLike = 0,
    groups: int = 1,
    dilation: IntsLike = 1,
    data_format: str = "NCDHW",
    output_size: IntsLike | None = None,
    name: str | None = None,
) -> Tensor:
    """The transpose of conv3d: (N, C, D, H, W) with (C, O / groups, KD, KH, KW).

    Arguments are those of `conv2d_transpose` for three axes.
    """
    return _conv_transpose(
        "conv3d_transpose", x, weight, bias, stride, padding, output_padding, dilation,
        groups, output_size, data_format, 3,
    )  # fmt: skip
