"""The Laplace distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from proa._core import Tensor, ops
from proa.base.no_tape import NoTape
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


class Laplace(Distribution):
    """exp(-|x - loc| / scale) / (2 scale).

    Args:
        loc: Mean: a number, an array or a tensor.
        scale: Positive; broadcast with loc.
    """

    def __init__(self, loc: TensorLike, scale: TensorLike) -> None:
        self.loc, self.scale = parameters(loc, scale)
        super().__init__(self.loc.shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return ops.scale(ops.square(self.scale), scale=2.0)

    def sample(self, shape: IntsLike = ()) -> Tensor:
        with NoTape():
            return self.rsample(shape)

    def rsample(self, shape: IntsLike = ()) -> Tensor:
        noise = uniform_noise(self._extended(shape), self.loc.dtype)
        return self.icdf(ops.clip(noise, min=1e-7, max=1 - 1e-7))

    def _standardized_distance(self, value: TensorLike) -> Tensor:
        return ops.div(ops.sub(as_value(value, self.loc), self.loc), self.scale)

    def log_prob(self, value: TensorLike) -> Tensor:
        size = ops.add(ops.log(self.scale), math.log(2))
        return ops.neg(ops.add(ops.abs(self._standardized_distance(value)), size))

    def entropy(self) -> Tensor:
        """1 + log(2 scale)."""
        return ops.add(ops.log(self.scale), 1 + math.log(2))

    def cdf(self, value: TensorLike) -> Tensor:
        """The probability of at most this value."""
        z = self._standardized_distance(value)
        tail = ops.expm1(ops.neg(ops.abs(z)))
        return ops.sub(0.5, ops.scale(ops.mul(ops.sign(z), tail), scale=0.5))

    def icdf(self, value: TensorLike) -> Tensor:
        """The value that is met with a probability of at most this."""
        u = ops.sub(as_value(value, self.loc), 0.5)
        log_tail = ops.log1p(ops.scale(ops.abs(u), scale=-2.0))
        return ops.sub(self.loc, ops.mul(ops.mul(self.scale, ops.sign(u)), log_tail))


@register_kl(Laplace, Laplace)
def _kl(p: Laplace, q: Laplace) -> Tensor:
    # log(b2 / b1) + |d| / b2 + b1 / b2 * exp(-|d| / b1) - 1
    gap = ops.abs(ops.sub(p.loc, q.loc))
    near = ops.mul(ops.div(p.scale, q.scale), ops.exp(ops.neg(ops.div(gap, p.scale))))
    total = ops.add(ops.log(ops.div(q.scale, p.scale)), ops.div(gap, q.scale))
    return ops.sub(ops.add(total, near), 1.0)
