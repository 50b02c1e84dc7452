"""How image files are read."""

from proa.vision.backends import get_image_backend, image_load, set_image_backend

__all__ = ["get_image_backend", "image_load", "set_image_backend"]


def __dir__() -> list[str]:
    return __all__
