"""The normal distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from proa._core import Tensor, ops
from proa.distribution.distribution import (
    Distribution,
    as_value,
    normal_noise,
    parameters,
    register_kl,
)

if TYPE_CHECKING:
    from proa.base.typing import TensorLike
    from proa.tensor.arguments import IntsLike


class Normal(Distribution):
    """exp(-(x - loc) ** 2 / (2 scale ** 2)) / (scale sqrt(2 pi)).

    Args:
        loc: Mean: a number, an array or a tensor.
        scale: Standard deviation, positive; broadcast with loc.
    """

    def __init__(
        self, loc: TensorLike, scale: TensorLike, name: str | None = None
    ) -> None:
        self.loc, self.scale = parameters(loc, scale)
        super().__init__(self.loc.shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return ops.square(self.scale)

    def sample(self, shape: IntsLike = (), seed: int = 0) -> Tensor:
        """Values (*shape, *batch_shape); a seed other than 0 begins its own stream.

        Gradients flow to the parameters, as from `rsample`: programs for Paddle 2.1,
        which has no `rsample`, count on it.
        """
        return self._drawn(shape, seed)

    def rsample(self, shape: IntsLike = ()) -> Tensor:
        return self._drawn(shape, 0)

    def _drawn(self, shape: IntsLike, seed: int) -> Tensor:
        noise = normal_noise(self._extended(shape), self.loc.dtype, seed)
        return ops.add(ops.mul(noise, self.scale), self.loc)

    def entropy(self) -> Tensor:
        """1/2 + log(2 pi) / 2 + log(scale)."""
        return ops.add(ops.log(self.scale), 0.5 + 0.5 * math.log(2 * math.pi))

    def log_prob(self, value: TensorLike) -> Tensor:
        standardized = ops.div(ops.sub(as_value(value, self.loc), self.loc), self.scale)
        size = ops.add(ops.log(self.scale), 0.5 * math.log(2 * math.pi))
        return ops.sub(ops.scale(ops.square(standardized), scale=-0.5), size)


@register_kl(Normal, Normal)
def _kl(p: Normal, q: Normal) -> Tensor:
    ratio = ops.square(ops.div(p.scale, q.scale))
    standardized = ops.square(ops.div(ops.sub(p.loc, q.loc), q.scale))
    total = ops.sub(ops.add(ratio, standardized), ops.add(ops.log(ratio), 1.0))
    return ops.scale(total, scale=0.5)
