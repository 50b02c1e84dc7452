"""What programs call for a device that Proa does not run on: the IPU."""

from __future__ import annotations

from typing import NoReturn

from proa.errors import UnimplementedError


def _refuse(where: str) -> NoReturn:
    raise UnimplementedError(
        f"[static.{where}] no such device: programs run on the CPU, got the IPU"
    )


class IpuStrategy:
    """Refused: there is no such device.

    Raises:
        UnimplementedError: Always.
    """

    def __init__(self) -> None:
        _refuse("IpuStrategy")


class IpuCompiledProgram:
    """Refused: there is no such device.

    Args:
        program: A program.
        scope: A scope.
        ipu_strategy: An IpuStrategy.

    Raises:
        UnimplementedError: Always.
    """

    def __init__(
        self,
        program: object = None,
        scope: object = None,
        ipu_strategy: object = None,
    ) -> None:
        _refuse("IpuCompiledProgram")


def ipu_shard_guard(index: int = -1, stage: int = -1) -> NoReturn:
    """Refused: there is no such device.

    Raises:
        UnimplementedError: Always.
    """
    _refuse("ipu_shard_guard")


def set_ipu_shard(call_func: object, index: int = -1, stage: int = -1) -> NoReturn:
    """Refused: there is no such device.

    Raises:
        UnimplementedError: Always.
    """
    _refuse("set_ipu_shard")
