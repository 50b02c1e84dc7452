"""Transforms that draw their parameters again for each sample.

They draw from Python's ``random``, which ``proa.io.DataLoader`` seeds in each of its
workers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from proa._core import Tensor
from proa.base.annotations import shown
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.tensor.creation import to_tensor
from proa.vision.transforms import functional as F
from proa.vision.transforms.base import BaseTransform
from proa.vision.transforms.image_types import as_numbers, channels_of, finite, size_of

__all__ = [
    "BrightnessTransform", "ColorJitter", "ContrastTransform", "HueTransform",
    "RandomAffine", "RandomCrop", "RandomErasing", "RandomHorizontalFlip",
    "RandomPerspective", "RandomResizedCrop", "RandomRotation", "RandomVerticalFlip",
    "SaturationTransform",
]  # fmt: skip


def _interval(
    value: Any,
    where: str,
    middle: float = 1.0,
    low: float = 0.0,
    high: float = math.inf,
) -> tuple[float, float] | None:
    """What to draw from: middle ± value, or the pair given; None if it is one point."""
    if isinstance(value, (int, float)):
        if value < 0:
            raise InvalidArgumentError(f"[{where}] value must be >= 0, got {value}")
        begin, end = max(middle - value, low), middle + value
    elif isinstance(value, (list, tuple)) and len(value) == 2:
        begin, end = (float(v) for v in value)
    else:
        raise InvalidTypeError(
            f"[{where}] expected value to be a number or two, got {shown(value)}"
        )
    if not low <= begin <= end <= high:
        raise InvalidArgumentError(
            f"[{where}] value must be in [{low}, {high}], got {value}"
        )
    return None if begin == end == middle else (begin, end)


class BrightnessTransform(BaseTransform):
    """Brightness times a factor from [max(0, 1 - value), 1 + value]."""

    def __init__(
        self, value: float | Sequence[float], keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(keys)
        self.value = _interval(value, "BrightnessTransform")

    def _apply_image(self, image: Any) -> Any:
        if self.value is None:
            return image
        return F.adjust_brightness(image, random.uniform(*self.value))


class ContrastTransform(BaseTransform):
    """Contrast times a factor from [max(0, 1 - value), 1 + value]."""

    def __init__(
        self, value: float | Sequence[float], keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(keys)
        self.value = _interval(value, "ContrastTransform")

    def _apply_image(self, image: Any) -> Any:
        if self.value is None:
            return image
        return F.adjust_contrast(image, random.uniform(*self.value))


class SaturationTransform(BaseTransform):
    """Saturation times a factor from [max(0, 1 - value), 1 + value]."""

    def __init__(
        self, value: float | Sequence[float], keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(keys)
        self.value = _interval(value, "SaturationTransform")

    def _apply_image(self, image: Any) -> Any:
        if self.value is None:
            return image
        return F.adjust_saturation(image, random.uniform(*self.value))


class HueTransform(BaseTransform):
    """Hue shifted by an amount from [-value, value], value at most 0.5."""

    def __init__(
        self, value: float | Sequence[float], keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(keys)
        self.value = _interval(value, "HueTransform", 0.0, -0.5, 0.5)

    def _apply_image(self, image: Any) -> Any:
        if self.value is None:
            return image
        return F.adjust_hue(image, random.uniform(*self.value))


class ColorJitter(BaseTransform):
    """Brightness, contrast, saturation and hue changed in random order."""

    def __init__(
        self,
        brightness: float | Sequence[float] = 0,
        contrast: float | Sequence[float] = 0,
        saturation: float | Sequence[float] = 0,
        hue: float | Sequence[float] = 0,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.brightness, self.contrast = brightness, contrast
        self.saturation, self.hue = saturation, hue
        self.transforms = [
            BrightnessTransform(brightness, keys),
            ContrastTransform(contrast, keys),
            SaturationTransform(saturation, keys),
            HueTransform(hue, keys),
        ]

    def _apply_image(self, image: Any) -> Any:
        for transform in random.sample(self.transforms, len(self.transforms)):
            image = transform._apply_image(image)
        return image


class RandomHorizontalFlip(BaseTransform):
    """Left and right exchanged with probability prob."""

    def __init__(self, prob: float = 0.5, keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        if not 0 <= prob <= 1:
            raise InvalidArgumentError(
                f"[{type(self).__name__}] prob must be in [0, 1], got {prob}"
            )
        self.prob = prob

    def _apply_image(self, image: Any) -> Any:
        return F.hflip(image) if random.random() < self.prob else image


class RandomVerticalFlip(RandomHorizontalFlip):
    """Top and bottom exchanged with probability prob."""

    def _apply_image(self, image: Any) -> Any:
        return F.vflip(image) if random.random() < self.prob else image


class RandomCrop(BaseTransform):
    """A block of the image at a random place.

    Args:
        size: (height, width), or one number for both.
        padding: Put around the image first; see :func:`pad`.
        pad_if_needed: Whether to pad an image that is smaller than size.
        fill: Value of the padding.
        padding_mode: Mode of the padding, as for `pad`.
        keys: See :class:`BaseTransform`.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float | Sequence[float] = 0,
        padding_mode: str = "constant",
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.size, self.padding, self.pad_if_needed = (
            F.pair("RandomCrop", size),
            padding,
            pad_if_needed,
        )
        self.fill, self.padding_mode = fill, padding_mode

    def _apply_image(self, image: Any) -> Any:
        h, w = self.size
        if self.padding is not None:
            image = F.pad(image, self.padding, self.fill, self.padding_mode)
        height, width = size_of(image, type(self).__name__)
        if self.pad_if_needed and (height < h or width < w):
            around = (max(w - width, 0), max(h - height, 0))
            image = F.pad(image, around, self.fill, self.padding_mode)
            height, width = size_of(image, type(self).__name__)
        if height < h or width < w:
            raise InvalidArgumentError(
                f"[RandomCrop] size must be at most {(height, width)}, got {self.size}"
            )
        top, left = random.randint(0, height - h), random.randint(0, width - w)
        return F.crop(image, top, left, h, w)


