"""Lengths of vectors and distances between them."""

from __future__ import annotations

from proa._core import Tensor, ops
from proa.tensor.linalg import norm

__all__ = ["cosine_similarity", "normalize"]


def normalize(
    x: Tensor,
    p: float = 2,
    axis: int = 1,
    epsilon: float = 1e-12,
    name: str | None = None,
) -> Tensor:
    """x divided by its p-norm along axis, or by epsilon where the norm is less."""
    size = norm(x, float(p), 0 if x.ndim == 1 else axis, keepdim=True)
    return ops.div(x, ops.maximum(size, float(epsilon)))


def cosine_similarity(
    x1: Tensor, x2: Tensor, axis: int = 1, eps: float = 1e-8
) -> Tensor:
    """Cosine of the angle between vectors along axis."""
    product = ops.sum(ops.mul(x1, x2), axis=[axis])
    size = ops.mul(norm(x1, 2, axis), norm(x2, 2, axis))
    return ops.div(product, ops.maximum(size, float(eps)))
