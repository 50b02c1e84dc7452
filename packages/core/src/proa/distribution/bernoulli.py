"""Yes or no."""

from __future__ import annotations

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

_EPS = 1e-7


def _entropy_part(p: Tensor, q: Tensor) -> Tensor:
    """-p log(q), 0 where p is 0."""
    return ops.neg(ops.mul(p, ops.log(ops.maximum(q, _EPS))))


class Bernoulli(Distribution):
    """1 with the probability ``probs``, else 0.

    Args:
        probs: In [0, 1]: a number, an array or a tensor.
    """

    def __init__(self, probs: TensorLike, name: str | None = None) -> None:
        (self.p,) = parameters(probs)
        super().__init__(self.p.shape)

    @property
    def mean(self) -> Tensor:
        return self.p

    @property
    def variance(self) -> Tensor:
        return ops.mul(self.p, ops.sub(1.0, self.p))

    def sample(self, shape: IntsLike = ()) -> Tensor:
        with NoTape():
            noise = uniform_noise(self._extended(shape), self.p.dtype)
            return ops.cast(ops.less_than(noise, self.p), dtype=self.p.dtype)

    def rsample(self, shape: IntsLike = (), temperature: float = 1.0) -> Tensor:
        """Relaxed values in (0, 1): the sigmoid of (logit + logistic noise) /
        temperature (Maddison et al., 2017).
        """
        u = uniform_noise(self._extended(shape), self.p.dtype)
        u = ops.clip(u, min=_EPS, max=1 - _EPS)
        p = ops.clip(self.p, min=_EPS, max=1 - _EPS)
        noise, odds = (ops.sub(ops.log(t), ops.log(ops.sub(1.0, t))) for t in (u, p))
        return ops.sigmoid(ops.scale(ops.add(odds, noise), scale=1.0 / temperature))

    def log_prob(self, value: TensorLike) -> Tensor:
        x = as_value(value, self.p)
        on, off = (
            _entropy_part(a, b)
            for a, b in ((x, self.p), (ops.sub(1.0, x), ops.sub(1.0, self.p)))
        )
        return ops.neg(ops.add(on, off))

    def cdf(self, value: TensorLike) -> Tensor:
        """The probability of at most this value."""
        x = as_value(value, self.p)
        low = ops.where(ops.less_than(x, 0.0), 0.0, ops.sub(1.0, self.p))
        one = ops.full(shape=[], value=1, dtype=self.p.dtype)
        return ops.where(ops.less_than(x, 1.0), low, one)

    def entropy(self) -> Tensor:
        """-p log(p) - (1 - p) log(1 - p)."""
        off = ops.sub(1.0, self.p)
        return ops.add(_entropy_part(self.p, self.p), _entropy_part(off, off))


@register_kl(Bernoulli, Bernoulli)
def _kl(p: Bernoulli, q: Bernoulli) -> Tensor:
    off_p, off_q = ops.sub(1.0, p.p), ops.sub(1.0, q.p)
    cross = ops.add(_entropy_part(p.p, q.p), _entropy_part(off_p, off_q))
    return ops.sub(cross, p.entropy())