class RandomResizedCrop(BaseTransform):
    """A block of random area and shape, brought to one size.

    Args:
        size: (height, width), or one number for both.
        scale: Least and greatest share of the image's area.
        ratio: Least and greatest width / height.
        interpolation: See :func:`resize`.
        keys: See :class:`BaseTransform`.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4, 4.0 / 3),
        interpolation: str = "bilinear",
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.size = F.pair("RandomResizedCrop", size)
        self.scale = as_numbers("RandomResizedCrop", "scale", scale, 2)
        self.ratio = as_numbers("RandomResizedCrop", "ratio", ratio, 2)
        for name, (low, high) in (("scale", self.scale), ("ratio", self.ratio)):
            if not 0 < low <= high:
                raise InvalidArgumentError(
                    f"[RandomResizedCrop] expected {name} to be (min, max) with "
                    f"0 < min <= max, got ({low}, {high})"
                )
        self.interpolation = interpolation

    def _block(self, height: int, width: int) -> tuple[int, int, int, int]:
        for _ in range(10):
            area = height * width * random.uniform(*self.scale)
            low, high = (math.log(r) for r in self.ratio)
            ratio = math.exp(random.uniform(low, high))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                return random.randint(0, height - h), random.randint(0, width - w), h, w
        # Nothing fitted: the middle, in the nearest allowed shape.
        ratio = min(max(width / height, self.ratio[0]), self.ratio[1])
        w = min(width, round(height * ratio))
        h = min(height, round(width / ratio))
        return (height - h) // 2, (width - w) // 2, h, w

    def _apply_image(self, image: Any) -> Any:
        block = F.crop(image, *self._block(*size_of(image, type(self).__name__)))
        return F.resize(block, self.size, self.interpolation)


def _degrees(degrees: Any, where: str) -> tuple[float, float]:
    if isinstance(degrees, (int, float)):
        if degrees < 0:
            raise InvalidArgumentError(f"[{where}] degrees must be >= 0, got {degrees}")
        finite(where, degrees=degrees)
        return -float(degrees), float(degrees)
    if len(degrees) != 2:
        raise InvalidArgumentError(
            f"[{where}] degrees must be one number or two, got {degrees}"
        )
    low, high = as_numbers(where, "degrees", degrees, 2)
    return low, high


class RandomRotation(BaseTransform):
    """Rotate the image by an angle from [-degrees, degrees] or from two numbers.

    The other arguments are those of :func:`rotate`.
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: str = "nearest",
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: float | Sequence[float] = 0,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.degrees = _degrees(degrees, "RandomRotation")
        self.interpolation, self.expand = interpolation, expand
        self.center, self.fill = center, fill

    def _get_params(self, inputs: tuple[Any, ...]) -> float:
        return random.uniform(*self.degrees)

    def _apply_image(self, image: Any) -> Any:
        return F.rotate(
            image, self.params, self.interpolation, self.expand, self.center, self.fill
        )


