"""Transforms that do the same to every image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proa._core import Tensor
from proa.errors import InvalidArgumentError
from proa.tensor.manipulation import transpose
from proa.vision.transforms import functional as F
from proa.vision.transforms.base import BaseTransform
from proa.vision.transforms.image_types import to_array

__all__ = [
    "CenterCrop", "Grayscale", "Normalize", "Pad", "Resize", "ToTensor", "Transpose",
]  # fmt: skip


class ToTensor(BaseTransform):
    """An image to a float32 tensor; see :func:`to_tensor`."""

    def __init__(
        self, data_format: str = "CHW", keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(keys)
        self.data_format = data_format

    def _apply_image(self, image: Any) -> Tensor:
        return F.to_tensor(image, self.data_format)


class Normalize(BaseTransform):
    """(image - mean) / std for each channel; see :func:`normalize`."""

    def __init__(
        self,
        mean: float | Sequence[float] = 0.0,
        std: float | Sequence[float] = 1.0,
        data_format: str = "CHW",
        to_rgb: bool = False,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.mean, self.std = mean, std
        self.data_format, self.to_rgb = data_format, to_rgb

    def _apply_image(self, image: Any) -> Any:
        return F.normalize(image, self.mean, self.std, self.data_format, self.to_rgb)


class Transpose(BaseTransform):
    """The axes in another order; (H, W) first gains a channel. Gives an array."""

    def __init__(
        self, order: Sequence[int] = (2, 0, 1), keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(keys)
        self.order = tuple(order)

    def _apply_image(self, image: Any) -> Any:
        if isinstance(image, Tensor):
            return transpose(image, list(self.order))
        pixels = to_array(image)
        pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
        if sorted(self.order) != list(range(pixels.ndim)):
            raise InvalidArgumentError(
                "[Transpose] expected order to name each axis of the image, "
                f"{pixels.shape}, once, got {self.order}"
            )
        return np.transpose(pixels, self.order)


class Resize(BaseTransform):
    """The image in another size; see :func:`resize`."""

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: str = "bilinear",
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.size, self.interpolation = size, interpolation

    def _apply_image(self, image: Any) -> Any:
        return F.resize(image, self.size, self.interpolation)


class CenterCrop(BaseTransform):
    """The middle of the image; see :func:`center_crop`."""

    def __init__(
        self, size: int | Sequence[int], keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(keys)
        self.size = size

    def _apply_image(self, image: Any) -> Any:
        return F.center_crop(image, self.size)


class Pad(BaseTransform):
    """Pixels put around the image; see :func:`pad`."""

    def __init__(
        self,
        padding: int | Sequence[int],
        fill: float | Sequence[float] = 0,
        padding_mode: str = "constant",
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def _apply_image(self, image: Any) -> Any:
        return F.pad(image, self.padding, self.fill, self.padding_mode)


class Grayscale(BaseTransform):
    """The image in grey; see :func:`to_grayscale`."""

    def __init__(
        self, num_output_channels: int = 1, keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(keys)
        self.num_output_channels = num_output_channels

    def _apply_image(self, image: Any) -> Any:
        return F.to_grayscale(image, self.num_output_channels)
