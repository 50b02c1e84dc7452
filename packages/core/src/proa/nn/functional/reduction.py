"""What losses share: the reduction named by ``reduction``."""

from __future__ import annotations

from proa._core import Tensor, ops
from proa.errors import InvalidArgumentError


def reduced(where: str, loss: Tensor, reduction: str) -> Tensor:
    """The mean, the sum, or the loss as it is."""
    if reduction == "mean":
        return ops.mean(loss)
    if reduction == "sum":
        return ops.sum(loss)
    if reduction == "none":
        return loss
    raise InvalidArgumentError(
        f"[{where}] reduction must be mean, sum or none, got {reduction!r}"
    )
