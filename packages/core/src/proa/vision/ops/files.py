"""Images from files."""

from __future__ import annotations

import io
import os

import numpy as np

from proa._core import Tensor
from proa.errors import InvalidArgumentError, MissingFileError, UnavailableError
from proa.tensor.creation import as_tensor

__all__ = ["decode_jpeg", "read_file"]


def read_file(filename: str, name: str | None = None) -> Tensor:
    """The bytes of a file, uint8 (n,)."""
    try:
        with open(os.fspath(filename), "rb") as file:
            return as_tensor(np.frombuffer(file.read(), np.uint8).copy())
    except FileNotFoundError as error:
        raise MissingFileError(f"[read_file] no file at {filename!r}") from error


def decode_jpeg(x: Tensor, mode: str = "unchanged", name: str | None = None) -> Tensor:
    """The picture in the bytes of a JPEG file, uint8 (C, H, W).

    Args:
        x: The bytes, as `read_file` gives them.
        mode: unchanged, gray or rgb.

    Raises:
        UnavailableError: If Pillow is not installed.
        InvalidArgumentError: If mode or the bytes are not as described.
    """
    modes = {"unchanged": None, "gray": "L", "rgb": "RGB"}
    if mode not in modes:
        raise InvalidArgumentError(
            f"[decode_jpeg] mode must be one of {', '.join(modes)}, got {mode!r}"
        )
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise UnavailableError(
            "[decode_jpeg] Pillow must be installed (pip install pillow)"
        ) from None
    try:
        image: Image.Image = Image.open(
            io.BytesIO(np.asarray(x.numpy(), np.uint8).tobytes())
        )
        if modes[mode] is not None:
            image = image.convert(modes[mode])
        pixels = np.asarray(image)
    except (UnidentifiedImageError, OSError) as error:
        raise InvalidArgumentError(
            f"[decode_jpeg] x must be the bytes of a picture, got {error}"
        ) from None
    return as_tensor(np.ascontiguousarray(np.moveaxis(np.atleast_3d(pixels), -1, 0)))
