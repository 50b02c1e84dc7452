"""Resizing layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proa._core import Tensor
from proa.nn import functional as F
from proa.nn.layer.base import Layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proa.tensor.arguments import IntsLike

__all__ = ["Upsample", "UpsamplingBilinear2D", "UpsamplingNearest2D"]


class Upsample(Layer):
    """Lines, images or volumes resized by size or by factor; see `F.interpolate`."""

    def __init__(
        self,
        size: IntsLike | None = None,
        scale_factor: float | Sequence[float] | Tensor | None = None,
        mode: str = "nearest",
        align_corners: bool = False,
        align_mode: int = 0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners, self.align_mode = align_corners, align_mode
        self.data_format = data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(
            x, self.size, self.scale_factor, self.mode, self.align_corners,
            self.align_mode, self.data_format,
        )  # fmt: skip

    def extra_repr(self) -> str:
        which = (
            f"size={self.size}"
            if self.size is not None
            else f"scale_factor={self.scale_factor}"
        )
        return f"{which}, mode={self.mode}, data_format={self.data_format}"


class UpsamplingNearest2D(Upsample):
    """Images resized by taking the nearest pixel."""

    def __init__(
        self,
        size: IntsLike | None = None,
        scale_factor: float | Sequence[float] | Tensor | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(size, scale_factor, "nearest", data_format=data_format)


class UpsamplingBilinear2D(Upsample):
    """Images resized by straight lines between the pixels, whose corners stay."""

    def __init__(
        self,
        size: IntsLike | None = None,
        scale_factor: float | Sequence[float] | Tensor | None = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__(
            size, scale_factor, "bilinear", align_corners=True, data_format=data_format
        )
