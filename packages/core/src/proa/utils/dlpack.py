"""Exchange of tensors with other libraries without a copy (DLPack)."""

from typing import Any as _Any

from proa import _core
from proa.tensor.exchange import from_dlpack as _shared

__all__ = ["from_dlpack", "to_dlpack"]


def __dir__() -> list[str]:
    return __all__


def to_dlpack(x: _core.Tensor) -> _Any:
    """A DLPack capsule on the tensor's memory; it may be taken once."""
    return x.__dlpack__()


def from_dlpack(dlpack: _Any) -> _core.Tensor:
    """A tensor on the memory of a capsule, or of an object with ``__dlpack__``."""
    return _shared(dlpack)
