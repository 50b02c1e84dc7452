"""Convolutions of static graphs, with their parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proa._core import Tensor
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.nn.functional.geometry import per_axis
from proa.nn.schemes import Normal
from proa.static.building import (
    activated,
    check_activation,
    known,
    layer_name,
)
from proa.static.state import parameter_of

if TYPE_CHECKING:
    from proa.base.typing import PaddingLike
    from proa.nn.attr import ParamAttrLike
    from proa.tensor.arguments import IntsLike

__all__ = [
    "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "deform_conv2d",
]  # fmt: skip


def _channels(where: str, x: Tensor, axes: int, data_format: str) -> int:
    if x.ndim != axes + 2:
        raise InvalidArgumentError(
            f"[static.nn.{where}] input must have rank {axes + 2}, got shape {x.shape}"
        )
    axis = 1 if data_format.startswith("NC") else x.ndim - 1
    return known(where, "channels", x.shape[axis])


def _divided(where: str, channels: int, groups: int | None) -> int:
    parts = 1 if groups is None else int(groups)
    if parts < 1 or channels % parts:
        raise InvalidArgumentError(
            f"[static.nn.{where}] expected channels divisible by groups, got "
            f"{channels} channels and groups={groups}"
        )
    return parts


def _gaussian(kernel: Sequence[int], channels: int) -> Normal:
    """As He et al. (2015) initialise what ReLU follows."""
    return Normal(0.0, math.sqrt(2.0 / (math.prod(kernel) * channels)))


@dataclass(frozen=True)
class _Layer:
    """What all convolutions are given."""

    kind: str
    axes: int
    count: int  # of filters
    groups: int | None
    param_attr: ParamAttrLike | None
    bias_attr: ParamAttrLike | None
    act: str | None
    name: str | None
    data_format: str

    def begin(self, input: Tensor) -> tuple[str, int, int]:
        """What names begin with, the channels of input, and the groups."""
        layer = layer_name(self.kind, self.kind, self.name)
        check_activation(self.kind, self.act)
        channels = _channels(self.kind, input, self.axes, self.data_format)
        return layer, channels, _divided(self.kind, channels, self.groups)


def _conv(
    of: _Layer,
    input: Tensor,
    filter_size: IntsLike,
    stride: IntsLike,
    padding: PaddingLike,
    dilation: IntsLike,
) -> Tensor:
    layer, channels, groups = of.begin(input)
    kernel = per_axis(of.kind, filter_size, of.axes, "filter_size")
    weight = parameter_of(
        layer, [of.count, channels // groups, *kernel], input.dtype, of.param_attr,
        default_initializer=_gaussian(kernel, channels),
    )  # fmt: skip
    bias = parameter_of(layer, [of.count], input.dtype, of.bias_attr, is_bias=True)
    function = F.conv2d if of.axes == 2 else F.conv3d
    out = function(
        input, weight, bias, stride, padding, dilation, groups, of.data_format
    )
    return activated(out, of.act)


def conv2d(
    input: Tensor,
    num_filters: int,
    filter_size: IntsLike,
    stride: IntsLike = 1,
    padding: PaddingLike = 0,
    dilation: IntsLike = 1,
    groups: int | None = None,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Tensor:
    """`nn.functional.conv2d` with parameters of its own, and an activation.

    Args:
        input: (N, C, H, W), or (N, H, W, C) by data_format.
        num_filters: Channels that come out.
        filter_size: The kernel's size, one number or (height, width).
        stride: Likewise; so are padding and dilation, in the forms of
            `nn.functional.conv2d`.
        padding: See there.
        dilation: Distance of the kernel's taps.
        groups: Blocks of channels that do not mix; None is 1.
        param_attr: How the weight ``conv2d_0.w_0`` (num_filters, C / groups, ..) is
            made; by default normal with the variance 2 / (C * KH * KW).
        bias_attr: How the bias (num_filters,) is made; False for none.
        use_cudnn: Kept for callers; has no meaning here.
        act: Name of the activation that follows.
        name: What parameters' names begin with, in place of ``conv2d_0``.
        data_format: NCHW or NHWC.

    Raises:
        PreconditionNotMetError: In dynamic mode.
        InvalidArgumentError: If the rank, groups or act does not fit.
    """
    of = _Layer(
        "conv2d", 2, num_filters, groups, param_attr, bias_attr, act, name, data_format
    )
    return _conv(of, input, filter_size, stride, padding, dilation)


def conv3d(
    input: Tensor,
    num_filters: int,
    filter_size: IntsLike,
    stride: IntsLike = 1,
    padding: PaddingLike = 0,
    dilation: IntsLike = 1,
    groups: int | None = None,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Tensor:
    """`conv2d` of volumes (N, C, D, H, W), or (N, D, H, W, C) by data_format."""
    of = _Layer(
        "conv3d", 3, num_filters, groups, param_attr, bias_attr, act, name, data_format
    )
    return _conv(of, input, filter_size, stride, padding, dilation)


def _kernel_for(
    of: _Layer,
    input: Tensor,
    output_size: IntsLike,
    padding: PaddingLike,
    stride: IntsLike,
    dilation: IntsLike,
) -> list[int]:
    """The kernel's size that gives output_size."""
    first = 2 if of.data_format.startswith("NC") else 1
    sizes = [known(of.kind, "axes", n) for n in input.shape[first : first + of.axes]]
    wanted, steps, gaps = (
        per_axis(of.kind, given, of.axes, what)
        for given, what in (
            (output_size, "output_size"), (stride, "stride"), (dilation, "dilation"),
        )
    )  # fmt: skip
    border = per_axis(of.kind, padding, of.axes, "padding", 0)
    return [
        (o - (n - 1) * s + 2 * p - 1) // d + 1
        for o, n, s, p, d in zip(wanted, sizes, steps, border, gaps, strict=True)
    ]


