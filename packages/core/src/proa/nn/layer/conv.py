"""Convolution layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from proa._core import Tensor
from proa.errors import InvalidArgumentError
from proa.nn import functional as F
from proa.nn.functional.geometry import per_axis, placement, spatial_size
from proa.nn.layer.base import Layer
from proa.nn.schemes import Normal

if TYPE_CHECKING:
    from proa.base.typing import PaddingLike
    from proa.nn.attr import ParamAttrLike
    from proa.tensor.arguments import IntsLike

__all__ = [
    "Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D",
    "Conv3DTranspose",
]  # fmt: skip


#: For 1, 2 and 3 axes.
_CONV: tuple[Callable[..., Tensor], ...] = (F.conv1d, F.conv2d, F.conv3d)
_TRANSPOSE: tuple[Callable[..., Tensor], ...] = (
    F.conv1d_transpose,
    F.conv2d_transpose,
    F.conv3d_transpose,
)


class _ConvNd(Layer):
    """Kernels, bias and geometry; kernels are normal with std sqrt(2 / fan_in).

    Programs for Paddle test by this name whether a layer is a convolution.
    """

    _axes: int
    _transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntsLike,
        stride: IntsLike = 1,
        padding: PaddingLike = 0,
        dilation: IntsLike = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__()
        where = type(self).__name__
        if in_channels < 1 or out_channels < 1:
            raise InvalidArgumentError(
                f"[{where}] expected in_channels and out_channels of at least 1, got "
                f"in_channels={in_channels}, out_channels={out_channels}"
            )
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise InvalidArgumentError(
                f"[{where}] groups must divide both numbers of channels, got {groups} "
                f"for {in_channels} and {out_channels}"
            )
        modes = ("zeros", "reflect", "replicate", "circular")
        if padding_mode not in modes:
            raise InvalidArgumentError(
                f"[{where}] padding_mode must be one of {modes}, got {padding_mode!r}"
            )
        self._in_channels, self._out_channels = in_channels, out_channels
        self._kernel_size = per_axis(where, kernel_size, self._axes, "kernel_size")
        self._stride = per_axis(where, stride, self._axes, "stride")
        self._dilation = per_axis(where, dilation, self._axes, "dilation")
        self._padding, self._padding_mode = padding, padding_mode
        self._groups, self._data_format = groups, data_format
        channels = [out_channels, in_channels // groups]
        if self._transposed:
            channels = [in_channels, out_channels // groups]
        fan_in = math.prod(self._kernel_size) * in_channels
        self.weight = self.create_parameter(
            [*channels, *self._kernel_size],
            attr=weight_attr,
            default_initializer=None
            if self._transposed
            else Normal(0.0, math.sqrt(2.0 / fan_in)),
        )
        self.bias = self.create_parameter([out_channels], attr=bias_attr, is_bias=True)

    def extra_repr(self) -> str:
        parts = [
            f"{self._in_channels}, {self._out_channels}",
            f"kernel_size={self._kernel_size}",
        ]
        if any(s != 1 for s in self._stride):
            parts.append(f"stride={self._stride}")
        if self._padding != 0:
            parts.append(f"padding={self._padding}")
        if self._padding_mode != "zeros":
            parts.append(f"padding_mode={self._padding_mode}")
        if any(d != 1 for d in self._dilation):
            parts.append(f"dilation={self._dilation}")
        if self._groups != 1:
            parts.append(f"groups={self._groups}")
        parts.append(f"data_format={self._data_format}")
        return ", ".join(parts)

    def _padded(self, x: Tensor) -> tuple[Tensor, Any]:
        """x with what is not zeros put around it, and the padding left to do."""
        if self._padding_mode == "zeros":
            return x, self._padding
        border = placement(
            type(self).__name__, spatial_size(x, self._data_format), self._kernel_size,
            self._stride, self._padding, self._dilation, self._data_format,
        ).padding  # fmt: skip
        if not any(border):
            return x, 0
        # F.pad begins with the last axis.
        both = [
            n for i in reversed(range(self._axes)) for n in border[2 * i : 2 * i + 2]
        ]
        return F.pad(x, both, self._padding_mode, data_format=self._data_format), 0

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_with_weight(x, self.weight)

    def forward_with_weight(self, x: Tensor, weight: Tensor) -> Tensor:
        """`forward` with another weight than the layer's, such as a rounded one."""
        padded, padding = self._padded(x)
        return _CONV[self._axes - 1](
            padded, weight, self.bias, self._stride, padding, self._dilation,
            self._groups, self._data_format,
        )  # fmt: skip


