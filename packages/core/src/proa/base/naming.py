"""Names that occur once: linear_0, linear_1, …"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class NameGenerator:
    """Counts names by their beginning; all of its names begin with ``prefix``."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self._counts: defaultdict[str, int] = defaultdict(int)

    def __call__(self, key: str) -> str:
        """``key_N`` with the next N of that key."""
        number = self._counts[key]
        self._counts[key] = number + 1
        return f"{self.prefix}{key}_{number}"

    def mark(self) -> Callable[[], None]:
        """What lets it count from here once more."""
        counts = dict(self._counts)

        def restore() -> None:
            self._counts.clear()
            self._counts.update(counts)

        return restore


_generator = NameGenerator()


def unique_name(prefix: str) -> str:
    """``prefix_N`` with the next N of that prefix."""
    return _generator(prefix)


def mark_names() -> Callable[[], None]:
    """What lets names be counted from here once more: statements that are recorded
    several times then make parameters of the same names.
    """
    return _generator.mark()


def switch_names(generator: NameGenerator | None = None) -> NameGenerator:
    """Go on with another generator (a new one if None); returns the one before."""
    global _generator
    before = _generator
    _generator = NameGenerator() if generator is None else generator
    return before


@contextmanager
def fresh_names(generator: NameGenerator | None = None) -> Iterator[None]:
    """Count from 0 inside the block, as a new program would."""
    before = switch_names(generator)
    try:
        yield
    finally:
        switch_names(before)
