"""Runs what a test computes with several numbers of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import proa

T = TypeVar("T")


@contextmanager
def num_threads(count: int) -> Iterator[None]:
    """Compute with this number of threads, and then with as many as before."""
    before = proa.get_num_threads()
    proa.set_num_threads(count)
    try:
        yield
    finally:
        proa.set_num_threads(before)


def results_by_threads(
    compute: Callable[[], T], counts: Sequence[int] = (1, 2, 3)
) -> list[T]:
    """What `compute` returns with each number of threads."""
    results = []
    for count in counts:
        with num_threads(count):
            results.append(compute())
    return results
