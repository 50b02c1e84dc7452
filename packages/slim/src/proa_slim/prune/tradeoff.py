"""Ratios that lose little for the multiply-adds that they save."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from proa_slim.prune.selection import Selector

#: The highest ratio that a target may lead to.
HIGHEST = 0.98
#: Points at which curves are sampled.
_POINTS = np.linspace(0, HIGHEST, 50)


class Tradeoff:
    """Ratios by a level in [0, 1], from nothing to all that can go.

    A group's loss over its ratio is replaced by the greatest convex curve below it, and
    so is met by a price: the ratio at which loss - price * savings is smallest. The sum
    of losses is then the smallest for what is saved, as far as losses add up.

    Args:
        selector: Counts what a group alone saves.
        losses: By group and ratio, as measured.
    """

    def __init__(
        self, selector: Selector, losses: Mapping[str, Mapping[float, float]]
    ) -> None:
        self._slopes: dict[str, tuple[list[float], list[float]]] = {}
        top = max(1.0, *(v for found in losses.values() for v in found.values()))
        prices: list[float] = []
        for name, found in losses.items():
            known = {0.0: 0.0, **found, HIGHEST: 1.05 * top}
            at = sorted(known)
            # A loss that falls again at a higher ratio counts as it was.
            values = np.maximum.accumulate([max(known[r], 0.0) for r in at])
            curve = np.interp(_POINTS, at, values)
            saved = [selector.saved_flops({name: float(r)}) for r in _POINTS]
            slopes, ratios = _hull(np.array(saved), curve)
            self._slopes[name] = slopes, ratios
            prices += slopes
        self._prices = sorted({0.0, *prices})

    def __call__(self, level: float) -> dict[str, float]:
        """The ratios of a level."""
        place = level * (len(self._prices) - 1)
        low = int(place)
        share = place - low
        ratios = self._at(self._prices[low])
        if share:
            above = self._at(self._prices[low + 1])
            ratios = {n: r + share * (above[n] - r) for n, r in ratios.items()}
        return ratios

    def _at(self, price: float) -> dict[str, float]:
        found = {}
        for name, (slopes, ratios) in self._slopes.items():
            cheap = [r for s, r in zip(slopes, ratios, strict=True) if s <= price]
            found[name] = cheap[-1] if cheap else 0.0
        return found


def _hull(
    saved: np.ndarray[tuple[int], np.dtype[np.float64]],
    loss: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> tuple[list[float], list[float]]:
    """Slopes of the lower convex hull of loss over savings, and each end's ratio."""
    corners = [0]
    for i in range(1, len(saved)):
        if saved[i] <= saved[corners[-1]]:
            continue
        while len(corners) > 1:
            a, b = corners[-2], corners[-1]
            before = (loss[b] - loss[a]) * (saved[i] - saved[b])
            after = (loss[i] - loss[b]) * (saved[b] - saved[a])
            if before < after:
                break
            corners.pop()
        corners.append(i)
    pairs = list(itertools.pairwise(corners))
    slopes = [float((loss[j] - loss[i]) / (saved[j] - saved[i])) for i, j in pairs]
    return slopes, [float(_POINTS[j]) for _, j in pairs]
