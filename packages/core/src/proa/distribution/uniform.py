"""The uniform distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proa._core import Tensor, ops
from proa.distribution.distribution import (
    Distribution,
    as_value,
    parameters,
    register_kl,
    uniform_noise,
)

if TYPE_CHECKING:
    from proa.base.typing import TensorLike
    from proa.tensor.arguments import IntsLike


class Uniform(Distribution):
    """1 / (high - low) between low and high, else 0.

    Args:
        low: Lower end: a number, an array or a tensor.
        high: Upper end, above low; broadcast with it.
    """

    def __init__(
        self, low: TensorLike, high: TensorLike, name: str | None = None
    ) -> None:
        self.low, self.high = parameters(low, high)
        super().__init__(self.low.shape)

    @property
    def mean(self) -> Tensor:
        return ops.scale(ops.add(self.low, self.high), scale=0.5)

    @property
    def variance(self) -> Tensor:
        return ops.scale(ops.square(ops.sub(self.high, self.low)), scale=1 / 12)

    def sample(self, shape: IntsLike = (), seed: int = 0) -> Tensor:
        """Values (*shape, *batch_shape); a seed other than 0 begins its own stream.

        Gradients flow to the parameters, as from `rsample`: programs for Paddle 2.1,
        which has no `rsample`, count on it.
        """
        return self._drawn(shape, seed)

    def rsample(self, shape: IntsLike = ()) -> Tensor:
        return self._drawn(shape, 0)

    def _drawn(self, shape: IntsLike, seed: int) -> Tensor:
        noise = uniform_noise(self._extended(shape), self.low.dtype, seed)
        return ops.add(ops.mul(noise, ops.sub(self.high, self.low)), self.low)

    def _inside(self, value: TensorLike) -> Tensor:
        x = as_value(value, self.low)
        above, below = ops.greater_than(x, self.low), ops.less_than(x, self.high)
        return ops.cast(ops.logical_and(above, below), dtype=self.low.dtype)

    def log_prob(self, value: TensorLike) -> Tensor:
        """-log(high - low) inside, -inf elsewhere."""
        return ops.sub(ops.log(self._inside(value)), self.entropy())

    def prob(self, value: TensorLike) -> Tensor:
        return ops.div(self._inside(value), ops.sub(self.high, self.low))

    def entropy(self) -> Tensor:
        """log(high - low)."""
        return ops.log(ops.sub(self.high, self.low))


@register_kl(Uniform, Uniform)
def _kl(p: Uniform, q: Uniform) -> Tensor:
    gap = ops.log(ops.div(ops.sub(q.high, q.low), ops.sub(p.high, p.low)))
    within = ops.logical_and(
        ops.less_equal(q.low, p.low), ops.greater_equal(q.high, p.high)
    )
    never = ops.full(shape=[], value=float("inf"), dtype=gap.dtype)
    return ops.where(within, gap, never)
