"""Observers watch the values of one tensor, batch by batch, and then name its scale.

A scale is threshold / 127: values up to the threshold are represented, greater ones
clamp. Observers that need a histogram are in `proa_slim.quant.histograms`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from proa.errors import PreconditionNotMetError

Array = NDArray[np.float32]
LEVELS = 127
#: Scale of a tensor that was zero throughout: any positive number represents it
#: exactly.
NO_RANGE = 1.0


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
        threshold = self.threshold()
        return threshold / LEVELS if threshold > 0 else NO_RANGE

    def threshold(self) -> float:
        """The greatest magnitude that does not clamp; 0 if all values were 0.

        Raises:
            PreconditionNotMetError: If nothing was observed.
        """
        if not self.seen:
            raise PreconditionNotMetError(
                f"[{type(self).__name__}] scale needs at least one observed batch, "
                "got none"
            )
        return self._threshold()

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


class AverageObserver(Observer):
    """threshold = mean over all samples of max |x| of the sample (axis 0).

    Source: PaddleSlim's ``avg``. A batch may be split in any way.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sum, self._count = 0.0, 0

    def observe(self, values: Array) -> None:
        magnitudes = np.where(np.isfinite(values), np.abs(values), 0)
        if magnitudes.ndim == 0 or not np.isfinite(values).any():
            super().observe(values)
            return
        self.seen = True
        peaks = magnitudes.reshape(len(magnitudes), -1).max(axis=1)
        self._sum += float(peaks.sum(dtype=np.float64))
        self._count += len(peaks)

    def _take(self, magnitudes: Array) -> None:
        if magnitudes.size:
            self._sum += float(magnitudes.max())
            self._count += 1

    def _threshold(self) -> float:
        return self._sum / self._count
