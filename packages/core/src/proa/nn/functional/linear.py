"""Linear and bilinear layers as functions."""

from __future__ import annotations

from typing import Any

from proa._core import Tensor, ops
from proa.errors import ShapeError
from proa.tensor.arguments import check_rank
from proa.tensor.math import matmul

__all__ = ["bilinear", "linear"]


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, name: str | None = None
) -> Tensor:
    """x @ weight + bias, weight being (in, out), or (in,) for one number a row."""
    if getattr(weight, "ndim", 2) == 1 or _is_complex(x) or _is_complex(weight):
        product = matmul(x, weight)
        return product if bias is None else ops.add(product, bias)
    if getattr(x, "ndim", 2) == 1:
        row = ops.linear(ops.unsqueeze(x, axis=[0]), weight, bias)
        return ops.squeeze(row, axis=[0])
    return ops.linear(x, weight, bias)


def _is_complex(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.is_complex


def bilinear(
    x1: Tensor,
    x2: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """x1^T W_k x2 + b_k for each output k.

    Args:
        x1: (N, in1).
        x2: (N, in2).
        weight: (out, in1, in2).
        bias: (1, out) or None.

    Returns (N, out).
    """
    check_rank("bilinear", "weight", weight, 3, 3)
    out, in1, in2 = weight.shape
    if x1.ndim != 2 or x2.ndim != 2 or (x1.shape[1], x2.shape[1]) != (in1, in2):
        raise ShapeError(
            "bilinear", f"x1 must be (N, {in1}) and x2 (N, {in2})",
            [x1.shape, x2.shape],
        )  # fmt: skip
    # (N, in1, 1) * (N, 1, in2) as rows of one product with (in1 * in2, out).
    pairs = ops.mul(ops.unsqueeze(x1, axis=[2]), ops.unsqueeze(x2, axis=[1]))
    rows = ops.flatten(pairs, start_axis=1, stop_axis=2)
    y = ops.matmul(rows, ops.swap_last(ops.reshape(weight, shape=[out, in1 * in2])))
    return y if bias is None else ops.add(y, bias)
