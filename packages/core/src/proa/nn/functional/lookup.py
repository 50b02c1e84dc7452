"""Rows of tables, one-hot vectors and smoothed labels."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError

__all__ = ["embedding", "label_smooth", "one_hot"]


def embedding(
    x: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    sparse: bool = False,
    name: Any = None,
) -> Tensor:
    """Rows of weight at the integers x; zeros where x is padding_idx."""
    rows = weight.shape[0]
    if padding_idx is None:
        return ops.embedding(x, weight)
    if not -rows <= padding_idx < rows:
        raise InvalidArgumentError(
            f"[embedding] padding_idx must lie in [{-rows}, {rows}), got {padding_idx}"
        )
    return ops.embedding(x, weight, padding_idx=padding_idx % rows)


def one_hot(x: Tensor, num_classes: int | Tensor, name: Any = None) -> Tensor:
    """A last axis with 1 at the index and 0 elsewhere."""
    depth = num_classes.item() if isinstance(num_classes, Tensor) else num_classes
    return ops.one_hot(x, depth=int(depth))


def label_smooth(
    label: Tensor,
    prior_dist: Tensor | None = None,
    epsilon: float = 0.1,
    name: Any = None,
) -> Tensor:
    """(1 - epsilon) * label + epsilon * prior, by default even over the classes."""
    if prior_dist is None:
        return ops.scale(label, scale=1.0 - epsilon, bias=epsilon / label.shape[-1])
    kept = ops.scale(label, scale=1.0 - epsilon)
    return ops.add(kept, ops.scale(prior_dist, scale=epsilon))
