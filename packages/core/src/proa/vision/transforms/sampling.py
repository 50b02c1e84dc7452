"""Images in another geometry: where each new pixel comes from, and how it is mixed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError
from proa.tensor.arguments import as_count
from proa.tensor.creation import to_tensor
from proa.vision.transforms.image_types import Array, is_pil, pil, size_of

#: Names of ways to mix, with the reach of their filters in old pixels.
_REACH = {"nearest": 0.5, "bilinear": 1, "box": 0.5, "hamming": 1, "bicubic": 2,
          "lanczos": 3, "area": 0.5}  # fmt: skip


def _filter(mode: str, x: Array) -> Array:
    """The weight of a pixel at distance x."""
    x = np.abs(x)
    if mode == "bilinear":
        return np.asarray(np.clip(1 - x, 0, None))
    if mode == "bicubic":  # Keys' cubic with a = -0.75
        a = -0.75
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x < 1, near, np.where(x < 2, outer, 0.0))
    if mode == "lanczos":
        return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0.0)
    inside = np.where(x < 1, np.sinc(x) * (0.54 + 0.46 * np.cos(np.pi * x)), 0.0)
    return inside if mode == "hamming" else np.where(x <= 0.5, 1.0, 0.0)


def weights(old: int, new: int, mode: str) -> Array:
    """A matrix (new, old) that resizes one axis; its rows sum to one.

    Pixel centres are aligned at half: new pixel i is at (i + 0.5) old / new - 0.5.
    Pixels beyond the border repeat it. "area" averages what a new pixel covers, the
    other filters have the width of old pixels (no smoothing when shrinking).
    """
    scale = old / new
    if mode == "area":
        start = np.arange(new)[:, None] * scale
        overlap = np.minimum(start + scale, np.arange(1, old + 1)) - np.maximum(
            start, np.arange(old)
        )
        share = np.clip(overlap, 0, None)
        return np.asarray(share / share.sum(1, keepdims=True))
    at = (np.arange(new) + 0.5) * scale - 0.5
    reach = math.ceil(_REACH[mode])
    taps = np.floor(at)[:, None] + np.arange(1 - reach, reach + 1)
    value = _filter(mode, at[:, None] - taps)
    matrix = np.zeros((new, old))
    columns = np.clip(taps, 0, old - 1).astype(int)
    np.add.at(matrix, (np.arange(new)[:, None], columns), value)
    return np.asarray(matrix / matrix.sum(1, keepdims=True))


def resized(img: Any, height: int, width: int, mode: str) -> Any:
    """The image in another size."""
    if mode not in _REACH:
        raise InvalidArgumentError(
            f"[resize] interpolation must be one of {list(_REACH)}, got {mode!r}"
        )
    if height < 1 or width < 1:
        raise InvalidArgumentError(
            f"[resize] size must be positive, got {(height, width)}"
        )
    if size_of(img) == (height, width):
        return img
    if is_pil(img):
        kinds = pil().Resampling
        chosen = kinds.BOX if mode == "area" else kinds[mode.upper()]
        return img.resize((width, height), chosen)
    old_height, old_width = size_of(img)
    numbers = max(height * width, height * old_height, width * old_width)
    as_count("resize", "size", numbers, 8)
    if mode == "nearest":
        rows = _nearest(old_height, height)
        columns = _nearest(old_width, width)
        if isinstance(img, Tensor):
            taken = ops.gather(img, to_tensor(rows), axis=img.ndim - 2)
            return ops.gather(taken, to_tensor(columns), axis=img.ndim - 1)
        return img[rows][:, columns]
    down, along = weights(old_height, height, mode), weights(old_width, width, mode)
    if isinstance(img, Tensor):
        values = floating(img)
        left, right = to_tensor(down), to_tensor(np.ascontiguousarray(along.T))
        left, right = ops.cast_like(left, values), ops.cast_like(right, values)
        return like(ops.matmul(ops.matmul(left, values), right), img)
    values = floating(img)
    flat = values.reshape(old_height, -1)
    mixed = (down.astype(flat.dtype) @ flat).reshape(height, old_width, -1)
    mixed = np.einsum("wv,hvc->hwc", along.astype(flat.dtype), mixed, optimize=True)
    return like(mixed.reshape(height, width, *img.shape[2:]), img)


def _nearest(old: int, new: int) -> Array:
    return np.minimum((np.arange(new) * (old / new)).astype(np.int64), old - 1)


def floating(img: Any) -> Any:
    """The values as floats to compute with."""
    if isinstance(img, Tensor):
        return img if "float" in str(img.dtype) else img.astype("float32")
    return img if img.dtype.kind == "f" else img.astype(np.float32)


def like(values: Any, img: Any) -> Any:
    """Computed values in the dtype of the image; rounded and clipped for integers."""
    if isinstance(img, Tensor):
        if values.dtype == img.dtype:
            return values
        low, high = _limits(str(img.dtype).rpartition(".")[2])
        return ops.clip(ops.round(values), min=low, max=high).astype(img.dtype)
    if img.dtype.kind == "f":
        return values.astype(img.dtype)
    low, high = _limits(img.dtype.name)
    return np.clip(np.rint(values), low, high).astype(img.dtype)


def _limits(dtype: str) -> tuple[int, int]:
    if dtype == "bool":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def warped(
    img: Any,
    matrix: Array,
    mode: str,
    fill: Any,
    where: str,
    size: tuple[int, int] | None = None,
) -> Any:
    """The image seen through a projective map.

    ``matrix`` (3, 3) takes the centre (x + 0.5, y + 0.5, 1) of a new pixel to a point
    of the old image. Points outside get the fill; between pixels at the border, the
    border repeats.
    """
    if mode not in ("nearest", "bilinear"):
        raise InvalidArgumentError(
            f"[{where}] interpolation must be nearest or bilinear, got {mode!r}"
        )
    height, width = size_of(img)
    new_height, new_width = size or (height, width)
    x, y = np.meshgrid(np.arange(new_width) + 0.5, np.arange(new_height) + 0.5)
    points = np.stack([x.ravel(), y.ravel(), np.ones(x.size)])
    across, down, depth = matrix @ points
    with np.errstate(divide="ignore", invalid="ignore"):
        across, down = across / depth, down / depth
    inside = (across >= 0) & (across < width) & (down >= 0) & (down < height)
    across, down = np.where(inside, across, 0.0), np.where(inside, down, 0.0)
    source = _Pixels(img, inside, (new_height, new_width), fill, where)
    if mode == "nearest":
        index = np.floor(down).astype(np.int64) * width + np.floor(across).astype(int)
        return source.finished(source.at(index))
    left, top = np.floor(across - 0.5), np.floor(down - 0.5)
    dx, dy = across - 0.5 - left, down - 0.5 - top
    mixed: Any = 0.0
    for row, row_share in ((top, 1 - dy), (top + 1, dy)):
        for column, share in ((left, 1 - dx), (left + 1, dx)):
            index = np.clip(row, 0, height - 1) * width + np.clip(column, 0, width - 1)
            mixed = mixed + source.weighted(index.astype(np.int64), row_share * share)
    return source.finished(mixed)


class _Pixels:
    """The pixels of an array or tensor, taken by flat index."""

    def __init__(
        self, img: Any, inside: Array, size: tuple[int, int], fill: Any, where: str
    ) -> None:
        self.img, self.inside, self.size = img, inside, size
        self.tensor = isinstance(img, Tensor)
        height, width = size_of(img)
        if self.tensor:
            self.flat = ops.reshape(img, shape=[*img.shape[:-2], height * width])
        else:
            self.flat = img.reshape(height * width, -1)
        self.fill = fill_values(fill, img, where)

    def at(self, index: Array) -> Any:
        if self.tensor:
            return ops.gather(self.flat, to_tensor(index), axis=self.flat.ndim - 1)
        return self.flat[index]

    def weighted(self, index: Array, share: Array) -> Any:
        values = floating(self.at(index))
        if self.tensor:
            return values * ops.cast_like(to_tensor(share), values)
        return values * share[:, None].astype(values.dtype)

    def finished(self, values: Any) -> Any:
        """In the image's dtype, with the fill outside, in the new size."""
        values = like(values, self.img)
        if self.tensor:
            fill: Any = ops.cast_like(to_tensor(self.fill), values)
            if self.img.ndim > 2:
                fill = ops.reshape(fill, shape=[-1, 1])
            seen = ops.where(to_tensor(self.inside), values, fill)
            return ops.reshape(seen, shape=[*self.img.shape[:-2], *self.size])
        filled = np.where(self.inside[:, None], values, self.fill)
        return filled.astype(self.img.dtype).reshape(*self.size, *self.img.shape[2:])


def fill_values(fill: Any, img: Any, where: str) -> Array:
    """The fill of each channel: one number for all, or one for each."""
    values = np.atleast_1d(np.asarray(fill, np.float64))
    tensor = isinstance(img, Tensor)
    if img.ndim == 2:
        channels = 1
    else:
        channels = int(img.shape[-3] if tensor else img.shape[2])
    if values.ndim != 1 or len(values) not in (1, channels):
        raise InvalidArgumentError(
            f"[{where}] fill must be a number or one for each of {channels} channels, "
            f"got {fill}"
        )
    return values


def about(center: Sequence[float], linear: Array, shift: Sequence[float]) -> Array:
    """The map x -> linear (x - center) + center + shift, as a (3, 3) matrix."""
    matrix = np.eye(3)
    matrix[:2, :2] = linear
    if len(center) != 2:
        raise InvalidArgumentError(
            f"[rotate] expected center to be (x, y), got {list(center)!r:.80}"
        )
    middle = np.asarray(center, np.float64)
    matrix[:2, 2] = middle + np.asarray(shift, np.float64) - linear @ middle
    return matrix
