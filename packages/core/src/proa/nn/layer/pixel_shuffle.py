"""Pixel shuffle and unshuffle, and channel shuffle."""

from __future__ import annotations

from proa._core import Tensor
from proa.nn import functional as F
from proa.nn.layer.base import Layer

__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Layer):
    """(N, C r r, H, W) -> (N, C, H r, W r); see `F.pixel_shuffle`."""

    def __init__(
        self, upscale_factor: int, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__()
        self._factor, self._data_format = upscale_factor, data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.pixel_shuffle(x, self._factor, self._data_format)

    def extra_repr(self) -> str:
        return f"upscale_factor={self._factor}"


class PixelUnshuffle(Layer):
    """(N, C, H r, W r) -> (N, C r r, H, W), undoing `PixelShuffle`."""

    def __init__(
        self, downscale_factor: int, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__()
        self._factor, self._data_format = downscale_factor, data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.pixel_unshuffle(x, self._factor, self._data_format)

    def extra_repr(self) -> str:
        return f"downscale_factor={self._factor}"


class ChannelShuffle(Layer):
    """Channels of groups taken by turns; see `F.channel_shuffle`."""

    def __init__(
        self, groups: int, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__()
        self._groups, self._data_format = groups, data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.channel_shuffle(x, self._groups, self._data_format)

    def extra_repr(self) -> str:
        return f"groups={self._groups}"
