"""Transforms of images as NumPy arrays, height x width (x channels)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa._core import Tensor
from proa.errors import InvalidArgumentError
from proa.tensor.creation import to_tensor

__all__ = [
    "BaseTransform", "CenterCrop", "Compose", "Normalize", "Pad", "RandomCrop",
    "RandomHorizontalFlip", "RandomVerticalFlip", "Resize", "ToTensor", "Transpose",
    "center_crop", "crop", "hflip", "normalize", "pad", "resize", "to_array", "vflip",
]  # fmt: skip

Image = NDArray[Any]


def to_array(image: Any) -> Image:
    """An image as an array: arrays as they are, PIL images by their pixels."""
    return image.numpy() if isinstance(image, Tensor) else np.asarray(image)


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, (list, tuple)):
        first, second = value
        return int(first), int(second)
    return int(value), int(value)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Image:
    """The block of the image that begins at (top, left)."""
    block: Image = to_array(img)[top : top + height, left : left + width]
    return block


def center_crop(img: Any, output_size: Any) -> Image:
    """The middle of the image."""
    image, (height, width) = to_array(img), _pair(output_size)
    top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
    if top < 0 or left < 0:
        raise InvalidArgumentError(
            f"[center_crop] output_size must be at most {image.shape[:2]}, "
            f"got {(height, width)}"
        )
    return crop(image, top, left, height, width)


def hflip(img: Any) -> Image:
    """Left and right exchanged."""
    return np.ascontiguousarray(to_array(img)[:, ::-1])


def vflip(img: Any) -> Image:
    """Top and bottom exchanged."""
    return np.ascontiguousarray(to_array(img)[::-1])


def pad(
    img: Any, padding: Any, fill: float = 0, padding_mode: str = "constant"
) -> Image:
    """Pixels put around: one number, (left-right, top-bottom) or (l, t, r, b)."""
    image = to_array(img)
    amount = [padding] if isinstance(padding, int) else list(padding)
    if len(amount) not in (1, 2, 4):
        raise InvalidArgumentError(
            f"[pad] padding must be 1, 2 or 4 numbers, got {padding}"
        )
    left, top = amount[0], amount[1 % len(amount)]
    right, bottom = (left, top) if len(amount) < 4 else (amount[2], amount[3])
    around = [(top, bottom), (left, right)] + [(0, 0)] * (image.ndim - 2)
    if padding_mode == "constant":
        return np.pad(image, around, constant_values=fill)
    modes: dict[str, Any] = {
        "edge": "edge", "reflect": "reflect", "symmetric": "symmetric",
    }  # fmt: skip
    return np.pad(image, around, mode=modes[padding_mode])


def _sample(old: int, new: int, mode: str) -> tuple[Any, Any, Any]:
    """For each new pixel the two old ones it lies between, and the second's share."""
    if mode == "nearest":
        low = np.minimum((np.arange(new) * (old / new)).astype(int), old - 1)
        return low, low, np.zeros(new)
    at = np.clip((np.arange(new) + 0.5) * (old / new) - 0.5, 0, old - 1)
    low = np.floor(at).astype(int)
    return low, np.minimum(low + 1, old - 1), at - low


def resize(img: Any, size: Any, interpolation: str = "bilinear") -> Image:
    """The image in another size; one number is that of the shorter side."""
    image = to_array(img)
    if interpolation not in ("nearest", "bilinear"):
        raise InvalidArgumentError(
            f"[resize] interpolation must be nearest or bilinear, got {interpolation!r}"
        )
    height, width = image.shape[:2]
    if isinstance(size, int):
        ratio = size / min(height, width)
        size = (round(height * ratio), round(width * ratio))
    new_height, new_width = _pair(size)
    if (new_height, new_width) == (height, width):
        return image
    top, bottom, down = _sample(height, new_height, interpolation)
    left, right, along = _sample(width, new_width, interpolation)
    flat = image.reshape(height, width, -1)
    if interpolation == "nearest":
        result = flat[top][:, left]
    else:
        values = flat.astype(np.float64)
        share = down[:, None, None]
        rows = values[top] * (1 - share) + values[bottom] * share
        share = along[None, :, None]
        mixed = rows[:, left] * (1 - share) + rows[:, right] * share
        whole = image.dtype.kind in "iu"
        result = (np.rint(mixed) if whole else mixed).astype(image.dtype)
    resized: Image = result.reshape(new_height, new_width, *image.shape[2:])
    return resized


def normalize(
    img: Any, mean: Any, std: Any, data_format: str = "CHW", to_rgb: bool = False
) -> Any:
    """(image - mean) / std for each channel."""
    tensor = isinstance(img, Tensor)
    image = to_array(img).astype(np.float32)
    if to_rgb:
        image = image[::-1] if data_format == "CHW" else image[..., ::-1]
    shape = (-1, 1, 1) if data_format == "CHW" and image.ndim == 3 else (-1,)
    shift = np.asarray(mean, np.float32).reshape(shape)
    scale = np.asarray(std, np.float32).reshape(shape)
    result = (image - shift) / scale
    return to_tensor(result) if tensor else result


