"""Pooling layers."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor
from proa.nn import functional as F
from proa.nn.layer import Layer

__all__ = [
    "AdaptiveAvgPool1D", "AdaptiveAvgPool2D", "AvgPool1D", "AvgPool2D", "MaxPool1D",
    "MaxPool2D",
]  # fmt: skip


class _Pool(Layer):
    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}"
        )


class MaxPool2D(_Pool):
    """Greatest element of each window."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self._return_mask, self._ceil_mode = return_mask, ceil_mode
        self._data_format = data_format

    def forward(self, x: Tensor) -> Any:
        return F.max_pool2d(
            x, self.kernel_size, self.stride, self.padding, self._return_mask,
            self._ceil_mode, self._data_format,
        )  # fmt: skip


class AvgPool2D(_Pool):
    """Mean of each window, padding left out if exclusive."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        exclusive: bool = True,
        divisor_override: float | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self._ceil_mode, self._exclusive = ceil_mode, exclusive
        self._divisor, self._data_format = divisor_override, data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(
            x, self.kernel_size, self.stride, self.padding, self._ceil_mode,
            self._exclusive, self._divisor, self._data_format,
        )  # fmt: skip


class AdaptiveAvgPool2D(Layer):
    """Mean over output_size windows that cover the image."""

    def __init__(
        self, output_size: Any, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__()
        self._output_size, self._data_format = output_size, data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(x, self._output_size, self._data_format)

    def extra_repr(self) -> str:
        return f"output_size={self._output_size}"


class MaxPool1D(_Pool):
    """Greatest element of each window of (N, C, L)."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        return_mask: bool = False,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self._return_mask, self._ceil_mode = return_mask, ceil_mode

    def forward(self, x: Tensor) -> Any:
        return F.max_pool1d(
            x, self.kernel_size, self.stride, self.padding, self._return_mask,
            self._ceil_mode,
        )  # fmt: skip


class AvgPool1D(_Pool):
    """Mean of each window of (N, C, L)."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        exclusive: bool = True,
        ceil_mode: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self._exclusive, self._ceil_mode = exclusive, ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool1d(
            x, self.kernel_size, self.stride, self.padding, self._exclusive,
            self._ceil_mode,
        )  # fmt: skip


class AdaptiveAvgPool1D(Layer):
    """Mean over output_size windows that cover (N, C, L)."""

    def __init__(self, output_size: int, name: str | None = None) -> None:
        super().__init__()
        self._output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(x, self._output_size)

    def extra_repr(self) -> str:
        return f"output_size={self._output_size}"
