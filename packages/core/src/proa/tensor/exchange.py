"""Tensors on the memory of other libraries' arrays (DLPack)."""

from __future__ import annotations

from typing import Any

from proa import _core
from proa._core import Tensor, ops
from proa.base.device import Place, check_place
from proa.errors import ExchangeError, InvalidArgumentError, InvalidTypeError

#: The newest version of the protocol that is read.
_VERSION = (1, 0)


def from_dlpack(
    x: Any, /, *, device: Place | None = None, copy: bool | None = None
) -> Tensor:
    """A Tensor on the memory of an array of another library.

    Args:
        x: An object with ``__dlpack__``; a capsule is taken too.
        device: None or the CPU.
        copy: True copies; False never does; None only if the memory is read-only.

    Raises:
        ExchangeError: If the memory is not the host's, or is read-only and must not be
            copied (a BufferError).
        InvalidArgumentError: If the dtype is none of Tensors, or there are more than 8
            axes.
        InvalidTypeError: If x has no ``__dlpack__``.
    """
    check_place("from_dlpack", device)
    if type(x).__name__ == "PyCapsule":
        tensor: Tensor = _core.from_dlpack(x)
        return ops.assign(tensor) if copy else tensor
    if not hasattr(x, "__dlpack__"):
        raise InvalidTypeError(
            f"[from_dlpack] expected an object with __dlpack__, got {type(x).__name__}"
        )
    kind, number = x.__dlpack_device__()
    if int(kind) != 1:
        raise ExchangeError(
            f"[from_dlpack] expected an array in host memory, got one of device "
            f"({int(kind)}, {number})"
        )
    try:
        return _taken(x, copy)
    except ExchangeError:
        if copy is not None:
            raise
    return _taken(x, True)


def _taken(x: Any, copy: bool | None) -> Tensor:
    try:
        capsule = x.__dlpack__(max_version=_VERSION, copy=copy)
    except TypeError:  # a producer of before version 1, which always shares
        tensor: Tensor = _core.from_dlpack(x.__dlpack__())
        return ops.assign(tensor) if copy else tensor
    except ValueError as error:
        raise InvalidArgumentError(f"[from_dlpack] {error}") from error
    shared: Tensor = _core.from_dlpack(capsule)
    return shared
