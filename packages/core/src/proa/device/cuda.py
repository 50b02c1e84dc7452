"""CUDA devices: this build drives none itself, and says so."""

from __future__ import annotations

from typing import Any, NoReturn

from proa.errors import UnavailableError


def device_count() -> int:
    """How many GPUs this build can use: 0."""
    return 0


def empty_cache() -> None:
    """Nothing is kept on a GPU."""


def get_rng_state() -> list[Any]:
    """States of the GPUs' generators: none."""
    return []


def set_rng_state(state_list: list[Any]) -> None:
    """Put the GPUs' generators into states that get_rng_state gave.

    Raises:
        UnavailableError: If there are any: they belong to GPUs.
    """
    if state_list:
        _refuse("set_rng_state")


def _refuse(where: str) -> NoReturn:
    raise UnavailableError(
        f"[device.cuda.{where}] a CUDA device must be there, got a build for the CPU"
    )


def synchronize(device: Any = None) -> None:
    """Wait for a GPU.

    Raises:
        UnavailableError: Always, as for every function below.
    """
    _refuse("synchronize")


def memory_allocated(device: Any = None) -> int:
    """Bytes in use on a GPU."""
    _refuse("memory_allocated")


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were in use on a GPU."""
    _refuse("max_memory_allocated")


def memory_reserved(device: Any = None) -> int:
    """Bytes reserved on a GPU."""
    _refuse("memory_reserved")


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that were reserved on a GPU."""
    _refuse("max_memory_reserved")


def get_device_properties(device: Any = None) -> Any:
    """What a GPU is."""
    _refuse("get_device_properties")


def get_device_name(device: Any = None) -> str:
    """A GPU's name."""
    _refuse("get_device_name")


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """A GPU's compute capability."""
    _refuse("get_device_capability")
