"""Padding layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proa._core import Tensor
from proa.nn import functional as F
from proa.nn.layer.base import Layer
from proa.tensor.arguments import as_ints

if TYPE_CHECKING:
    from proa.tensor.arguments import IntsLike

__all__ = ["Pad1D", "Pad2D", "Pad3D", "ZeroPad2D"]


class _Pad(Layer):
    _axes: int

    def __init__(
        self,
        padding: IntsLike,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        amount = as_ints(type(self).__name__, padding)
        self._pad = amount * (2 * self._axes if len(amount) == 1 else 1)
        self._mode, self._value, self._data_format = mode, value, data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, self._pad, self._mode, self._value, self._data_format)

    def extra_repr(self) -> str:
        return (
            f"padding={self._pad}, mode={self._mode}, value={self._value}, "
            f"data_format={self._data_format}"
        )


class Pad1D(_Pad):
    """Elements put around a line: left, right; see `F.pad`."""

    _axes = 1

    def __init__(
        self,
        padding: IntsLike,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCL",
        name: str | None = None,
    ) -> None:
        super().__init__(padding, mode, value, data_format)


class Pad2D(_Pad):
    """Elements put around an image: left, right, top, bottom; see `F.pad`."""

    _axes = 2


class Pad3D(_Pad):
    """Elements put around a volume: left, right, top, bottom, front, back."""

    _axes = 3

    def __init__(
        self,
        padding: IntsLike,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__(padding, mode, value, data_format)


class ZeroPad2D(_Pad):
    """Zeros put around an image: left, right, top, bottom."""

    _axes = 2

    def __init__(
        self, padding: IntsLike, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__(padding, "constant", 0.0, data_format)
