"""Functions on images.

Each takes a PIL image, an array (H, W[, C]) or a tensor (…, C, H, W) and gives the same
kind back. Tensors stay on the tape, and functions of them can be recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from proa._core import Tensor, ops
from proa.base.annotations import shown
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.tensor.arguments import as_count
from proa.tensor.creation import to_tensor as _tensor
from proa.tensor.manipulation import flip
from proa.vision.transforms import color
from proa.vision.transforms.image_types import (
    Array,
    Img,
    as_numbers,
    checked,
    finite,
    is_pil,
    size_of,
    through,
    to_array,
)
from proa.vision.transforms.sampling import (
    about,
    fill_values,
    floating,
    resized,
    warped,
)

if TYPE_CHECKING:
    from proa.base.typing import TensorLike

__all__ = [
    "adjust_brightness", "adjust_contrast", "adjust_hue", "adjust_saturation", "affine",
    "center_crop", "crop", "erase", "hflip", "normalize", "pad", "perspective",
    "resize", "rotate", "to_array", "to_grayscale", "to_tensor", "vflip",
]  # fmt: skip


# By these names Paddle's own example of a transform tests what an image is.
_is_pil_image = is_pil


def _is_numpy_image(image: Any) -> bool:
    return isinstance(image, np.ndarray)


def _is_tensor_image(image: Any) -> bool:
    return isinstance(image, Tensor)


def pair(where: str, value: Any) -> tuple[int, int]:
    """A height and a width from one number or two."""
    if not isinstance(value, (list, tuple)):
        finite(where, size=value)
        return int(value), int(value)
    height, width = as_numbers(where, "size", value, 2)
    return int(height), int(width)


def to_tensor(pic: Any, data_format: str = "CHW") -> Tensor:
    """(H, W, C) or (H, W) to a float32 tensor (C, H, W); uint8 is divided by 255.

    Args:
        pic: A PIL image, an array, or a tensor (which is returned).
        data_format: "CHW", or "HWC" to leave channels last.

    Raises:
        InvalidArgumentError: If data_format is another or pic is no image.
    """
    if data_format not in ("CHW", "HWC"):
        raise InvalidArgumentError(
            f"[to_tensor] data_format must be CHW or HWC, got {data_format!r}"
        )
    if isinstance(pic, Tensor):
        return pic
    pixels = to_array(checked(pic, "to_tensor"))
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    scale = 255.0 if pixels.dtype == np.uint8 else 1.0
    values = pixels.astype(np.float32) / np.float32(scale)
    if data_format == "CHW":
        values = values.transpose(2, 0, 1)
    return _tensor(np.ascontiguousarray(values))


def crop(img: Img, top: int, left: int, height: int, width: int) -> Img:
    """The block of the image that begins at (top, left)."""
    if is_pil(checked(img, "crop")):
        return cast("Img", img.crop((left, top, left + width, top + height)))
    if isinstance(img, Tensor):
        return cast("Img", img[..., top : top + height, left : left + width])
    return cast("Img", img[top : top + height, left : left + width])


def center_crop(img: Img, output_size: int | Sequence[int]) -> Img:
    """The middle of the image.

    Raises:
        InvalidArgumentError: If output_size is larger than the image.
    """
    old_height, old_width = size_of(img, "center_crop")
    height, width = pair("center_crop", output_size)
    if height > old_height or width > old_width:
        raise InvalidArgumentError(
            f"[center_crop] output_size must be at most {(old_height, old_width)}, "
            f"got {(height, width)}"
        )
    top, left = round((old_height - height) / 2), round((old_width - width) / 2)
    return crop(img, top, left, height, width)


def hflip(img: Img) -> Img:
    """Left and right exchanged."""
    if isinstance(checked(img, "hflip"), Tensor):
        return cast("Img", flip(img, axis=[-1]))
    return through(img, lambda a: np.ascontiguousarray(a[:, ::-1]))


def vflip(img: Img) -> Img:
    """Top and bottom exchanged."""
    if isinstance(checked(img, "vflip"), Tensor):
        return cast("Img", flip(img, axis=[-2]))
    return through(img, lambda a: np.ascontiguousarray(a[::-1]))


def pad(
    img: Img,
    padding: int | Sequence[int],
    fill: float | Sequence[float] = 0,
    padding_mode: str = "constant",
) -> Img:
    """Pixels put around the image.

    Args:
        img: The image.
        padding: One number, (left-right, top-bottom) or (left, top, right, bottom).
        fill: For mode "constant": a number, or one for each channel.
        padding_mode: "constant", "edge", "reflect" (the border is not repeated) or
            "symmetric" (it is).

    Raises:
        InvalidArgumentError: If padding or padding_mode is another.
    """
    amount = [padding] if isinstance(padding, int) else list(padding)
    if len(amount) not in (1, 2, 4):
        raise InvalidArgumentError(
            f"[pad] padding must be 1, 2 or 4 numbers, got {padding}"
        )
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise InvalidArgumentError(
            "[pad] padding_mode must be constant, edge, reflect or symmetric, "
            f"got {padding_mode!r}"
        )
    if not all(isinstance(n, int) for n in amount):
        raise InvalidTypeError(f"[pad] expected padding of ints, got {shown(padding)}")
    if min(amount) < 0:
        raise InvalidArgumentError(
            f"[pad] expected padding of at least 0, got {padding}"
        )
    as_count("pad", "padding", sum(amount), 8)
    left, top = amount[0], amount[1 % len(amount)]
    right, bottom = (left, top) if len(amount) < 4 else (amount[2], amount[3])
    sides = ((top, bottom), (left, right))
    return through(
        checked(img, "pad"), lambda pixels: _padded(pixels, sides, fill, padding_mode)
    )


def _padded(img: Any, sides: Any, fill: Any, mode: str) -> Any:
    """By the index each new row and column takes; those outside get the fill."""
    height, width = size_of(img)
    names: dict[str, Any] = {"constant": "edge"}
    rows = np.pad(np.arange(height), sides[0], mode=names.get(mode, mode))
    columns = np.pad(np.arange(width), sides[1], mode=names.get(mode, mode))
    if isinstance(img, Tensor):
        taken = ops.gather(img, _tensor(rows), axis=img.ndim - 2)
        taken = ops.gather(taken, _tensor(columns), axis=img.ndim - 1)
    else:
        taken = img[rows][:, columns]
    if mode != "constant":
        return taken
    inside = np.pad(np.ones((height, width), bool), sides)
    values = fill_values(fill, img, "pad")
    if isinstance(img, Tensor):
        colour = ops.cast_like(_tensor(values), taken)
        colour = ops.reshape(colour, shape=[-1, 1, 1]) if img.ndim > 2 else colour
        return ops.where(_tensor(inside), taken, colour)
    inside = inside[:, :, None] if img.ndim > 2 else inside
    return np.where(inside, taken, values).astype(img.dtype)


def resize(img: Img, size: int | Sequence[int], interpolation: str = "bilinear") -> Img:
    """The image in another size.

    Args:
        img: The image.
        size: (height, width), or one number: that of the shorter side.
        interpolation: "nearest", "bilinear", "bicubic", "lanczos", "box", "hamming" or
            "area". PIL images are resized by PIL, which smooths when it shrinks;
            arrays and tensors sample the old pixels (but for "area").

    Raises:
        InvalidArgumentError: If interpolation is another or size is not positive.
    """
    height, width = size_of(img, "resize")
    if not isinstance(size, (int, list, tuple)):
        raise InvalidTypeError(
            "[resize] expected size as an int or a sequence of two, got "
            f"{type(size).__name__!r}"
        )
    if isinstance(size, int) or len(size) == 1:
        short = size if isinstance(size, int) else int(size[0])
        if width <= height:
            size = (int(short * height / width), short)
        else:
            size = (short, int(short * width / height))
    return cast("Img", resized(img, *pair("resize", size), interpolation))


def rotate(
    img: Img,
    angle: float,
    interpolation: str = "nearest",
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: float | Sequence[float] = 0,
    resample: str | None = None,
) -> Img:
    """Rotate the image counter-clockwise.

    Args:
        img: The image.
        angle: In degrees.
        interpolation: "nearest" or "bilinear".
        expand: Whether the result is as large as the rotated image (about its middle).
        center: (x, y) of the point that stays, from the upper left; by default the
            middle.
        fill: Value of the pixels from outside: a number, or one for each channel.
        resample: Paddle 2.1's name of interpolation.

    Raises:
        InvalidArgumentError: If interpolation is another.
    """
    mode = resample if isinstance(resample, str) else interpolation
    height, width = size_of(img, "rotate")
    finite("rotate", angle=angle, center=center or 0)
    theta = math.radians(angle % 360.0)
    cos, sin = round(math.cos(theta), 15), round(math.sin(theta), 15)
    # y points down: this takes a new point back to the old one.
    linear = np.array([[cos, -sin], [sin, cos]])
    matrix = about(center or (width / 2, height / 2), linear, (0, 0))
    size = None
    if expand:
        corners = np.array([[0, 0], [width, 0], [0, height], [width, height]])
        back = about(center or (width / 2, height / 2), linear.T, (0, 0))
        x, y, _ = back @ np.c_[corners, np.ones(4)].T
        size = (
            math.ceil(max(y)) - math.floor(min(y)),
            math.ceil(max(x)) - math.floor(min(x)),
        )
        # The middle of the new image is where the old one's middle went.
        shift = np.eye(3)
        shift[:2, 2] = (width - size[1]) / 2, (height - size[0]) / 2
        matrix = matrix @ shift
    return through(img, lambda a: warped(a, matrix, mode, fill, "rotate", size))


def affine(
    img: Img,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: float | Sequence[float],
    interpolation: str = "nearest",
    fill: float | Sequence[float] = 0,
    center: Sequence[float] | None = None,
) -> Img:
    """Rotate, scale and shear the image about its center, then translate it.

    Args:
        img: The image.
        angle: Clockwise, in degrees.
        translate: Pixels to the right and down.
        scale: Factor of size; positive.
        shear: Degrees along x, or along x and y.
        interpolation: "nearest" or "bilinear".
        fill: Value of the pixels from outside.
        center: (x, y); by default the middle.

    Raises:
        InvalidArgumentError: If scale is not positive or interpolation is another.
    """
    if scale <= 0:
        raise InvalidArgumentError(f"[affine] scale must be positive, got {scale}")
    height, width = size_of(img, "affine")
    finite(
        "affine", angle=angle, translate=translate, scale=scale, shear=shear,
        center=center or 0,
    )  # fmt: skip
    shears: list[Any] = list(shear) if isinstance(shear, (list, tuple)) else [shear]
    theta = math.radians(angle)
    x, y = (math.radians(s) for s in (*shears, 0.0)[:2])
    # Rotation after the shears along y and x; forward, y pointing down.
    rotation = np.array(
        [[math.cos(theta), -math.sin(theta)], [math.sin(theta), math.cos(theta)]]
    )
    shearing = np.array([[1.0, 0.0], [-math.tan(y), 1.0]]) @ np.array(
        [[1.0, -math.tan(x)], [0.0, 1.0]]
    )
    forward = about(
        center or (width / 2, height / 2), scale * rotation @ shearing, translate
    )
    matrix = np.linalg.inv(forward)
    return through(img, lambda a: warped(a, matrix, interpolation, fill, "affine"))


def perspective(
    img: Img,
    startpoints: Sequence[Sequence[float]],
    endpoints: Sequence[Sequence[float]],
    interpolation: str = "nearest",
    fill: float | Sequence[float] = 0,
) -> Img:
    """The perspective transform that maps four points to four others.

    Args:
        img: The image.
        startpoints: Four (x, y) in the image.
        endpoints: Their positions in the result.
        interpolation: "nearest" or "bilinear".
        fill: Value of the pixels from outside.

    Raises:
        InvalidArgumentError: If there are not four of each, or they are collinear.
    """
    start, end = np.asarray(startpoints, float), np.asarray(endpoints, float)
    if start.shape != (4, 2) or end.shape != (4, 2):
        raise InvalidArgumentError(
            "[perspective] startpoints and endpoints must be four points each, "
            f"got shapes {start.shape} and {end.shape}"
        )
    # x' (g x + h y + 1) = a x + b y + c, and likewise y', for each pair: 8 equations.
    (x, y), (u, v) = end.T, start.T
    one, zero = np.ones(4), np.zeros(4)
    rows = [
        np.c_[x, y, one, zero, zero, zero, -x * u, -y * u],
        np.c_[zero, zero, zero, x, y, one, -x * v, -y * v],
    ]
    try:
        found = np.linalg.solve(np.concatenate(rows), np.r_[u, v])
    except np.linalg.LinAlgError:
        raise InvalidArgumentError(
            f"[perspective] endpoints must not be collinear, got {endpoints}"
        ) from None
    matrix = np.append(found, 1.0).reshape(3, 3)
    return through(
        checked(img, "perspective"),
        lambda a: warped(a, matrix, interpolation, fill, "perspective"),
    )


def to_grayscale(img: Img, num_output_channels: int = 1) -> Img:
    """0.299 red + 0.587 green + 0.114 blue, in 1 or 3 equal channels.

    Raises:
        InvalidArgumentError: If num_output_channels is neither 1 nor 3.
    """
    if num_output_channels not in (1, 3):
        raise InvalidArgumentError(
            f"[to_grayscale] num_output_channels must be 1 or 3, "
            f"got {num_output_channels}"
        )
    if is_pil(checked(img, "to_grayscale")):
        one = img.convert("L")
        return cast("Img", one if num_output_channels == 1 else one.convert("RGB"))
    return cast("Img", color.grey(img, num_output_channels))


def _not_negative(factor: float, name: str) -> None:
    if factor < 0:
        raise InvalidArgumentError(
            f"[adjust_{name}] {name}_factor must not be negative, got {factor}"
        )


def adjust_brightness(img: Img, brightness_factor: float) -> Img:
    """factor * img, clipped; 0 gives black, 1 the image."""
    _not_negative(brightness_factor, "brightness")
    return through(
        checked(img, "adjust_brightness"),
        lambda a: color.blend(a, 0.0, brightness_factor),
    )


def adjust_contrast(img: Img, contrast_factor: float) -> Img:
    """factor * img + (1 - factor) * mean grey, clipped; 1 gives the image."""
    _not_negative(contrast_factor, "contrast")
    return through(
        checked(img, "adjust_contrast"),
        lambda a: color.blend(a, color.mean_grey(a), contrast_factor),
    )


def adjust_saturation(img: Img, saturation_factor: float) -> Img:
    """factor * img + (1 - factor) * grey, clipped; 0 gives grey, 1 the image."""
    _not_negative(saturation_factor, "saturation")

    def change(pixels: Any) -> Any:
        if isinstance(pixels, Tensor) and pixels.ndim == 2:
            return pixels
        grey = color.grey(pixels, 1) if pixels.ndim > 2 else pixels
        return color.blend(pixels, floating(grey), saturation_factor)

    return through(checked(img, "adjust_saturation"), change)


def adjust_hue(img: Img, hue_factor: float) -> Img:
    """The hue shifted by hue_factor of a full circle, -0.5 to 0.5.

    Raises:
        InvalidArgumentError: If hue_factor is outside.
    """
    if not -0.5 <= hue_factor <= 0.5:
        raise InvalidArgumentError(
            f"[adjust_hue] hue_factor must be in [-0.5, 0.5], got {hue_factor}"
        )
    return through(checked(img, "adjust_hue"), lambda a: color.shift_hue(a, hue_factor))


def normalize(
    img: Any,
    mean: float | Sequence[float],
    std: float | Sequence[float],
    data_format: str = "CHW",
    to_rgb: bool = False,
) -> Any:
    """(image - mean) / std for each channel, as float32.

    Args:
        img: The image; a PIL image becomes an array.
        mean: A number, or one for each channel.
        std: A number, or one for each channel.
        data_format: "CHW" or "HWC": where the channels of img are.
        to_rgb: Whether to exchange the first and the last channel before.
    """
    image = checked(img, "normalize")
    image = image if isinstance(image, Tensor) else to_array(image)
    first = data_format == "CHW"  # (H, W) becomes (1, H, W)
    shape = (-1, 1, 1) if first else (-1,)
    shift: Any = np.asarray(mean, np.float32).reshape(shape)
    scale: Any = np.asarray(std, np.float32).reshape(shape)
    if isinstance(image, Tensor):
        values = image if "float" in str(image.dtype) else image.astype("float32")
        if to_rgb:
            values = flip(values, axis=[-3 if first else -1])
        return (values - _tensor(shift)) / _tensor(scale)
    pixels: Array = image.astype(np.float32)
    if to_rgb:
        pixels = pixels[::-1] if first else pixels[..., ::-1]
    return (pixels - shift) / scale


def erase(
    img: Img, i: int, j: int, h: int, w: int, v: TensorLike, inplace: bool = False
) -> Img:
    """The block at row i and column j, h by w, replaced by the values v.

    Args:
        img: The image.
        i: Top row.
        j: Left column.
        h: Height.
        w: Width.
        v: A number, or values that broadcast to the block (in the order of img's axes).
        inplace: Whether to change an array or tensor itself.
    """
    if is_pil(checked(img, "erase")):
        return through(img, lambda a: erase(a, i, j, h, w, v))
    if isinstance(img, Tensor):
        image = img if inplace else img.clone()
        image[..., i : i + h, j : j + w] = v
        return cast("Img", image)
    pixels = img if inplace else img.copy()
    pixels[i : i + h, j : j + w] = to_array(v)
    return cast("Img", pixels)