def _transposed(
    of: _Layer,
    input: Tensor,
    output_size: IntsLike | None,
    filter_size: IntsLike | None,
    padding: PaddingLike,
    stride: IntsLike,
    dilation: IntsLike,
) -> Tensor:
    layer, channels, groups = of.begin(input)
    _divided(of.kind, of.count, groups)
    if filter_size is not None:
        kernel = per_axis(of.kind, filter_size, of.axes, "filter_size")
    elif output_size is not None:
        kernel = _kernel_for(of, input, output_size, padding, stride, dilation)
    else:
        raise InvalidArgumentError(
            f"[static.nn.{of.kind}] expected filter_size or output_size, got neither"
        )
    shape = [channels, of.count // groups, *kernel]
    weight = parameter_of(layer, shape, input.dtype, of.param_attr)
    bias = parameter_of(layer, [of.count], input.dtype, of.bias_attr, is_bias=True)
    function = F.conv2d_transpose if of.axes == 2 else F.conv3d_transpose
    out = function(
        input, weight, bias, stride, padding, dilation=dilation, groups=groups,
        output_size=output_size, data_format=of.data_format,
    )  # fmt: skip
    return activated(out, of.act)


def conv2d_transpose(
    input: Tensor,
    num_filters: int,
    output_size: IntsLike | None = None,
    filter_size: IntsLike | None = None,
    padding: PaddingLike = 0,
    stride: IntsLike = 1,
    dilation: IntsLike = 1,
    groups: int | None = None,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Tensor:
    """`nn.functional.conv2d_transpose` with parameters of its own, and an activation.

    Args:
        input: (N, C, H, W), or (N, H, W, C) by data_format.
        num_filters: Channels that come out.
        output_size: Size of the images that come out; None is the smallest.
        filter_size: The kernel's size; None is what gives output_size.
        padding: Taken off the borders.
        stride: Distance of the places that elements of input are spread to.
        dilation: Distance of the kernel's taps.
        groups: Blocks of channels that do not mix; None is 1.
        param_attr: How the weight (C, num_filters / groups, ..) is made.
        bias_attr: How the bias (num_filters,) is made; False for none.
        use_cudnn: Kept for callers; has no meaning here.
        act: Name of the activation that follows.
        name: What parameters' names begin with, in place of ``conv2d_transpose_0``.
        data_format: NCHW or NHWC.

    Raises:
        PreconditionNotMetError: In dynamic mode.
        InvalidArgumentError: If the rank, groups or act does not fit, or neither
            output_size nor filter_size is given.
    """
    of = _Layer(
        "conv2d_transpose", 2, num_filters, groups, param_attr, bias_attr, act, name,
        data_format,
    )  # fmt: skip
    return _transposed(of, input, output_size, filter_size, padding, stride, dilation)


def conv3d_transpose(
    input: Tensor,
    num_filters: int,
    output_size: IntsLike | None = None,
    filter_size: IntsLike | None = None,
    padding: PaddingLike = 0,
    stride: IntsLike = 1,
    dilation: IntsLike = 1,
    groups: int | None = None,
    param_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Tensor:
    """`conv2d_transpose` of volumes (N, C, D, H, W) or (N, D, H, W, C)."""
    of = _Layer(
        "conv3d_transpose", 3, num_filters, groups, param_attr, bias_attr, act, name,
        data_format,
    )  # fmt: skip
    return _transposed(of, input, output_size, filter_size, padding, stride, dilation)


def deform_conv2d(
    x: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    num_filters: int,
    filter_size: IntsLike,
    stride: IntsLike = 1,
    padding: PaddingLike = 0,
    dilation: IntsLike = 1,
    groups: int = 1,
    deformable_groups: int = 1,
    im2col_step: int = 1,
    weight_attr: ParamAttrLike | None = None,
    bias_attr: ParamAttrLike | None = None,
    name: str | None = None,
) -> Tensor:
    """`vision.ops.deform_conv2d` with parameters of its own.

    Args:
        x: (N, C, H, W).
        offset: (N, 2 * deformable_groups * KH * KW, H', W').
        mask: (N, deformable_groups * KH * KW, H', W'), or None for ones.
        num_filters: Channels that come out.
        filter_size: The kernel's size.
        stride: One number or (height, width); likewise padding and dilation.
        padding: Zeros around x.
        dilation: Distance of the kernel's taps.
        groups: Blocks of channels that do not mix.
        deformable_groups: Blocks of channels of x with offsets of their own.
        im2col_step: Kept for callers; has no meaning here.
        weight_attr: How the weight ``deformable_conv_0.w_0`` is made.
        bias_attr: How the bias (num_filters,) is made; False for none.
        name: What parameters' names begin with.

    Raises:
        PreconditionNotMetError: In dynamic mode.
    """
    from proa.vision.ops import deform_conv2d as functional

    where = "deform_conv2d"
    layer = layer_name(where, "deformable_conv", name)
    channels = _channels(where, x, 2, "NCHW")
    parts = _divided(where, channels, groups)
    kernel = per_axis(where, filter_size, 2, "filter_size")
    shape = [num_filters, channels // parts, *kernel]
    weight = parameter_of(
        layer,
        shape,
        x.dtype,
        weight_attr,
        default_initializer=_gaussian(kernel, channels),
    )
    bias = parameter_of(layer, [num_filters], x.dtype, bias_attr, is_bias=True)
    return functional(
        x, offset, weight, bias, stride, padding, dilation, deformable_groups, parts,
        mask,
    )  # fmt: skip
