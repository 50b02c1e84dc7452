"""Names that occur once: linear_0, linear_1, …"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

_counts: defaultdict[str, int] = defaultdict(int)


def unique_name(prefix: str) -> str:
    """``prefix_N`` with the next N of that prefix."""
    number = _counts[prefix]
    _counts[prefix] = number + 1
    return f"{prefix}_{number}"


@contextmanager
def fresh_names() -> Iterator[None]:
    """Count from 0 inside the block, as a new program would."""
    global _counts
    outer, _counts = _counts, defaultdict(int)
    try:
        yield
    finally:
        _counts = outer
