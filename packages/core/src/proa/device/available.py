"""Which kinds of device this build can use: the CPU."""

from __future__ import annotations

from proa.base.device import check_place


def get_cudnn_version() -> int | None:
    """Version of cuDNN; None where there is none."""
    return None


def is_compiled_with_xpu() -> bool:
    """Whether this build drives Kunlun XPUs: no."""
    return False


def is_compiled_with_npu() -> bool:
    """Whether this build drives Ascend NPUs: no."""
    return False


def is_compiled_with_ipu() -> bool:
    """Whether this build drives Graphcore IPUs: no."""
    return False


def is_compiled_with_rocm() -> bool:
    """Whether this build drives AMD GPUs: no."""
    return False


def is_compiled_with_cinn() -> bool:
    """Whether this build holds Paddle's compiler: no."""
    return False


def is_compiled_with_distribute() -> bool:
    """Whether this build itself talks to other machines: no."""
    return False


def is_compiled_with_custom_device(device_type: str) -> bool:
    """Whether this build drives devices of this type: no."""
    return False


def get_all_device_type() -> list[str]:
    """The kinds of device that this build drives."""
    return ["cpu"]


def get_all_custom_device_type() -> list[str]:
    """Kinds of device that plug-ins drive: none."""
    return []


def get_available_device() -> list[str]:
    """The devices that are there."""
    return ["cpu"]


def get_available_custom_device() -> list[str]:
    """Devices of plug-ins that are there: none."""
    return []


def synchronize(device: object = None) -> None:
    """Wait until the device is done: the CPU's functions return when they are."""
    check_place("synchronize", device)
