"""Tells which requests a model runs faster than a worker thread is woken."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from proa_serving.backends.base import Instance

log = logging.getLogger("proa_serving.schedule")
# Waking a worker and being woken by it costs 60 to 100 us of CPU; a run that is no
# longer than this may as well be on the event loop, and blocks it no longer.
_SECONDS = 50e-6
# Runs by workers until a size is taken for quick, and after it proved to be slow.
_FIRST_RUNS = 4
_LATER_RUNS = 64
_SMOOTHING = 0.1
# One run as long as this keeps every client waiting, so it is the last one here for
# some time, which doubles whenever that happens.
_TOO_LONG = 20e-3
_MAX_RUNS = 2**12


@dataclass(slots=True)
class _Size:
    """What is known of requests of about one size."""

    left: int = _FIRST_RUNS  # runs by workers until it may be quick
    best: float = float("inf")  # of these; others are longer for their wait for the GIL
    mean: float = 0.0  # of runs on the event loop
    quick: bool = False
    later: int = _LATER_RUNS  # what is left after it was slow


class QuickRuns:
    """Learns the time of a model's runs, by the size of the inputs.

    Sizes are grouped by powers of two. Workers call ``ran_in_worker``; the rest is for
    the one thread that may run the model at the same time.

    Args:
        make: Makes an instance of the model.
    """

    def __init__(self, make: Callable[[], Instance]) -> None:
        self._make = make
        self._instance: Instance | None = None
        self._sizes = [_Size() for _ in range(64)]

    def instance(self, size: int) -> Instance | None:
        """What runs a request of ``size`` bytes here; None if a worker should."""
        return self._instance if self._sizes[size.bit_length()].quick else None

    def ran_here(self, size: int, seconds: float) -> None:
        """A run by :meth:`instance` took ``seconds``."""
        held = self._sizes[size.bit_length()]
        # Bounded, as one long run says more of the machine than of the model.
        held.mean += _SMOOTHING * (min(seconds, 2 * _SECONDS) - held.mean)
        if seconds > _TOO_LONG:
            held.later = min(2 * held.later, _MAX_RUNS)
        elif held.mean <= _SECONDS:
            return
        held.quick = False
        held.left, held.best = held.later, float("inf")

    def ran_in_worker(self, size: int, seconds: float) -> None:
        """A run by a worker took ``seconds``."""
        held = self._sizes[size.bit_length()]
        if held.quick:
            return
        held.best = min(held.best, seconds)
        # It is slow at times, which its best run does not say.
        held.left += held.later if seconds > _TOO_LONG else -1
        held.left = min(held.left, _MAX_RUNS)
        if held.left <= 0:
            held.left = _FIRST_RUNS
            if held.best <= _SECONDS:
                self._start(held)
            held.best = float("inf")

    def _start(self, held: _Size) -> None:
        # Here, on a worker, as it may take long.
        if self._instance is None:
            try:
                self._instance = self._make()
            except Exception as error:
                log.info("a model stays with its workers: %s", error)
                held.left = 2**62
                return
        held.mean = held.best
        held.quick = True