class BaseTransform:
    """A transform of a sample's image; ``keys`` says which fields of a tuple are
    images.

    Fields named "image" are changed, others are handed on.
    """

    def __init__(self, keys: Sequence[str] | None = None) -> None:
        self.keys = tuple(keys) if keys is not None else ("image",)

    def __call__(self, inputs: Any) -> Any:
        if not isinstance(inputs, tuple):
            return self._apply_image(inputs)
        names = self.keys + (None,) * (len(inputs) - len(self.keys))
        return tuple(
            self._apply_image(value) if name == "image" else value
            for name, value in zip(names, inputs, strict=False)
        )

    def _apply_image(self, image: Any) -> Any:
        raise NotImplementedError


class Compose:
    """Transforms one after another."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, data: Any) -> Any:
        for transform in self.transforms:
            data = transform(data)
        return data


class ToTensor(BaseTransform):
    """(H, W, C) or (H, W) to a float32 tensor (C, H, W); uint8 is divided by 255."""

    def __init__(self, data_format: str = "CHW", keys: Any = None) -> None:
        super().__init__(keys)
        self.data_format = data_format

    def _apply_image(self, image: Any) -> Tensor:
        pixels = to_array(image)
        pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
        scale = 255.0 if pixels.dtype == np.uint8 else 1.0
        values = pixels.astype(np.float32) / np.float32(scale)
        if self.data_format == "CHW":
            values = values.transpose(2, 0, 1)
        return to_tensor(np.ascontiguousarray(values))


class Normalize(BaseTransform):
    """(image - mean) / std for each channel."""

    def __init__(
        self,
        mean: Any = 0.0,
        std: Any = 1.0,
        data_format: str = "CHW",
        to_rgb: bool = False,
        keys: Any = None,
    ) -> None:
        super().__init__(keys)
        self.mean, self.std = mean, std
        self.data_format, self.to_rgb = data_format, to_rgb

    def _apply_image(self, image: Any) -> Any:
        return normalize(image, self.mean, self.std, self.data_format, self.to_rgb)


class Transpose(BaseTransform):
    """The axes in another order; (H, W) first gains a channel."""

    def __init__(self, order: Sequence[int] = (2, 0, 1), keys: Any = None) -> None:
        super().__init__(keys)
        self.order = tuple(order)

    def _apply_image(self, image: Any) -> Image:
        pixels = to_array(image)
        pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
        moved: Image = pixels.transpose(self.order)
        return moved


class Resize(BaseTransform):
    """The image in another size."""

    def __init__(
        self, size: Any, interpolation: str = "bilinear", keys: Any = None
    ) -> None:
        super().__init__(keys)
        self.size, self.interpolation = size, interpolation

    def _apply_image(self, image: Any) -> Image:
        return resize(image, self.size, self.interpolation)


class CenterCrop(BaseTransform):
    """The middle of the image."""

    def __init__(self, size: Any, keys: Any = None) -> None:
        super().__init__(keys)
        self.size = size

    def _apply_image(self, image: Any) -> Image:
        return center_crop(image, self.size)


class Pad(BaseTransform):
    """Pixels put around the image."""

    def __init__(
        self,
        padding: Any,
        fill: float = 0,
        padding_mode: str = "constant",
        keys: Any = None,
    ) -> None:
        super().__init__(keys)
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def _apply_image(self, image: Any) -> Image:
        return pad(image, self.padding, self.fill, self.padding_mode)


class RandomCrop(BaseTransform):
    """A block of the image at a random place, after padding."""

    def __init__(self, size: Any, padding: Any = None, keys: Any = None) -> None:
        super().__init__(keys)
        self.size, self.padding = _pair(size), padding

    def _apply_image(self, image: Any) -> Image:
        pixels = to_array(image)
        pixels = pixels if self.padding is None else pad(pixels, self.padding)
        (height, width), (h, w) = pixels.shape[:2], self.size
        if height < h or width < w:
            raise InvalidArgumentError(
                f"[RandomCrop] size must be at most {(height, width)}, got {self.size}"
            )
        top, left = random.randint(0, height - h), random.randint(0, width - w)
        return crop(pixels, top, left, h, w)


class RandomHorizontalFlip(BaseTransform):
    """Left and right exchanged with probability prob."""

    def __init__(self, prob: float = 0.5, keys: Any = None) -> None:
        super().__init__(keys)
        self.prob = prob

    def _apply_image(self, image: Any) -> Any:
        return hflip(image) if random.random() < self.prob else image


class RandomVerticalFlip(RandomHorizontalFlip):
    """Top and bottom exchanged with probability prob."""

    def _apply_image(self, image: Any) -> Any:
        return vflip(image) if random.random() < self.prob else image
