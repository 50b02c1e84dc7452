"""Learns how many rows a model runs best together.

More rows in a run are not always better: on a CPU the activations of many images do not
fit into the cache, and two runs of four are then faster than one of eight.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

# Runs of a size until its time is known, the first of which may plan for it.
_FIRST_RUNS = 3
# A smaller size that costs so many times a larger one ends the search below it.
_WORSE = 1.1
# Of sizes that cost about the same the largest is taken, which loses as much at most.
_ALIKE = 1.01
# A size is as good as its best run, which is forgotten so fast, as machines change.
_FORGETTING = 1.02
# One row of so many runs in a batch of the next smaller or larger size.
_TRIAL = 64
# Shapes of rows that are distinguished; clients may send any number.
_MAX_SHAPES = 64


@dataclass(slots=True)
class _Costs:
    """Of rows of one shape, by size: at 2 ** k rows at most, and more than half."""

    tries: list[int]
    seconds: list[float]  # of a row
    rows: int = 0  # since the last trial
    trials: int = 0


class BatchSizes:
    """Chooses the rows of batches by what runs took. Not safe for several threads.

    Args:
        max_rows: Rows that may run together.
    """

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self._shapes: dict[Hashable, _Costs] = {}

    def limit(self, key: Hashable, waiting: int) -> int:
        """Rows of ``key`` that should run together, where so many wait."""
        waiting = min(waiting, self._max_rows)
        if waiting < 2:
            return self._max_rows
        costs = self._costs(key)
        if costs is None:
            return self._max_rows
        return min(1 << self._choose(costs, (waiting - 1).bit_length()), self._max_rows)

    def ran(self, key: Hashable, rows: int, seconds: float) -> None:
        """A run of ``rows`` took ``seconds``."""
        if not 0 < rows <= self._max_rows:
            return
        costs = self._costs(key)
        if costs is not None:
            size = (rows - 1).bit_length()
            known = costs.seconds[size] * _FORGETTING
            costs.seconds[size] = min(known, seconds / rows)

    def _costs(self, key: Hashable) -> _Costs | None:
        found = self._shapes.get(key)
        if found is None and len(self._shapes) < _MAX_SHAPES:
            sizes = (self._max_rows - 1).bit_length() + 1
            found = _Costs([0] * sizes, [float("inf")] * sizes)
            self._shapes[key] = found
        return found

    def _choose(self, costs: _Costs, top: int) -> int:
        """The size to run next, of those up to ``top``."""
        seconds = costs.seconds
        for size in range(top, -1, -1):
            if costs.tries[size] < _FIRST_RUNS:
                costs.tries[size] += 1
                return size
            if size < top and seconds[size] > _WORSE * seconds[size + 1]:
                break
        best = min(seconds[: top + 1])
        size = top
        while size and seconds[size] > _ALIKE * best:
            size -= 1
        costs.rows += 1 << size
        other = size + (1 if costs.trials % 2 else -1)
        if not 0 <= other <= top:
            other = 2 * size - other
        if 0 <= other <= top and costs.rows >= _TRIAL << other:
            costs.rows, costs.trials = 0, costs.trials + 1
            return other
        return size
