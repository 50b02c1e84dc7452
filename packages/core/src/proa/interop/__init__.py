"""Files and objects of other frameworks."""

from proa.interop import paddle

__all__ = ["paddle"]


def __dir__() -> list[str]:
    return __all__
