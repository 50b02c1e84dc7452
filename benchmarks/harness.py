"""Interleaved timing: every contender runs in turn, round after round; medians and
ratios.

On a machine whose speed drifts, times taken minutes apart cannot be compared. Here each
round runs every contender of a case once, for about the same time, so that all see the
same machine; the figure is the median over rounds and the verdict the median of the
per-round ratios. A run on a busy machine prints its figures but no verdict.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

Work = Callable[[], object]

#: A spread (interquartile range / median) above this is no base for a verdict.
NOISY = 0.25


@dataclass
class Case:
    """One task, identically defined for every contender."""

    name: str
    contenders: dict[str, Work]
    limit: float | None = None  # proa's time / torch's must not exceed this
    rounds: int = 15
    slice_seconds: float = 0.05
    bound: str = ""  # the limit of peak_rates.measure() that bounds it
    amount: float = 0.0  # operations, or bytes, of one call
    #: Bytes that a contender needs at its peak, found in a process of its own.
    memory: Callable[[str], int | None] | None = None
    times: dict[str, list[float]] = field(default_factory=dict)
    load: float = 0.0  # cores that others kept busy meanwhile
    own_load: float = 0.0  # how many of them the case keeps busy itself
    #: Each contender returns the seconds that count, such as another process's.
    returns_seconds: bool = False


def _repeat(work: Work, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        work()
    return (time.perf_counter() - start) / count


def measure(case: Case) -> None:
    """Fill `case.times` with seconds per call, one entry a round, and `case.load`."""
    watch = LoadWatch()
    counts = {}
    for name, work in case.contenders.items():
        work()
        if case.returns_seconds:
            counts[name] = 0
            case.times[name] = []
            continue
        once = max(_repeat(work, 1), 1e-8)
        counts[name] = max(1, int(case.slice_seconds / once))
        case.times[name] = []
    for _ in range(case.rounds):
        for name, work in case.contenders.items():
            if case.returns_seconds:
                case.times[name].append(float(str(work())))
            else:
                case.times[name].append(_repeat(work, counts[name]))
    case.load = watch.load()


def median(values: list[float]) -> float:
    """The middle value."""
    return statistics.median(values)


def spread(values: list[float]) -> float:
    """Interquartile range over the median."""
    quarter = statistics.quantiles(values, n=4)
    return (quarter[2] - quarter[0]) / median(values)


def ratio(case: Case, ours: str, theirs: str) -> float:
    """Median over rounds of our time over theirs."""
    pairs = zip(case.times[ours], case.times[theirs], strict=True)
    return median([a / b for a, b in pairs])


def best_peer(case: Case) -> str | None:
    """The fastest contender that is not ours."""
    peers = [name for name in case.times if not name.startswith("proa")]
    return min(peers, key=lambda name: median(case.times[name]), default=None)


def _busy_seconds() -> float | None:
    """Processor time that all processes together have used since the start."""
    try:
        with open("/proc/stat") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK")


class LoadWatch:
    """Measures how many cores other processes kept busy since it was made.

    The load average would count our own preparation for a minute after it ended.
    """

    def __init__(self) -> None:
        self._before = _busy_seconds()
        self._own, self._start = time.process_time(), time.perf_counter()

    def load(self) -> float:
        """Cores of others, on average."""
        after = _busy_seconds()
        if self._before is None or after is None:
            return os.getloadavg()[0]
        mine = time.process_time() - self._own
        seconds = max(time.perf_counter() - self._start, 1e-3)
        return max(0.0, (after - self._before - mine) / seconds)


def other_load(seconds: float = 1.5) -> float:
    """Cores that other processes keep busy, watched for a moment."""
    watch = LoadWatch()
    time.sleep(seconds)
    return watch.load()
