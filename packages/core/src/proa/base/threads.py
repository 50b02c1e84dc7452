"""Threads of the eager engine, and how they compute with subnormal numbers."""

from __future__ import annotations

from proa import _core


def set_num_threads(count: int) -> None:
    """Compute with `count` threads, this one included."""
    _core.set_num_threads(count)


def get_num_threads() -> int:
    """Threads that an op may use; at first PROA_NUM_THREADS or the cores."""
    count: int = _core.get_num_threads()
    return count


def set_flush_denormal(mode: bool) -> None:
    """Count subnormal numbers as 0 in what this thread computes from now on.

    Magnitudes below 1.2e-38 in float32 slow many CPUs down by ten times and more.
    Operators that share their work with other threads compute alike there. Other
    threads of Python decide for themselves; runs of saved models always flush.
    """
    _core.set_flush_denormals(mode)


def is_flush_denormal() -> bool:
    """Whether this thread counts subnormal numbers as 0."""
    return _core.flushes_denormals()
