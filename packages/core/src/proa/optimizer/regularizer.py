"""Weight decay as a penalty on parameters."""

from __future__ import annotations


class Regularizer:
    """A penalty whose gradient is added to a parameter's."""

    def __init__(self, coeff: float = 0.0) -> None:
        self.coeff = float(coeff)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.coeff})"


class L1Decay(Regularizer):
    """coeff * sum(|w|): adds coeff * sign(w) to the gradient."""


class L2Decay(Regularizer):
    """0.5 * coeff * sum(w ** 2): adds coeff * w to the gradient."""
