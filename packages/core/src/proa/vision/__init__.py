"""Images: networks, transforms and datasets."""

from __future__ import annotations

from proa.vision import datasets, models, transforms

__all__ = ["datasets", "models", "transforms"]
