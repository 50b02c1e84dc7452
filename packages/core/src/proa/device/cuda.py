"""CUDA devices: this build drives none itself, and says so."""

import collections.abc as _abc
import typing as _typing

from proa import errors as _errors
from proa._core import Tensor as _Tensor
from proa.base.device import Place as _Place

__all__ = [
    "device_count", "empty_cache", "get_device_capability", "get_device_name",
    "get_device_properties", "get_rng_state", "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_reserved", "set_rng_state",
    "synchronize",
]  # fmt: skip


#: A place, its name or the number of a GPU; None is the current one.
_Device: _typing.TypeAlias = _Place | str | int | None


def __dir__() -> list[str]:
    return __all__


def device_count() -> int:
    """How many GPUs this build can use: 0."""
    return 0


def empty_cache() -> None:
    """Nothing is kept on a GPU."""


def get_rng_state() -> list[_Tensor]:
    """States of the GPUs' generators: none."""
    return []


def set_rng_state(state_list: _abc.Sequence[object]) -> None:
    """Put the GPUs' generators into states that get_rng_state gave.

    Raises:
        UnavailableError: If there are any: they belong to GPUs.
    """
    if state_list:
        _refuse("set_rng_state")


def _refuse(where: str) -> _typing.NoReturn:
    raise _errors.UnavailableError(
        f"[device.cuda.{where}] expected a CUDA device, got a build for the CPU"
    )


def synchronize(device: _Device = None) -> None:
    """Wait for a GPU.

    Raises:
        UnavailableError: Always, as for every function below.
    """
    _refuse("synchronize")


def memory_allocated(device: _Device = None) -> int:
    """Bytes in use on a GPU."""
    _refuse("memory_allocated")


def max_memory_allocated(device: _Device = None) -> int:
    """The most bytes that were in use on a GPU."""
    _refuse("max_memory_allocated")


def memory_reserved(device: _Device = None) -> int:
    """Bytes reserved on a GPU."""
    _refuse("memory_reserved")


def max_memory_reserved(device: _Device = None) -> int:
    """The most bytes that were reserved on a GPU."""
    _refuse("max_memory_reserved")


def get_device_properties(device: _Device = None) -> object:
    """What a GPU is."""
    _refuse("get_device_properties")


def get_device_name(device: _Device = None) -> str:
    """A GPU's name."""
    _refuse("get_device_name")


def get_device_capability(device: _Device = None) -> tuple[int, int]:
    """A GPU's compute capability."""
    _refuse("get_device_capability")
