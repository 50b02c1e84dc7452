"""Images: networks, transforms and datasets."""

from typing import Any as _Any

from proa.vision import datasets, image, models, ops, transforms
from proa.vision.backends import get_image_backend, image_load, set_image_backend

__all__ = [
    "datasets", "get_image_backend", "image", "image_load", "models",
    "ops", "set_image_backend", "transforms",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> _Any:
    """Datasets, networks and transforms can be named without their module, too."""
    for module in (datasets, models, transforms):
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module 'proa.vision' has no attribute {name!r}")
