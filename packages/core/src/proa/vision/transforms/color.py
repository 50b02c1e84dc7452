"""Brightness, contrast, saturation, hue and grey of arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

import proa.ops.functions as _functions
import proa.tensor.manipulation as _manipulation
from proa._core import Tensor
from proa.errors import InvalidArgumentError
from proa.tensor.creation import to_tensor
from proa.tensor.search import where
from proa.vision.transforms.image_types import channels_of
from proa.vision.transforms.sampling import floating

_LUMA = (0.299, 0.587, 0.114)  # ITU-R 601-2


def highest(img: Any) -> float:
    """White: 255, but 1 for a tensor of floats."""
    return 1.0 if isinstance(img, Tensor) and img.dtype != "uint8" else 255.0


def _clipped(values: Any, img: Any) -> Any:
    """Values between black and white, cut to whole numbers for whole images."""
    if isinstance(img, Tensor):
        return values.clip(0.0, highest(img)).astype(img.dtype)
    return np.clip(values, 0, 255).astype(img.dtype)


def blend(img: Any, other: Any, factor: float) -> Any:
    """factor img + (1 - factor) other, clipped."""
    return _clipped(floating(img) * factor + other * (1.0 - factor), img)


def luma(img: Any, where_: str) -> Any:
    """The grey of each pixel, with a channel axis of one, as floats.

    Raises:
        InvalidArgumentError: If there are neither 1 nor 3 channels.
    """
    values, channels = floating(img), channels_of(img)
    if channels == 1:
        return values
    if channels != 3:
        raise InvalidArgumentError(
            f"[{where_}] img must have 1 or 3 channels, got {channels}"
        )
    if isinstance(img, Tensor):
        weights = to_tensor(np.array(_LUMA).reshape(3, 1, 1)).astype(values.dtype)
        return (values * weights).sum(axis=-3, keepdim=True)
    shares = np.asarray(_LUMA, values.dtype)
    return (values * shares).sum(2, keepdims=True, dtype=values.dtype)


def grey(img: Any, channels: int) -> Any:
    """The image in 1 or 3 grey channels, in its dtype."""
    value = luma(img, "to_grayscale")
    if isinstance(img, Tensor):
        if img.dtype == "uint8":
            value = (value + 0.5).floor().astype("uint8")
        if value.ndim == 2:
            value = value.unsqueeze(0)
        return _manipulation.concat([value] * channels, axis=-3)
    value = np.floor(value + 0.5) if img.dtype.kind in "iu" else value
    value = value.astype(img.dtype)
    value = value[:, :, None] if value.ndim == 2 else value
    return np.repeat(value, channels, axis=2)


def mean_grey(img: Any) -> Any:
    """The mean grey of the image; of whole images a whole number, as PIL has it."""
    value = luma(img, "adjust_contrast")
    if isinstance(img, Tensor):
        axes = [-3, -2, -1] if img.ndim > 2 else [-2, -1]
        mean = value.mean(axis=axes, keepdim=True)
        return mean if highest(img) == 1.0 else (mean + 0.5).floor()
    if img.dtype.kind in "iu":
        return float(np.floor(np.floor(value + 0.5).mean() + 0.5))
    return float(value.mean())


def shift_hue(img: Any, shift: float) -> Any:
    """The hue shifted by ``shift`` of a full circle, saturation and value kept."""
    channels = channels_of(img)
    if channels == 1:
        return img
    if channels != 3:
        raise InvalidArgumentError(
            f"[adjust_hue] img must have 1 or 3 channels, got {channels}"
        )
    values = floating(img) / highest(img)
    if isinstance(img, Tensor):
        axis = img.ndim - 3
        red, green, blue = _manipulation.unbind(values, axis)
        shifted: Any = _manipulation.stack(
            _hue_shifted(red, green, blue, shift, _Proa), axis
        )
    else:
        red, green, blue = np.moveaxis(values, 2, 0)
        shifted = np.stack(_hue_shifted(red, green, blue, shift, np), axis=2)
    shifted = shifted * highest(img)
    return _clipped(shifted if highest(img) == 1.0 else shifted + 0.5, img)


class _Proa:
    """The functions below for tensors, by NumPy's names."""

    where = staticmethod(where)
    maximum = staticmethod(_functions.maximum)
    minimum = staticmethod(_functions.minimum)
    floor = staticmethod(_functions.floor)
    abs = staticmethod(_functions.abs)
    equal = staticmethod(_functions.equal)


def _hue_shifted(red: Any, green: Any, blue: Any, shift: float, xp: Any) -> list[Any]:
    """RGB -> HSV, hue + shift, HSV -> RGB, all 0 to 1."""
    value = xp.maximum(xp.maximum(red, green), blue)
    chroma = value - xp.minimum(xp.minimum(red, green), blue)
    grey = xp.equal(chroma, 0.0 * chroma)
    safe = xp.where(grey, 0.0 * chroma + 1.0, chroma)
    hue = xp.where(
        xp.equal(value, red),
        (green - blue) / safe,
        xp.where(
            xp.equal(value, green),
            2.0 + (blue - red) / safe,
            4.0 + (red - green) / safe,
        ),
    )
    hue = hue / 6.0 + shift
    hue = (hue - xp.floor(hue)) * 6.0
    # With k = (n + hue) mod 6 a channel is value - chroma max(0, min(k, 4 - k, 1)),
    # n being 5, 3 and 1 for red, green and blue (Smith, 1978).
    shifted = []
    for n in (5.0, 3.0, 1.0):
        k = hue + n
        k = k - 6.0 * xp.floor(k / 6.0)
        weight = xp.minimum(xp.minimum(k, 4.0 - k), 0.0 * k + 1.0)
        shifted.append(value - chroma * xp.maximum(weight, 0.0 * weight))
    return shifted
