"""Devices that programs may run on: the CPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

from proa.base.device import CPUPlace
from proa.errors import InvalidArgumentError, UnavailableError


def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """So many times the CPU.

    Args:
        device_count: How many; None takes the environment's ``CPU_NUM``, or 1.

    Raises:
        InvalidArgumentError: If it is not positive.
    """
    count = (
        int(os.environ.get("CPU_NUM", "1")) if device_count is None else device_count
    )
    if count < 1:
        raise InvalidArgumentError(
            f"[static.cpu_places] device_count must be positive, got {count!r}"
        )
    return [CPUPlace() for _ in range(count)]


def _refuse(where: str, device_ids: Sequence[int] | None) -> NoReturn:
    raise UnavailableError(
        f"[static.{where}] expected a device that programs run on, the CPU, got "
        f"device_ids={device_ids}"
    )


def cuda_places(device_ids: Sequence[int] | None = None) -> NoReturn:
    """Refused: programs run on the CPU.

    Args:
        device_ids: Numbers of GPUs.

    Raises:
        UnavailableError: Always.
    """
    _refuse("cuda_places", device_ids)


def xpu_places(device_ids: Sequence[int] | None = None) -> NoReturn:
    """Refused: programs run on the CPU.

    Args:
        device_ids: Numbers of devices.

    Raises:
        UnavailableError: Always.
    """
    _refuse("xpu_places", device_ids)
