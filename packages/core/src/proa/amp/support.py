"""What 16-bit types are of use on a device."""

from __future__ import annotations

from proa.base.device import Place, check_place


def is_float16_supported(device: Place | str | None = None) -> bool:
    """Whether the device computes in float16: the CPU does, in float32 inside."""
    check_place("amp.is_float16_supported", device)
    return True


def is_bfloat16_supported(device: Place | str | None = None) -> bool:
    """Whether the device computes in bfloat16: the CPU does; CPU flags make it fast
    (``proa._core.build_info()["isa"]`` says which kernels were chosen).
    """
    check_place("amp.is_bfloat16_supported", device)
    return True
