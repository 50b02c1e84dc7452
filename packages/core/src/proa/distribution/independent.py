"""Batches of a distribution taken as one value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proa._core import Tensor, ops
from proa.distribution.distribution import Distribution
from proa.errors import InvalidArgumentError

if TYPE_CHECKING:
    from proa.base.typing import TensorLike
    from proa.tensor.arguments import IntsLike


class Independent(Distribution):
    """A distribution whose last batch axes count as axes of the value.

    Args:
        base: The distribution.
        reinterpreted_batch_rank: How many of its batch axes.
    """

    def __init__(self, base: Distribution, reinterpreted_batch_rank: int) -> None:
        rank = reinterpreted_batch_rank
        if not 0 < rank <= len(base.batch_shape):
            raise InvalidArgumentError(
                "[Independent] reinterpreted_batch_rank must be in "
                f"[1, {len(base.batch_shape)}], got {rank}"
            )
        self._base, self._rank = base, rank
        batch_rank = len(base.batch_shape) - rank
        super().__init__(
            base.batch_shape[:batch_rank],
            base.batch_shape[batch_rank:] + base.event_shape,
        )

    @property
    def mean(self) -> Tensor:
        return self._base.mean

    @property
    def variance(self) -> Tensor:
        return self._base.variance

    def sample(self, shape: IntsLike = ()) -> Tensor:
        return self._base.sample(shape)

    def rsample(self, shape: IntsLike = ()) -> Tensor:
        return self._base.rsample(shape)

    def _summed(self, x: Tensor) -> Tensor:
        return ops.sum(x, axis=list(range(x.ndim - self._rank, x.ndim)))

    def log_prob(self, value: TensorLike) -> Tensor:
        return self._summed(self._base.log_prob(value))

    def entropy(self) -> Tensor:
        return self._summed(self._base.entropy())
