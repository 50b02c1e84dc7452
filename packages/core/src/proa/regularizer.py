"""Weight decay, by PaddlePaddle's name of the module."""

from proa.optimizer.regularizer import L1Decay, L2Decay

__all__ = ["L1Decay", "L2Decay"]


def __dir__() -> list[str]:
    return __all__
