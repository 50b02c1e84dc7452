"""Devices, and the memory that tensors take on them."""

from proa.base.device import (
    CPUPlace,
    CUDAPlace,
    IPUPlace,
    XPUPlace,
    get_device,
    is_compiled_with_cuda,
    set_device,
)
from proa.device import cpu, cuda
from proa.device.available import (
    get_all_custom_device_type,
    get_all_device_type,
    get_available_custom_device,
    get_available_device,
    get_cudnn_version,
    is_compiled_with_cinn,
    is_compiled_with_custom_device,
    is_compiled_with_distribute,
    is_compiled_with_ipu,
    is_compiled_with_npu,
    is_compiled_with_rocm,
    is_compiled_with_xpu,
    synchronize,
)
from proa.device.cpu import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    reset_max_memory_allocated,
    reset_max_memory_reserved,
)

__all__ = [
    "CPUPlace", "CUDAPlace", "IPUPlace", "XPUPlace",
    "cpu", "cuda", "empty_cache", "get_all_custom_device_type", "get_all_device_type",
    "get_available_custom_device", "get_available_device", "get_cudnn_version",
    "get_device", "is_compiled_with_cinn", "is_compiled_with_cuda",
    "is_compiled_with_custom_device", "is_compiled_with_distribute",
    "is_compiled_with_ipu", "is_compiled_with_npu", "is_compiled_with_rocm",
    "is_compiled_with_xpu", "max_memory_allocated", "max_memory_reserved",
    "memory_allocated", "memory_reserved", "reset_max_memory_allocated",
    "reset_max_memory_reserved", "set_device", "synchronize",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
