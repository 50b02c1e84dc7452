"""Dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proa._core import Tensor
from proa.nn import functional as F
from proa.nn.layer.base import Layer

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["AlphaDropout", "Dropout", "Dropout2D", "Dropout3D"]


class Dropout(Layer):
    """Elements set to 0 with probability p while training."""

    def __init__(
        self,
        p: float = 0.5,
        axis: int | Sequence[int] | None = None,
        mode: str = "upscale_in_train",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.p, self.axis, self.mode = p, axis, mode

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.axis, self.training, self.mode)

    def extra_repr(self) -> str:
        return f"p={self.p}, axis={self.axis}, mode={self.mode}"


class Dropout2D(Layer):
    """Whole channels set to 0 with probability p while training."""

    def __init__(
        self, p: float = 0.5, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__()
        self.p, self.data_format = p, data_format

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.data_format)

    def extra_repr(self) -> str:
        return f"p={self.p}, data_format={self.data_format}"


class Dropout3D(Layer):
    """Whole channels of volumes set to 0 with probability p while training."""

    def __init__(
        self, p: float = 0.5, data_format: str = "NCDHW", name: str | None = None
    ) -> None:
        super().__init__()
        self.p, self.data_format = p, data_format

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.data_format)

    def extra_repr(self) -> str:
        return f"p={self.p}, data_format={self.data_format}"


class AlphaDropout(Layer):
    """Dropout that keeps mean and variance of SELU activations."""

    def __init__(self, p: float = 0.5, name: str | None = None) -> None:
        super().__init__()
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
