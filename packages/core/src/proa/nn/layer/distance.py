"""Distances between vectors."""

from __future__ import annotations

from proa._core import Tensor, ops
from proa.nn import functional as F
from proa.nn.layer.base import Layer
from proa.tensor.linalg import norm

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(Layer):
    """Cosine of the angle between vectors along axis."""

    def __init__(self, axis: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self._axis, self._eps = axis, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self._axis, self._eps)

    def extra_repr(self) -> str:
        return f"axis={self._axis}, eps={self._eps}"


class PairwiseDistance(Layer):
    """The p-norm of x - y + epsilon along the last axis.

    Args:
        p: Order of the norm; may be 0, inf or -inf.
        epsilon: Added to the difference, so that the gradient at 0 is finite.
        keepdim: Whether the last axis stays with size 1.

    Shape:
        x, y: (.., d). Returns (..,).
    """

    def __init__(
        self,
        p: float = 2.0,
        epsilon: float = 1e-6,
        keepdim: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.p, self.epsilon, self.keepdim = p, epsilon, keepdim

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        gap = ops.scale(ops.sub(x, y), scale=1.0, bias=float(self.epsilon))
        return norm(gap, float(self.p), -1, keepdim=self.keepdim)

    def extra_repr(self) -> str:
        return f"p={self.p}, epsilon={self.epsilon}, keepdim={self.keepdim}"
