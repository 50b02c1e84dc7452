"""Deformable convolution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError, ShapeError
from proa.nn.functional.geometry import per_axis, placement, split_axis
from proa.nn.functional.vision import corners_of, iota, row_index
from proa.nn.layer import Layer
from proa.nn.schemes import Normal
from proa.tensor.arguments import cast_if
from proa.tensor.creation import as_tensor

if TYPE_CHECKING:
    from proa.base.typing import PaddingLike
    from proa.nn.attr import ParamAttrLike
    from proa.tensor.arguments import IntsLike

__all__ = ["DeformConv2D", "deform_conv2d"]


def _check_shapes(
    x: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    size: list[int],
    parts: int,
    taps: int,
) -> None:
    """offset and mask have numbers for each tap at each place of the result."""
    if parts < 1 or x.shape[1] % parts:
        raise ShapeError(
            "deform_conv2d",
            f"deformable_groups {parts} must divide the channels",
            x.shape,
        )
    for name, given, count in [("offset", offset, 2), ("mask", mask, 1)]:
        wanted = [count * parts * taps, *size]
        if given is not None and (given.ndim != 4 or given.shape[1:] != wanted):
            must = f"{name} must have shape (N, {wanted[0]}, {size[0]}, {size[1]})"
            raise ShapeError("deform_conv2d", must, given.shape)


def deform_conv2d(
    x: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: IntsLike = 1,
    padding: PaddingLike = 0,
    dilation: IntsLike = 1,
    deformable_groups: int = 1,
    groups: int = 1,
    mask: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """conv2d whose taps are moved by learned offsets, and weighted by a mask.

    y[n, o, i, j] = bias[o] + sum over c, k of weight[o, c, k] * mask[n, k, i, j] *
    x[n, c] at (place of tap k for (i, j)) + offset[n, k, :, i, j]

    x is read between its pixels by bilinear weights, and is 0 outside.

    Args:
        x: (N, C, H, W), floating.
        offset: (N, 2 * deformable_groups * KH * KW, H', W'): y and x for each tap.
        weight: (O, C / groups, KH, KW).
        bias: (O,) or None.
        stride: One number or (height, width); likewise padding and dilation.
        padding: In the forms that `conv2d` takes.
        dilation: Distance of the kernels' taps.
        deformable_groups: Blocks of channels of x with offsets of their own.
        groups: Blocks of channels that do not mix.
        mask: (N, deformable_groups * KH * KW, H', W') or None.

    Returns:
        (N, O, H', W').

    Raises:
        ShapeError: If shapes do not fit.

    Source: Dai et al., Deformable convolutional networks, 2017; Zhu et al., 2018.
    """
    if x.ndim != 4 or weight.ndim != 4 or min(x.shape[1:]) < 1:
        must = "x must be (N, C, H, W) of known C, H, W, and weight have rank 4"
        raise ShapeError("deform_conv2d", must, [x.shape, weight.shape])
    parts = int(deformable_groups)
    where = ("deform_conv2d", x.shape[2:], weight.shape[2:])
    kernel, steps, border, gaps = placement(*where, stride, padding, dilation, "NCHW")
    size = [
        (x.shape[2 + i] + border[2 * i] + border[2 * i + 1] - gaps[i] * (kernel[i] - 1)
         - 1) // steps[i] + 1
        for i in range(2)
    ]  # fmt: skip
    taps = math.prod(kernel)
    _check_shapes(x, offset, mask, size, parts, taps)
    # Each block of channels is an image of its own: (N * parts, C / parts, H, W).
    images = split_axis(x, 1, [parts, x.shape[1] // parts])
    images = ops.flatten(images, start_axis=0, stop_axis=1)
    moved = split_axis(split_axis(offset, 1, [parts * taps, 2]), 1, [parts, taps])
    at = []
    for i in range(2):
        base = _regular(i, kernel, steps, gaps, border[2 * i], size).astype(
            np.float64 if x.dtype == "float64" else np.float32
        )
        own = cast_if(ops.select(moved, axis=3, index=i), str(base.dtype))
        point = ops.add(own, as_tensor(base))  # N, parts, taps, H', W'
        at.append(ops.flatten(ops.flatten(point, 0, 1), 1, 3))
    image = ops.unsqueeze(iota(images), axis=[1])
    index, share = corners_of(at, x.shape[2:], image)
    if mask is not None:
        own = ops.flatten(split_axis(mask, 1, [parts, taps]), 0, 1)
        own = ops.unsqueeze(ops.flatten(own, 1, 3), axis=[-1])
        share = ops.mul(share, cast_if(own, str(at[0].dtype)))
    read = ops.blend_rows(
        row_index(images),
        ops.flatten(index, start_axis=0, stop_axis=1),
        cast_if(ops.flatten(share, start_axis=0, stop_axis=1), x.dtype),
    )
    for n in (size[1], size[0], taps, parts):
        read = split_axis(read, 0, [-1, n])
    # N, parts, taps, H', W', C / parts -> N, C * taps, H', W'
    columns = ops.flatten(ops.transpose(read, perm=[0, 1, 5, 2, 3, 4]), 1, 3)
    flat = ops.unsqueeze(ops.flatten(weight, start_axis=1, stop_axis=-1), axis=[2, 3])
    return ops.conv2d(columns, flat, bias, groups=groups)


def _regular(
    axis: int, kernel: list[int], steps: list[int], gaps: list[int], low: int,
    size: list[int],
) -> Any:  # fmt: skip
    """Coordinates of the taps along an axis before they are moved: (taps, H', W')."""
    tap = np.indices(kernel)[axis].reshape(-1, 1, 1) * gaps[axis]
    return tap + np.indices(size)[axis] * steps[axis] - low


class DeformConv2D(Layer):
    """conv2d whose taps are moved by offsets; see `deform_conv2d`.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: One number, or (height, width); likewise stride, padding, dilation.
        deformable_groups: Blocks of channels with offsets of their own.
        groups: Blocks of channels that do not mix.
        weight_attr: How the kernels (out, in / groups, KH, KW) are made.
        bias_attr: How the bias is made; False for none.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntsLike,
        stride: IntsLike = 1,
        padding: PaddingLike = 0,
        dilation: IntsLike = 1,
        deformable_groups: int = 1,
        groups: int = 1,
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
    ) -> None:
        super().__init__()
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise InvalidArgumentError(
                f"[DeformConv2D] groups must divide both numbers of channels, got "
                f"{groups} for {in_channels} and {out_channels}"
            )
        kernel = per_axis("DeformConv2D", kernel_size, 2, "kernel_size")
        self._stride, self._padding, self._dilation = stride, padding, dilation
        self._deformable_groups, self._groups = deformable_groups, groups
        std = math.sqrt(2.0 / (math.prod(kernel) * in_channels))
        self.weight = self.create_parameter(
            [out_channels, in_channels // groups, *kernel],
            attr=weight_attr, default_initializer=Normal(0.0, std),
        )  # fmt: skip
        self.bias = self.create_parameter([out_channels], attr=bias_attr, is_bias=True)

    def forward(self, x: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        return deform_conv2d(
            x, offset, self.weight, self.bias, self._stride, self._padding,
            self._dilation, self._deformable_groups, self._groups, mask,
        )  # fmt: skip
