"""`paddle.fluid.average`: means on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from proa.errors import PreconditionNotMetError

__all__ = ["WeightedAverage"]


class WeightedAverage:
    """The mean of numbers or arrays, by weight."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin with nothing."""
        self._sum: Any = 0.0
        self._weight: Any = 0.0

    def add(self, value: Any, weight: Any) -> None:
        """Count a value."""
        self._sum = self._sum + np.asarray(value) * weight
        self._weight = self._weight + weight

    def eval(self) -> Any:
        """The mean.

        Raises:
            PreconditionNotMetError: If nothing was added.
        """
        if not self._weight:
            raise PreconditionNotMetError(
                "[WeightedAverage.eval] expected add() before, got no value"
            )
        return self._sum / self._weight
