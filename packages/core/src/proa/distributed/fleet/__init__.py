"""PaddlePaddle's toolbox for large training jobs."""

from proa.distributed.fleet import utils

__all__ = ["utils"]


def __dir__() -> list[str]:
    return __all__
