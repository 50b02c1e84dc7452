"""Observers watch the values of one tensor, batch by batch, and then name its scale.

A scale is threshold / 127: values up to the threshold are represented, greater ones
clamp.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from proa.errors import PreconditionNotMetError
from proa_slim.config import QuantConfig

Array = NDArray[np.float32]
LEVELS = 127
#: Scale of a tensor that was zero throughout: any positive number represents it
#: exactly.
_NO_RANGE = 1.0


class Observer(ABC):
    """Watches batches of one activation."""

    def __init__(self) -> None:
        self.seen = False

    def observe(self, values: Array) -> None:
        """Take in one batch; values that are not finite do not count."""
        finite = values[np.isfinite(values)]
        if finite.size:
            self.seen = True
            self._take(np.abs(finite))

    def scale(self) -> float:
        """threshold / 127.

        Raises:
            PreconditionNotMetError: If nothing was observed.
        """
        if not self.seen:
            raise PreconditionNotMetError(
                f"[{type(self).__name__}] scale needs at least one observed batch, "
                "got none"
            )
        threshold = self._threshold()
        return threshold / LEVELS if threshold > 0 else _NO_RANGE

    @abstractmethod
    def _take(self, magnitudes: Array) -> None: ...

    @abstractmethod
    def _threshold(self) -> float: ...


class AbsMaxObserver(Observer):
    """threshold = max |x| over all batches."""

    def __init__(self) -> None:
        super().__init__()
        self._peak = 0.0

    def _take(self, magnitudes: Array) -> None:
        self._peak = max(self._peak, float(magnitudes.max()))

    def _threshold(self) -> float:
        return self._peak


class MovingAverageObserver(Observer):
    """threshold = rate * threshold + (1 - rate) * max |x|, with bias correction."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self._rate, self._state, self._weight = rate, 0.0, 0.0

    def _take(self, magnitudes: Array) -> None:
        self._state = self._rate * self._state + (1 - self._rate) * float(
            magnitudes.max()
        )
        self._weight = self._rate * self._weight + (1 - self._rate)

    def _threshold(self) -> float:
        return self._state / self._weight


class KLObserver(Observer):
    """The threshold whose 128-level histogram is nearest the true one (Migacz, GTC
    2017).

    |x| is collected in a histogram that doubles its range when a greater value comes.
    For each candidate threshold the mass above it goes to the last bin (P), the bins
    below are merged into 128 levels and spread back evenly over their non-empty bins
    (Q); the candidate with the least divergence of Q from P wins. Exact zeros are left
    out of the histogram: after a ReLU they are half of all values, are represented
    exactly whatever the scale, and would make a threshold near zero look best.
    """

    def __init__(self, bins: int) -> None:
        super().__init__()
        self._counts = np.zeros(bins, np.float64)
        self._range = 0.0

    def _take(self, magnitudes: Array) -> None:
        values = magnitudes[magnitudes > 0]
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

    def _threshold(self) -> float:
        if self._range == 0.0:
            return 0.0
        used = int(np.flatnonzero(self._counts)[-1]) + 1
        if used <= LEVELS + 1:
            return self._range * used / len(self._counts)
        candidates = range(LEVELS + 1, used + 1)
        divergences = [_divergence(self._counts, n) for n in candidates]
        best = candidates[int(np.argmin(divergences))]
        return self._range * best / len(self._counts)


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


def activation_observer(config: QuantConfig) -> Observer:
    """A new observer of the kind that `config` names."""
    if config.activation == "abs_max":
        return AbsMaxObserver()
    if config.activation == "moving_average":
        return MovingAverageObserver(config.moving_rate)
    return KLObserver(config.bins + config.bins % 2)


def weight_scale(weight: Array, axis: int, config: QuantConfig) -> Array:
    """Scales of a weight: (1,), or (channels of axis,) for per-channel observers."""
    if config.weight == "abs_max":
        peak = np.abs(weight).max(keepdims=True).reshape(1)
    else:
        others = tuple(i for i in range(weight.ndim) if i != axis)
        peak = np.abs(weight).max(axis=others)
    scale = np.where(peak > 0, peak / np.float32(LEVELS), np.float32(_NO_RANGE))
    result: Array = scale.astype(np.float32)
    return result
