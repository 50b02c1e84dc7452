"""Padding."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor
from proa.nn import functional as F
from proa.nn.layer import Layer

__all__ = ["Pad1D", "Pad2D", "ZeroPad2D"]


class _Pad(Layer):
    _count: int

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        given = [padding] * self._count if isinstance(padding, int) else padding
        self._pad, self._mode, self._value = given, mode, value
        self._data_format = data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, self._pad, self._mode, self._value, self._data_format)

    def extra_repr(self) -> str:
        return f"padding={self._pad}, mode={self._mode}, value={self._value}"


class Pad1D(_Pad):
    """Elements put around a line: left, right."""

    _count = 2

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCL",
        name: str | None = None,
    ) -> None:
        super().__init__(padding, mode, value, data_format)


class Pad2D(_Pad):
    """Elements put around an image: left, right, top, bottom."""

    _count = 4


class ZeroPad2D(Pad2D):
    """Zeros put around an image: left, right, top, bottom."""

    def __init__(
        self, padding: Any, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__(padding, "constant", 0.0, data_format)