class RandomAffine(BaseTransform):
    """Rotate, translate, scale and shear the image at random; see :func:`affine`.

    Args:
        degrees: As of :class:`RandomRotation`.
        translate: Greatest shift along x and y, as shares of width and height.
        scale: Least and greatest factor of size.
        shear: Degrees along x: one number (± it) or two; or four, along x and y.
        interpolation: "nearest" or "bilinear".
        fill: Value of the pixels from outside.
        center: (x, y); by default the middle.
        keys: See :class:`BaseTransform`.
    """

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: str = "nearest",
        fill: float | Sequence[float] = 0,
        center: Sequence[float] | None = None,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.degrees = _degrees(degrees, "RandomAffine")
        where = "RandomAffine"
        self.translate: tuple[float, ...] = (0.0, 0.0)
        if translate is not None:
            self.translate = as_numbers(where, "translate", translate, 2)
        self.scale: tuple[float, ...] = (1.0, 1.0)
        if scale is not None:
            self.scale = as_numbers(where, "scale", scale, 2)
        if isinstance(shear, (int, float)):
            shear = (-shear, shear)
        self.shear: tuple[float, ...] = (0.0, 0.0)
        if shear is not None:
            self.shear = as_numbers(where, "shear", shear, 2, 4)
        if not all(0 <= t <= 1 for t in self.translate):
            raise InvalidArgumentError(
                f"[RandomAffine] translate must be in [0, 1], got {translate}"
            )
        if min(self.scale) <= 0:
            raise InvalidArgumentError(
                f"[RandomAffine] scale must be positive, got {scale}"
            )
        self.interpolation, self.fill, self.center = interpolation, fill, center

    def _get_params(self, inputs: tuple[Any, ...]) -> Any:
        height, width = size_of(inputs[0], type(self).__name__)
        across, down = self.translate
        shear = [random.uniform(*self.shear[:2]), 0.0]
        if len(self.shear) == 4:
            shear[1] = random.uniform(*self.shear[2:])
        return (
            random.uniform(*self.degrees),
            (
                round(random.uniform(-across, across) * width),
                round(random.uniform(-down, down) * height),
            ),
            random.uniform(*self.scale),
            shear,
        )

    def _apply_image(self, image: Any) -> Any:
        angle, shift, scale, shear = self.params
        return F.affine(
            image,
            angle,
            shift,
            scale,
            shear,
            self.interpolation,
            self.fill,
            self.center,
        )


