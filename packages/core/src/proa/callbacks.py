"""Callbacks of `proa.Model`, by PaddlePaddle's name of the module."""

from proa.hapi.callbacks import *  # noqa: F403
from proa.hapi.callbacks import __all__ as __all__
