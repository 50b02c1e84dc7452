"""Callbacks of `proa.Model`, by PaddlePaddle's name of the module."""

from proa.hapi.callbacks import *  # noqa: F403
from proa.hapi.callbacks import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
