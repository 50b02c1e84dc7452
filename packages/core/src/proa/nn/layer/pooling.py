"""Pooling layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from proa._core import Tensor
from proa.nn import functional as F
from proa.nn.layer.base import Layer

if TYPE_CHECKING:
    from proa.base.typing import MaybeIndices, OutputSizeLike, PaddingLike
    from proa.tensor.arguments import IntsLike

__all__ = [
    "AdaptiveAvgPool1D", "AdaptiveAvgPool2D", "AdaptiveAvgPool3D", "AdaptiveMaxPool1D",
    "AdaptiveMaxPool2D", "AdaptiveMaxPool3D", "AvgPool1D", "AvgPool2D", "AvgPool3D",
    "MaxPool1D", "MaxPool2D", "MaxPool3D", "MaxUnPool1D", "MaxUnPool2D", "MaxUnPool3D",
]  # fmt: skip


class _Pool(Layer):
    kernel_size: IntsLike
    stride: IntsLike | None
    padding: PaddingLike

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}"
        )


class _Adaptive(Layer):
    _output_size: OutputSizeLike

    def extra_repr(self) -> str:
        return f"output_size={self._output_size}"


class _MaxPool(_Pool):
    """With the arguments of two axes; those of another number state their own."""

    _pool: Callable[..., MaybeIndices]

    def __init__(
        self,
        kernel_size: IntsLike,
        stride: IntsLike | None = None,
        padding: PaddingLike = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.return_mask, self.ceil_mode = return_mask, ceil_mode
        self.data_format = data_format

    def forward(self, x: Tensor) -> MaybeIndices:
        return self._pool(
            x, self.kernel_size, self.stride, self.padding, self.return_mask,
            self.ceil_mode, self.data_format,
        )  # fmt: skip


class MaxPool1D(_Pool):
    """Greatest element of each window of (N, C, L); see `F.max_pool2d`."""

    def __init__(
        self,
        kernel_size: IntsLike,
        stride: IntsLike | None = None,
        padding: PaddingLike = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.return_mask, self.ceil_mode = return_mask, ceil_mode

    def forward(self, input: Tensor) -> MaybeIndices:
        return F.max_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.return_mask,
            self.ceil_mode,
        )  # fmt: skip


class MaxPool2D(_MaxPool):
    """Greatest element of each window of (N, C, H, W); see `F.max_pool2d`."""

    _pool = staticmethod(F.max_pool2d)


class MaxPool3D(_MaxPool):
    """Greatest element of each window of (N, C, D, H, W); see `F.max_pool2d`."""

    _pool = staticmethod(F.max_pool3d)

    def __init__(
        self,
        kernel_size: IntsLike,
        stride: IntsLike | None = None,
        padding: PaddingLike = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size, stride, padding, return_mask, ceil_mode, data_format
        )


class _AvgPool(_Pool):
    """With the arguments of two axes; those of another number state their own."""

    _pool: Callable[..., Tensor]

    def __init__(
        self,
        kernel_size: IntsLike,
        stride: IntsLike | None = None,
        padding: PaddingLike = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: float | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.exclusive = ceil_mode, exclusive
        self.divisor, self.data_format = divisor_override, data_format

    def forward(self, x: Tensor) -> Tensor:
        return self._pool(
            x, self.kernel_size, self.stride, self.padding,
            self.ceil_mode, self.exclusive, self.divisor, self.data_format,
        )  # fmt: skip


class AvgPool1D(_Pool):
    """Mean of each window of (N, C, L); see `F.avg_pool2d`."""

    def __init__(
        self,
        kernel_size: IntsLike,
        stride: IntsLike | None = None,
        padding: PaddingLike = 0,
        exclusive: bool = True,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.exclusive = ceil_mode, exclusive

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool1d(
            x, self.kernel_size, self.stride, self.padding,
            self.exclusive, self.ceil_mode,
        )  # fmt: skip


class AvgPool2D(_AvgPool):
    """Mean of each window of (N, C, H, W); see `F.avg_pool2d`."""

    _pool = staticmethod(F.avg_pool2d)


class AvgPool3D(_AvgPool):
    """Mean of each window of (N, C, D, H, W); see `F.avg_pool2d`."""

    _pool = staticmethod(F.avg_pool3d)

    def __init__(
        self,
        kernel_size: IntsLike,
        stride: IntsLike | None = None,
        padding: PaddingLike = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: float | None = None,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            kernel_size, stride, padding, ceil_mode, exclusive, divisor_override,
            data_format,
        )  # fmt: skip


class AdaptiveAvgPool1D(_Adaptive):
    """Mean over output_size windows that cover (N, C, L); None keeps a size."""

    def __init__(self, output_size: OutputSizeLike, name: str | None = None) -> None:
        super().__init__()
        self._output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self._output_size)


class AdaptiveAvgPool2D(_Adaptive):
    """Mean over output_size windows that cover (N, C, H, W); None keeps a size."""

    def __init__(
        self,
        output_size: OutputSizeLike,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._output_size, self._data_format = output_size, data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(x, self._output_size, self._data_format)


class AdaptiveAvgPool3D(_Adaptive):
    """Mean over output_size windows that cover (N, C, D, H, W); None keeps a size."""

    def __init__(
        self,
        output_size: OutputSizeLike,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._output_size, self._data_format = output_size, data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(x, self._output_size, self._data_format)


class _AdaptiveMaxPool(_Adaptive):
    _pool: Callable[..., MaybeIndices]

    def __init__(
        self,
        output_size: OutputSizeLike,
        return_mask: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._output_size, self._return_mask = output_size, return_mask

    def forward(self, x: Tensor) -> MaybeIndices:
        return self._pool(x, self._output_size, self._return_mask)


class AdaptiveMaxPool1D(_AdaptiveMaxPool):
    """Greatest element of output_size windows that cover (N, C, L)."""

    _pool = staticmethod(F.adaptive_max_pool1d)

    def forward(self, input: Tensor) -> MaybeIndices:
        return super().forward(input)


class AdaptiveMaxPool2D(_AdaptiveMaxPool):
    """Greatest element of output_size windows that cover (N, C, H, W)."""

    _pool = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3D(_AdaptiveMaxPool):
    """Greatest element of output_size windows that cover (N, C, D, H, W)."""

    _pool = staticmethod(F.adaptive_max_pool3d)


class _MaxUnPool(_Pool):
    """With the arguments of two axes; those of another number state their own."""

    _unpool: Callable[..., Tensor]

    def __init__(
        self,
        kernel_size: IntsLike,
        stride: IntsLike | None = None,
        padding: PaddingLike = 0,
        data_format: str = "NCHW",
        output_size: IntsLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.data_format, self.output_size = data_format, output_size

    def forward(self, x: Tensor, indices: Tensor) -> Tensor:
        return self._unpool(
            x, indices, self.kernel_size, self.stride, self.padding, self.data_format,
            self.output_size,
        )  # fmt: skip


class MaxUnPool1D(_MaxUnPool):
    """(N, C, L) put where max_pool1d found it; zeros elsewhere."""

    _unpool = staticmethod(F.max_unpool1d)

    def __init__(
        self,
        kernel_size: IntsLike,
        stride: IntsLike | None = None,
        padding: PaddingLike = 0,
        data_format: str = "NCL",
        output_size: IntsLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, data_format, output_size)


class MaxUnPool2D(_MaxUnPool):
    """(N, C, H, W) put where max_pool2d found it; zeros elsewhere."""

    _unpool = staticmethod(F.max_unpool2d)


class MaxUnPool3D(_MaxUnPool):
    """(N, C, D, H, W) put where max_pool3d found it; zeros elsewhere."""

    _unpool = staticmethod(F.max_unpool3d)

    def __init__(
        self,
        kernel_size: IntsLike,
        stride: IntsLike | None = None,
        padding: PaddingLike = 0,
        data_format: str = "NCDHW",
        output_size: IntsLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, data_format, output_size)
