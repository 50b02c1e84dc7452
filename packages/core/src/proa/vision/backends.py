"""What image files are read as: PIL images, arrays or tensors."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proa.errors import InvalidArgumentError, NotFoundError
from proa.vision.transforms.image_types import pil

_BACKENDS = ("pil", "cv2", "tensor")
_current = "pil"


def _checked(backend: str, where: str) -> str:
    if backend not in _BACKENDS:
        raise InvalidArgumentError(
            f"[{where}] backend must be one of {list(_BACKENDS)}, got {backend!r}"
        )
    return backend


def set_image_backend(backend: str) -> None:
    """Choose what :func:`image_load` and the datasets give.

    Args:
        backend: "pil": PIL images; "cv2": arrays (H, W[, C]), colours of files in the
            order of OpenCV (blue first); "tensor": tensors (C, H, W) of bytes.

    Raises:
        InvalidArgumentError: If it is another.
    """
    global _current
    _current = _checked(backend, "set_image_backend")


def get_image_backend() -> str:
    """The backend in use; "pil" at first."""
    return _current


def chosen_backend(backend: str | None, where: str) -> str:
    """The backend given, or the one in use."""
    return _current if backend is None else _checked(backend, where)


def image_load(path: str | os.PathLike[str], backend: str | None = None) -> Any:
    """The image in a file, decoded by Pillow.

    Args:
        path: The file.
        backend: See :func:`set_image_backend`; None means the one in use.

    Raises:
        NotFoundError: If there is no such file.
        InvalidArgumentError: If it is no image or backend is another.
        UnavailableError: If Pillow is not installed.
    """
    chosen = chosen_backend(backend, "image_load")
    try:
        image = pil().open(path)
        if chosen == "pil":
            return image
        return from_pil(image, chosen)
    except FileNotFoundError:
        raise NotFoundError(f"[image_load] path must be a file, got {path}") from None
    except OSError as error:
        raise InvalidArgumentError(
            f"[image_load] {path} must be an image, got: {error}"
        ) from None


def from_pil(image: Any, backend: str) -> Any:
    """A PIL image as the backend gives it."""
    if backend == "pil":
        return image
    if image.mode not in ("L", "RGB"):
        image = image.convert("RGB")
    pixels = np.asarray(image)
    if backend == "cv2":
        return np.ascontiguousarray(pixels[:, :, ::-1]) if pixels.ndim == 3 else pixels
    return _to_bytes_tensor(pixels)


def from_array(pixels: NDArray[np.uint8], backend: str) -> Any:
    """Bytes (H, W[, C]) as the backend gives them; channels keep their order."""
    if backend == "pil":
        return pil().fromarray(pixels)
    return pixels if backend == "cv2" else _to_bytes_tensor(pixels)


def _to_bytes_tensor(pixels: NDArray[np.uint8]) -> Any:
    from proa.tensor.creation import to_tensor

    planes = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return to_tensor(np.ascontiguousarray(planes))
