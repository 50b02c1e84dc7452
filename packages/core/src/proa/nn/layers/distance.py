"""Distances between vectors."""

from __future__ import annotations

from proa._core import Tensor
from proa.nn import functional as F
from proa.nn.layer import Layer

__all__ = ["CosineSimilarity"]


class CosineSimilarity(Layer):
    """Cosine of the angle between vectors along axis."""

    def __init__(self, axis: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self._axis, self._eps = axis, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self._axis, self._eps)
