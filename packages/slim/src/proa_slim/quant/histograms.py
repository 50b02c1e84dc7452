"""Observers that choose the threshold from a histogram of magnitudes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from proa_slim.quant.observers import LEVELS, Array, Observer

Counts = NDArray[np.float64]


class HistogramObserver(Observer):
    """Counts |x| in bins of equal width, whose range doubles when a greater value
    comes. Exact zeros are counted apart: they are represented exactly by any scale.

    Args:
        bins: Even, at least 256.
    """

    def __init__(self, bins: int) -> None:
        super().__init__()
        self._counts: Counts = np.zeros(bins, np.float64)
        self._zeros = 0
        self._range = 0.0

    def _take(self, magnitudes: Array) -> None:
        values = magnitudes[magnitudes > 0]
        self._zeros += magnitudes.size - values.size
        if not values.size:
            return
        peak = float(values.max())
        if self._range == 0.0:
            self._range = peak
        while peak > self._range:
            pairs = self._counts.reshape(-1, 2).sum(1)
            self._counts = np.concatenate([pairs, np.zeros_like(pairs)])
            self._range *= 2
        bins = len(self._counts)
        self._counts += np.histogram(values, bins, (0.0, self._range))[0]

    def histogram(self) -> tuple[Counts, float]:
        """The counts of the magnitudes that are not 0, and the width of a bin."""
        return self._counts.copy(), self._range / len(self._counts)

    def _threshold(self) -> float:
        return 0.0 if self._range == 0.0 else self._chosen()

    @abstractmethod
    def _chosen(self) -> float:
        """The threshold, where there are values other than 0."""

    def _best(
        self, distance: Callable[[Counts, int], float], neighbours: int = 0
    ) -> float:
        """The upper edge of the bin for which `distance` is least; of a bin that clamps
        greater values, the greatest `distance` of it and its neighbours counts.
        """
        used = int(np.flatnonzero(self._counts)[-1]) + 1
        width = self._range / len(self._counts)
        if used <= LEVELS + 1:
            return width * used
        candidates = range(LEVELS + 1, used + 1)
        distances = np.array([distance(self._counts, n) for n in candidates])
        padded = np.pad(distances, neighbours, "edge")
        windows = sliding_window_view(padded, 2 * neighbours + 1)
        distances[:-1] = windows[:-1].max(axis=1)
        return width * candidates[int(np.argmin(distances))]


class PercentileObserver(HistogramObserver):
    """threshold = the quantile `percent` of |x|, zeros included, interpolated linearly
    within a bin.
    """

    def __init__(self, bins: int, percent: float) -> None:
        super().__init__(bins)
        self._percent = percent

    def _chosen(self) -> float:
        below = self._zeros + np.concatenate([[0.0], np.cumsum(self._counts)])
        edges = np.linspace(0.0, self._range, len(self._counts) + 1)
        found = float(np.interp(self._percent * below[-1], below, edges))
        # Where the quantile is a zero itself, the first bin with values.
        return found or float(edges[1 + np.flatnonzero(self._counts)[0]])


class KLObserver(HistogramObserver):
    """The threshold whose 128-level histogram is nearest the true one (Migacz, GTC
    2017).

    For each candidate threshold the mass above it goes to the last bin (P), the bins
    below are merged into 128 levels and spread back evenly over their non-empty bins
    (Q); the candidate with the least divergence of Q from P wins. Exact zeros are left
    out: after a ReLU they are half of all values, and would make a threshold near zero
    look best.

    Another frequent value, such as the background of images, makes the one candidate
    that ends in its bin look best: P and Q have the same last bin, and what is clamped
    hardly counts. So a candidate that clamps is worth the greatest divergence among it
    and its neighbours up to 8 bins away, half a level of the widest candidate.
    """

    def _chosen(self) -> float:
        return self._best(_divergence, neighbours=8)


class MSEObserver(HistogramObserver):
    """The threshold with the least mean square of x - quantized x."""

    def _chosen(self) -> float:
        return self._best(lambda counts, n: float(counts @ _errors(counts, n) ** 2))


class EMDObserver(HistogramObserver):
    """The threshold with the least earth mover's distance between x and quantized x.

    Rounding is monotone, so the best transport moves each x to its own image and the
    distance (Wasserstein-1) is mean |x - quantized x|.
    """

    def _chosen(self) -> float:
        return self._best(lambda counts, n: float(counts @ _errors(counts, n)))


def _errors(counts: Counts, n: int) -> Counts:
    """|x - quantized x| at the centre of each bin, in bin widths, if bin n clamps."""
    centres = np.arange(len(counts)) + 0.5
    step = n / LEVELS
    rounded = np.minimum(np.rint(centres / step), LEVELS) * step
    result: Counts = np.abs(centres - rounded)
    return result


def _divergence(counts: NDArray[np.float64], n: int) -> float:
    """Divergence of clamping the histogram at its first `n` bins, 128 levels kept.

    KL(P || Q) = sum p log(p / q) - p + q, for masses that need not add up alike.
    """
    inside = counts[:n]
    reference = inside.copy()
    reference[-1] += counts[n:].sum()
    levels = LEVELS + 1
    # Bin i belongs to level floor(i * levels / n).
    level = np.arange(n) * levels // n
    mass = np.bincount(level, inside, levels)
    filled = np.bincount(level, inside > 0, levels)
    with np.errstate(invalid="ignore", divide="ignore"):
        even = np.where(filled > 0, mass / filled, 0.0)
    candidate = np.where(inside > 0, even[level], 0.0)
    # Q lacks the mass that is clamped and stays so: scaled up to 1 it would be as near
    # as can be where all is clamped to the first bin that is not empty.
    p, q = reference / counts.sum(), candidate / counts.sum()
    held = p > 0
    # A bin with mass in P and none in Q is infinitely far; a small floor keeps it
    # finite.
    divergence = np.sum(p[held] * np.log(p[held] / np.maximum(q[held], 1e-12)))
    return float(divergence + q.sum() - p.sum())
