"""`AutoCompression`: `compress` of model files, with the arguments of PaddleSlim."""

from proa_slim.compression.auto import AutoCompression

__all__ = ["AutoCompression"]


def __dir__() -> list[str]:
    return __all__
