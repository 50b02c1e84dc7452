"""Transforms of images: PIL images, arrays (H, W[, C]) and tensors (C, H, W)."""

from proa.base.public import publish as _publish
from proa.vision.transforms import deterministic, functional, randomized
from proa.vision.transforms.base import BaseTransform, Compose
from proa.vision.transforms.deterministic import *  # noqa: F403
from proa.vision.transforms.functional import *  # noqa: F403
from proa.vision.transforms.randomized import *  # noqa: F403

__all__ = [
    "BaseTransform", "Compose",
    *deterministic.__all__, *functional.__all__, *randomized.__all__,
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_publish(functional.__name__, __name__)
