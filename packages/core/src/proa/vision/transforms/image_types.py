"""The three kinds of image: PIL images, arrays (H, W[, C]), tensors (…, C, H, W)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from proa._core import Tensor
from proa.base.annotations import shown
from proa.errors import InvalidArgumentError, UnavailableError

Array = NDArray[Any]
#: A PIL image, an array or a tensor: what a function returns of what it takes.
Img = TypeVar("Img", bound=Any)


def pil() -> Any:
    """The module PIL.Image.

    Raises:
        UnavailableError: If Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        raise UnavailableError(
            "[vision] Pillow must be installed to work on PIL images: "
            "pip install pillow"
        ) from None
    return Image


def is_pil(image: Any) -> bool:
    """Whether this is a PIL image (Pillow is not imported to find out)."""
    return type(image).__module__.startswith("PIL.")


def to_array(image: Any) -> Array:
    """An image as an array: arrays as they are, PIL images by their pixels."""
    return image.numpy() if isinstance(image, Tensor) else np.asarray(image)


def checked(image: Img, where: str) -> Img:
    """The image, if it is one.

    Raises:
        InvalidArgumentError: If it has no height and width, or no pixels.
    """
    if is_pil(image):
        return image
    if isinstance(image, Tensor):
        sound = image.ndim >= 2 and 0 not in image.shape[-3:]
        sound = sound and not image.dtype.is_complex
    elif isinstance(image, np.ndarray):
        sound = image.ndim in (2, 3) and image.size > 0 and image.dtype.kind in "biuf"
    else:
        sound = False
    if not sound:
        raise InvalidArgumentError(
            f"[{where}] expected img to be a PIL image, a real array (H, W[, C]) or a "
            f"real tensor (..., C, H, W) with pixels, got {shown(image)}"
        )
    return image


def finite(where: str, **numbers: Any) -> None:
    """Raise unless all that is given by name, numbers or lists of them, is finite."""
    for name, value in numbers.items():
        if not np.isfinite(np.asarray(value, np.float64)).all():
            raise InvalidArgumentError(
                f"[{where}] expected {name} to be finite, got {value}"
            )


def as_numbers(where: str, name: str, values: Any, *counts: int) -> tuple[float, ...]:
    """As many finite numbers as one of ``counts``.

    Raises:
        InvalidArgumentError: If they are another number, or infinite.
    """
    if not isinstance(values, (list, tuple, np.ndarray)) or len(values) not in counts:
        wanted = " or ".join(map(str, counts))
        raise InvalidArgumentError(
            f"[{where}] expected {name} to be {wanted} numbers, got {shown(values)}"
        )
    finite(where, **{name: values})
    return tuple(float(v) for v in values)


def size_of(image: Any, where: str = "size_of") -> tuple[int, int]:
    """Height and width of an image.

    Raises:
        InvalidArgumentError: If it is none.
    """
    checked(image, where)
    if is_pil(image):
        return int(image.height), int(image.width)
    if isinstance(image, Tensor):
        return int(image.shape[-2]), int(image.shape[-1])
    return int(image.shape[0]), int(image.shape[1])


def channels_of(image: Any) -> int:
    """Channels; an image without a channel axis has one."""
    if isinstance(image, Tensor):
        return int(image.shape[-3]) if image.ndim > 2 else 1
    pixels = np.asarray(image) if is_pil(image) else image
    return int(pixels.shape[2]) if pixels.ndim > 2 else 1


def through(image: Img, change: Callable[[Any], Any]) -> Img:
    """``change`` applied to an array or tensor; PIL images go through an array."""
    if not is_pil(image):
        return cast("Img", change(image))
    done = pil().fromarray(np.ascontiguousarray(change(np.asarray(image))))
    if image.mode == "P":
        done.putpalette(image.getpalette())
    return cast("Img", done)
