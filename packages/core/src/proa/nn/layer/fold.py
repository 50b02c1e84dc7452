"""im2col and col2im: `Unfold` and `Fold`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proa._core import Tensor
from proa.nn import functional as F
from proa.nn.layer.base import Layer

if TYPE_CHECKING:
    from proa.tensor.arguments import IntsLike

__all__ = ["Fold", "Unfold"]


class Unfold(Layer):
    """The windows of images as columns; see `F.unfold`."""

    def __init__(
        self,
        kernel_sizes: IntsLike | None = None,
        dilations: IntsLike = 1,
        paddings: IntsLike = 0,
        strides: IntsLike = 1,
        name: str | None = None,
        *,
        kernel_size: IntsLike | None = None,
        dilation: IntsLike | None = None,
    ) -> None:
        super().__init__()
        self.kernel_sizes = kernel_size if kernel_sizes is None else kernel_sizes
        self.dilations = dilations if dilation is None else dilation
        self.paddings, self.strides = paddings, strides

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(
            input, self.kernel_sizes, self.strides, self.paddings, self.dilations
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_sizes}, dilation={self.dilations}, "
            f"padding={self.paddings}, stride={self.strides}"
        )


class Fold(Layer):
    """Columns added up where `Unfold` takes them from; see `F.fold`."""

    def __init__(
        self,
        output_sizes: IntsLike,
        kernel_sizes: IntsLike,
        dilations: IntsLike = 1,
        paddings: IntsLike = 0,
        strides: IntsLike = 1,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.output_sizes, self.kernel_sizes = output_sizes, kernel_sizes
        self.dilations, self.paddings, self.strides = dilations, paddings, strides

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(
            input, self.output_sizes, self.kernel_sizes, self.strides, self.paddings,
            self.dilations,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"output_sizes={self.output_sizes}, kernel_size={self.kernel_sizes}, "
            f"dilation={self.dilations}, padding={self.paddings}, "
            f"stride={self.strides}"
        )
