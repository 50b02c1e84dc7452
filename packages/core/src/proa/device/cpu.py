"""Memory of the host that tensors take.

Blocks come in sizes a little above what is requested and are kept for reuse:
*allocated* bytes are in use, *reserved* bytes are allocated or kept.
"""

from proa import _core
from proa.base.device import check_place as _check_place

__all__ = [
    "empty_cache", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
    "memory_reserved", "reset_max_memory_allocated", "reset_max_memory_reserved",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def _stats(where: str, device: object) -> dict[str, int]:
    _check_place(where, device)
    stats: dict[str, int] = _core.memory_stats()
    return stats


def memory_allocated(device: object = None) -> int:
    """Bytes in use by tensors and recorded graphs."""
    return _stats("memory_allocated", device)["allocated"]


def max_memory_allocated(device: object = None) -> int:
    """The most bytes that were in use at once since the last reset."""
    return _stats("max_memory_allocated", device)["peak"]


def memory_reserved(device: object = None) -> int:
    """Bytes in use or kept for reuse."""
    stats = _stats("memory_reserved", device)
    return stats["allocated"] + stats["cached"]


def max_memory_reserved(device: object = None) -> int:
    """The most bytes that were in use or kept since the last reset."""
    return _stats("max_memory_reserved", device)["reserved_peak"]


def reset_max_memory_allocated(device: object = None) -> None:
    """Let max_memory_allocated start from what is in use now."""
    _check_place("reset_max_memory_allocated", device)
    _core.reset_peak()


def reset_max_memory_reserved(device: object = None) -> None:
    """Let max_memory_reserved start from what is reserved now."""
    _check_place("reset_max_memory_reserved", device)
    _core.reset_reserved_peak()


def empty_cache() -> None:
    """Give what is kept for reuse back to the system."""
    _core.empty_cache()
