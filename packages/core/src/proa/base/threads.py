"""Threads of the eager engine."""

from __future__ import annotations

from proa import _core


def set_num_threads(count: int) -> None:
    """Compute with `count` threads, this one included."""
    _core.set_num_threads(count)


def get_num_threads() -> int:
    """Threads that an op may use; at first PROA_NUM_THREADS or the cores."""
    count: int = _core.get_num_threads()
    return count
