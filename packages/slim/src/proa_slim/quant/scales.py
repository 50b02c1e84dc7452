"""Scales: of activations, from their observers; of weights, from the weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proa_slim.config import ActivationObserver, QuantConfig, WeightObserver
from proa_slim.quant.histograms import (
    EMDObserver,
    KLObserver,
    MSEObserver,
    PercentileObserver,
)
from proa_slim.quant.observers import (
    LEVELS,
    NO_RANGE,
    AbsMaxObserver,
    Array,
    AverageObserver,
    MovingAverageObserver,
    Observer,
)

#: Shares of the greatest magnitude that are tried as the threshold of a weight.
_SHARES = np.linspace(0.3, 1.0, 71)


class Scale(NamedTuple):
    """x is about q * scale + offset, q an integer in [-127, 127]."""

    scale: float
    #: A multiple of `scale`, so that 0 is represented exactly; 0 if symmetric.
    offset: float = 0.0

    def reach(self) -> float:
        """The greatest magnitude that is represented."""
        return LEVELS * self.scale + abs(self.offset)


def activation_observer(config: QuantConfig) -> Observer:
    """A new observer of the kind that `config` names."""
    kind: ActivationObserver = config.activation
    bins = config.bins + config.bins % 2
    if kind == "abs_max":
        return AbsMaxObserver()
    if kind == "moving_average":
        return MovingAverageObserver(config.moving_rate)
    if kind == "avg":
        return AverageObserver()
    if kind == "hist":
        return PercentileObserver(bins, config.hist_percent)
    if kind == "mse":
        return MSEObserver(bins)
    if kind == "emd":
        return EMDObserver(bins)
    return KLObserver(bins)


class ActivationScale:
    """Watches an activation and names its `Scale`, symmetric or not as `config` says.

    An asymmetric range has one observer for each sign: 254 steps reach from the
    threshold of the negative values to that of the positive ones, and always across 0.
    """

    def __init__(self, config: QuantConfig) -> None:
        self._symmetric = config.symmetric
        self._observers = [
            activation_observer(config) for _ in range(1 if self._symmetric else 2)
        ]

    def observe(self, values: Array) -> None:
        """Take in one batch."""
        if self._symmetric:
            self._observers[0].observe(values)
            return
        for observer, sign in zip(self._observers, (1, -1), strict=True):
            observer.observe(np.maximum(sign * values, 0))

    def scale(self) -> Scale:
        """The scale of what was observed."""
        if self._symmetric:
            return Scale(self._observers[0].scale())
        high, low = (o.threshold() for o in self._observers)
        if high + low <= 0:
            return Scale(NO_RANGE)
        step = (high + low) / (2 * LEVELS)
        return Scale(step, step * round((high - low) / 2 / step))


def weight_scale(
    weight: NDArray[np.floating],
    axis: int,
    kind: WeightObserver,
    levels: int = LEVELS,
) -> Array:
    """Scales of a weight: (1,), or (channels of axis,) for per-channel observers.

    ``abs_max`` represents the greatest magnitude; ``mse`` takes the threshold, of 71
    from 0.3 to 1 times that, with the least square error.
    """
    whole = np.moveaxis(np.asarray(weight, np.float32), axis, 0)
    whole = whole.reshape(whole.shape[0] if kind.startswith("channel") else 1, -1)
    peak = np.abs(whole).max(axis=1)
    if kind.endswith("mse"):
        peak = _minimize_square_error(whole, peak, levels)
    scale = np.where(peak > 0, peak / np.float32(levels), np.float32(NO_RANGE))
    result: Array = scale.astype(np.float32)
    return result


def _minimize_square_error(rows: Array, peak: Array, levels: int) -> Array:
    errors = []
    for share in _SHARES:
        step = np.maximum(share * peak / levels, np.finfo(np.float32).tiny)[:, None]
        rounded = np.clip(np.rint(rows / step), -levels, levels) * step
        errors.append(((rows - rounded) ** 2).sum(axis=1))
    best = _SHARES[np.argmin(errors, axis=0)]
    result: Array = (best * peak).astype(np.float32)
    return result
