"""Exchange of tensors with other libraries without a copy (DLPack)."""

from __future__ import annotations

from typing import Any

from proa import _core
from proa._core import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(x: Tensor) -> Any:
    """A DLPack capsule on the tensor's memory; it may be taken once."""
    return x.__dlpack__()


def from_dlpack(dlpack: Any) -> Tensor:
    """A tensor on the memory of a capsule, or of an object with ``__dlpack__``."""
    tensor: Tensor = _core.from_dlpack(dlpack)
    return tensor
