"""Weight decay as a penalty on parameters."""

from __future__ import annotations

from proa._core import Tensor, ops
from proa.base.public import publish_class
from proa.errors import UnimplementedError


class Regularizer:
    """A penalty whose gradient is added to a parameter's."""

    def __init__(self, coeff: float = 0.0) -> None:
        self.coeff = float(coeff)

    def __call__(
        self, param: Tensor, grad: object = None, block: object = None
    ) -> Tensor:
        """The penalty's gradient with respect to ``param``."""
        raise UnimplementedError(
            f"[{type(self).__name__}] a subclass must define __call__"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.coeff})"


class L1Decay(Regularizer):
    """coeff * sum(|w|): adds coeff * sign(w) to the gradient."""

    def __call__(
        self, param: Tensor, grad: object = None, block: object = None
    ) -> Tensor:
        return ops.mul(ops.sign(param), self.coeff)


class L2Decay(Regularizer):
    """0.5 * coeff * sum(w ** 2): adds coeff * w to the gradient."""

    def __call__(
        self, param: Tensor, grad: object = None, block: object = None
    ) -> Tensor:
        return ops.mul(param, self.coeff)


publish_class(L1Decay)
publish_class(L2Decay)