class Conv1D(_ConvNd):
    """Cross-correlation of a line with learned kernels; arguments as of `Conv2D`."""

    _axes = 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntsLike,
        stride: IntsLike = 1,
        padding: PaddingLike = 0,
        dilation: IntsLike = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        data_format: str = "NCL",
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
            padding_mode, weight_attr, bias_attr, data_format,
        )  # fmt: skip


class Conv2D(_ConvNd):
    """Cross-correlation of an image with learned kernels.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: One number, or (height, width); likewise stride and dilation.
        padding: A number, (height, width), (top, bottom, left, right), "same", "valid".
        groups: Blocks of channels that do not mix.
        padding_mode: zeros, reflect, replicate or circular.
        weight_attr: How the kernels (out, in / groups, KH, KW) are made.
        bias_attr: How the bias is made; False for none.
        data_format: NCHW or NHWC.

    Shape:
        x: (N, in, H, W). Returns (N, out, H', W') with
        H' = (H + top + bottom - dilation * (KH - 1) - 1) // stride + 1.
    """

    _axes = 2


class Conv3D(_ConvNd):
    """Cross-correlation of a volume with learned kernels; arguments as of `Conv2D`."""

    _axes = 3

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntsLike,
        stride: IntsLike = 1,
        padding: PaddingLike = 0,
        dilation: IntsLike = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        data_format: str = "NCDHW",
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
            padding_mode, weight_attr, bias_attr, data_format,
        )  # fmt: skip


class _ConvTranspose(_ConvNd):
    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntsLike,
        stride: IntsLike = 1,
        padding: PaddingLike = 0,
        output_padding: IntsLike = 0,
        groups: int = 1,
        dilation: IntsLike = 1,
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
            "zeros", weight_attr, bias_attr, data_format,
        )  # fmt: skip
        self._output_padding = output_padding

    def forward(self, x: Tensor, output_size: IntsLike | None = None) -> Tensor:
        return self.forward_with_weight(x, self.weight, output_size)

    def forward_with_weight(
        self, x: Tensor, weight: Tensor, output_size: IntsLike | None = None
    ) -> Tensor:
        """`forward` with another weight than the layer's."""
        return _TRANSPOSE[self._axes - 1](
            x, weight, self.bias, self._stride, self._padding,
            self._output_padding if output_size is None else 0, self._groups,
            self._dilation, output_size=output_size, data_format=self._data_format,
        )  # fmt: skip


class Conv1DTranspose(_ConvTranspose):
    """The transpose of Conv1D; its kernels are (in, out / groups, K).

    Arguments are those of `Conv2DTranspose`.
    """

    _axes = 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntsLike,
        stride: IntsLike = 1,
        padding: PaddingLike = 0,
        output_padding: IntsLike = 0,
        groups: int = 1,
        dilation: IntsLike = 1,
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        data_format: str = "NCL",
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding,
            groups, dilation, weight_attr, bias_attr, data_format,
        )  # fmt: skip


class Conv2DTranspose(_ConvTranspose):
    """The transpose of Conv2D; its kernels are (in, out / groups, KH, KW).

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: One number, or (height, width); likewise stride and dilation.
        padding: What is cut off the border, in the forms that `Conv2D` takes.
        output_padding: What is added at the end, less than the stride.
        groups: Blocks of channels that do not mix.
        weight_attr: How the kernels are made.
        bias_attr: How the bias is made; False for none.
        data_format: NCHW or NHWC.

    Shape:
        x: (N, in, H, W). Returns (N, out, H', W') with H' = (H - 1) * stride - top -
        bottom + dilation * (KH - 1) + 1 + output_padding, or what forward's
        output_size says.
    """

    _axes = 2


class Conv3DTranspose(_ConvTranspose):
    """The transpose of Conv3D; its kernels are (in, out / groups, KD, KH, KW).

    Arguments are those of `Conv2DTranspose`.
    """

    _axes = 3

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: IntsLike,
        stride: IntsLike = 1,
        padding: PaddingLike = 0,
        output_padding: IntsLike = 0,
        groups: int = 1,
        dilation: IntsLike = 1,
        weight_attr: ParamAttrLike | None = None,
        bias_attr: ParamAttrLike | None = None,
        data_format: str = "NCDHW",
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding,
            groups, dilation, weight_attr, bias_attr, data_format,
        )  # fmt: skip