class RandomPerspective(BaseTransform):
    """With probability prob, the corners moved inwards; see :func:`perspective`.

    Args:
        prob: How often.
        distortion_scale: How far, as a share of half the image, 0 to 1.
        interpolation: "nearest" or "bilinear".
        fill: Value of the pixels from outside.
        keys: See :class:`BaseTransform`.
    """

    def __init__(
        self,
        prob: float = 0.5,
        distortion_scale: float = 0.5,
        interpolation: str = "nearest",
        fill: float | Sequence[float] = 0,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        if not (0 <= prob <= 1 and 0 <= distortion_scale <= 1):
            raise InvalidArgumentError(
                "[RandomPerspective] prob and distortion_scale must be in [0, 1], "
                f"got {prob} and {distortion_scale}"
            )
        self.prob, self.distortion_scale = prob, distortion_scale
        self.interpolation, self.fill = interpolation, fill

    def get_params(
        self, width: int, height: int, distortion_scale: float
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The corners, clockwise from the upper left, and where they go."""
        x = int(distortion_scale * (width // 2))
        y = int(distortion_scale * (height // 2))
        start = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        inwards = [(1, 1), (-1, 1), (-1, -1), (1, -1)]
        end = [
            [u + right * random.randint(0, x), v + down * random.randint(0, y)]
            for (u, v), (right, down) in zip(start, inwards, strict=True)
        ]
        return start, end

    def _get_params(self, inputs: tuple[Any, ...]) -> Any:
        if random.random() >= self.prob:
            return None
        height, width = size_of(inputs[0], type(self).__name__)
        return self.get_params(width, height, self.distortion_scale)

    def _apply_image(self, image: Any) -> Any:
        if self.params is None:
            return image
        start, end = self.params
        return F.perspective(image, start, end, self.interpolation, self.fill)


class RandomErasing(BaseTransform):
    """With probability prob, a block replaced (Zhong et al., 2017).

    Args:
        prob: How often.
        scale: Least and greatest share of the image's area.
        ratio: Least and greatest height / width.
        value: A number, one for each channel, or "random" for normal noise.
        inplace: Whether to change an array or tensor itself.
        keys: See :class:`BaseTransform`.
    """

    def __init__(
        self,
        prob: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | str | Sequence[float] = 0,
        inplace: bool = False,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        if not 0 <= prob <= 1 or not 0 <= scale[0] <= scale[1] <= 1:
            raise InvalidArgumentError(
                "[RandomErasing] prob and scale must be in [0, 1], "
                f"got {prob} and {scale}"
            )
        if isinstance(value, str) and value != "random":
            raise InvalidArgumentError(
                f"[RandomErasing] value must be numbers or 'random', got {value!r}"
            )
        self.prob, self.scale, self.ratio = prob, scale, ratio
        self.value, self.inplace = value, inplace

    def _apply_image(self, image: Any) -> Any:
        if random.random() >= self.prob:
            return image
        height, width = size_of(image, type(self).__name__)
        for _ in range(10):
            area = height * width * random.uniform(*self.scale)
            low, high = (math.log(r) for r in self.ratio)
            ratio = math.exp(random.uniform(low, high))
            h, w = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if h < height and w < width:
                top, left = random.randint(0, height - h), random.randint(0, width - w)
                values = self._values(image, h, w)
                return F.erase(image, top, left, h, w, values, self.inplace)
        return image

    def _values(self, image: Any, h: int, w: int) -> Any:
        tensor = isinstance(image, Tensor)
        channels = channels_of(image)
        if self.value == "random":
            shape = (channels, h, w) if tensor else (h, w, channels)
            noise = np.random.default_rng(random.getrandbits(32)).normal(size=shape)
            values: Any = noise.astype(np.float32)
        else:
            values = np.asarray(self.value, np.float32).reshape(-1)
            values = values[:, None, None] if tensor else values
        if not tensor and channels == 1 and np.asarray(image).ndim == 2:
            values = values.reshape(-1)[0] if values.size == 1 else values[..., 0]
        return to_tensor(values).astype(image.dtype) if tensor else values
