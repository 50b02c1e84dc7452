"""Images: networks, transforms and datasets."""

from __future__ import annotations

from proa.vision import datasets, image, models, ops, transforms
from proa.vision.image import get_image_backend, image_load, set_image_backend

__all__ = [
    "datasets", "get_image_backend", "image", "image_load", "models",
    "ops", "set_image_backend", "transforms",
]  # fmt: skip
