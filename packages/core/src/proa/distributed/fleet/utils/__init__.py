"""Helpers of large training jobs."""

from proa.nn.recompute import recompute

__all__ = ["recompute"]


def __dir__() -> list[str]:
    return __all__
