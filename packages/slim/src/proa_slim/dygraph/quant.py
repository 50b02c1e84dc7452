"""Quantization of networks under the names of PaddleSlim, see `proa_slim.quant`."""

from proa_slim.quant import PTQ, QAT

__all__ = ["PTQ", "QAT"]


def __dir__() -> list[str]:
    return __all__
