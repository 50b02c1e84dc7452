"""Distillation of networks under the names of PaddleSlim, see `proa_slim.distill`."""

from proa_slim.distill import Distill

__all__ = ["Distill"]


def __dir__() -> list[str]:
    return __all__
