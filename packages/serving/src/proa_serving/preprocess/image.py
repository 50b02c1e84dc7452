"""Images from their files to what a network takes."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from proa_serving.protocol.errors import InvalidRequestError, UnsupportedError
from proa_serving.protocol.messages import Array

# What networks trained on ImageNet subtract and divide by, for RGB from 0 to 1.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


class Sequential:
    """Applies ``steps`` one after another.

    Args:
        steps: Callables of one argument.
    """

    def __init__(self, steps: Sequence[Callable[[Any], Any]]) -> None:
        self.steps = list(steps)

    def __call__(self, value: Any) -> Any:
        for step in self.steps:
            value = step(value)
        return value


class DecodeImage:
    """A file's bytes (JPEG, PNG and what else Pillow reads) as an array.

    Args:
        max_pixels: A larger image is refused before it is decoded.

    Shape:
        Returns (height, width, 3), uint8, RGB, upright by the file's EXIF orientation.

    Raises:
        InvalidRequestError: If the bytes are no image, or too large a one.
        UnsupportedError: If Pillow is not installed.
    """

    def __init__(self, max_pixels: int = 2**26) -> None:
        self._max_pixels = max_pixels

    def __call__(self, data: bytes) -> npt.NDArray[np.uint8]:
        image, ops = _pillow()
        try:
            with image.open(io.BytesIO(data)) as held:
                width, height = held.size
                if width * height > self._max_pixels:
                    raise InvalidRequestError(
                        "image",
                        f"must have at most {self._max_pixels} pixels, "
                        f"got {width} x {height}",
                    )
                return np.asarray(ops.exif_transpose(held).convert("RGB"))
        except InvalidRequestError:
            raise
        except Exception as error:  # Pillow raises many types for damaged files.
            raise InvalidRequestError(
                "image", f"the bytes are no image file: {error!s:.200}"
            ) from error


class Resize:
    """Bilinear resizing, with the filter widened where it shrinks (no aliasing).

    Args:
        size: Height and width.

    Shape:
        (height, width, 3), uint8. Returns (size[0], size[1], 3), uint8.
    """

    def __init__(self, size: tuple[int, int]) -> None:
        if min(size) < 1:
            raise InvalidRequestError("resize", f"size must be positive, got {size}")
        self._size = size

    def __call__(self, array: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        image, _ = _pillow()
        height, width = self._size
        held = image.fromarray(_hwc(array, "resize"))
        return np.asarray(held.resize((width, height), image.Resampling.BILINEAR))


class ResizeShort:
    """Resizes so that the shorter side has ``size`` pixels, in proportion.

    Shape:
        (height, width, 3), uint8. Returns the same, resized.
    """

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, array: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        height, width = _hwc(array, "resize_short").shape[:2]
        scale = self._size / min(height, width)
        size = (
            max(1, round(height * scale)),
            max(1, round(width * scale)),
        )
        return Resize(size)(array)


class CenterCrop:
    """The middle of an image.

    Args:
        size: Height and width, or one number for both.

    Shape:
        (height, width, channels). Returns (size, size, channels).

    Raises:
        InvalidRequestError: If the image is smaller.
    """

    def __init__(self, size: int | tuple[int, int]) -> None:
        self._size = (size, size) if isinstance(size, int) else size

    def __call__(self, array: Array) -> Array:
        (height, width), (h, w) = _hwc(array, "center_crop").shape[:2], self._size
        if height < h or width < w:
            raise InvalidRequestError(
                "center_crop",
                f"image must be at least {h} x {w}, got {height} x {width}",
            )
        top, left = (height - h) // 2, (width - w) // 2
        return array[top : top + h, left : left + w]


class Normalize:
    """(x * scale - mean) / std for each channel, in float32.

    Args:
        mean: By channel, after scaling; ImageNet's by default.
        std: The same.
        scale: 1/255 by default, which takes uint8 to 0 to 1.

    Shape:
        (height, width, channels). Returns the same, float32.
    """

    def __init__(
        self,
        mean: Sequence[float] = MEAN,
        std: Sequence[float] = STD,
        scale: float = 1 / 255,
    ) -> None:
        if min(map(abs, std)) == 0:
            raise InvalidRequestError("normalize", f"std must not be 0, got {std}")
        # As one multiplication and one addition.
        self._factor = np.asarray(scale / np.asarray(std), np.float32)
        self._shift = np.asarray(-np.asarray(mean) / np.asarray(std), np.float32)

    def __call__(self, array: Array) -> npt.NDArray[np.float32]:
        held = _hwc(array, "normalize").astype(np.float32)
        if held.shape[-1] != self._factor.size and self._factor.size != 1:
            raise InvalidRequestError(
                "normalize",
                f"image must have {self._factor.size} channels, got {held.shape[-1]}",
            )
        held *= self._factor
        held += self._shift
        return held


class ChannelsFirst:
    """(height, width, channels) as (channels, height, width), contiguous."""

    def __call__(self, array: Array) -> Array:
        return np.ascontiguousarray(_hwc(array, "channels_first").transpose(2, 0, 1))


def _hwc(array: Array, where: str) -> Array:
    if array.ndim != 3:
        raise InvalidRequestError(
            where, f"image must be (height, width, channels), got {array.shape}"
        )
    return array


def _pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise UnsupportedError(
            "image", f"needs pip install 'proa-serving[image]': {error}"
        ) from error
    return Image, ImageOps
