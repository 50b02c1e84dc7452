"""Linear maps."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops

__all__ = ["linear"]


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, name: Any = None
) -> Tensor:
    """x @ weight + bias, weight being (in, out)."""
    if getattr(x, "ndim", 2) == 1:
        row = ops.linear(ops.unsqueeze(x, axis=[0]), weight, bias)
        return ops.squeeze(row, axis=[0])
    return ops.linear(x, weight, bias)
