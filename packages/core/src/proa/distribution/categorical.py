"""One of several classes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.base.no_tape import NoTape
from proa.distribution.distribution import Distribution, parameters, register_kl, sizes
from proa.errors import ShapeError
from proa.tensor.arguments import check_rank
from proa.tensor.creation import to_tensor
from proa.tensor.random import multinomial

if TYPE_CHECKING:
    from proa.base.typing import TensorLike
    from proa.tensor.arguments import IntsLike


class Categorical(Distribution):
    """A class k in [0, classes) with a probability of its own.

    As in PaddlePaddle, ``logits`` are read in two ways: `sample`, `probs` and
    `log_prob` take them as probabilities up to a factor (not negative), `entropy` and
    `kl_divergence` as logarithms of probabilities, up to a constant.

    Args:
        logits: (.., classes): a list, an array or a tensor.
    """

    def __init__(self, logits: TensorLike, name: str | None = None) -> None:
        (self.logits,) = parameters(logits)
        if self.logits.ndim < 1:
            raise ShapeError("Categorical", "logits must be (.., classes)", [])
        super().__init__(self.logits.shape[:-1])
        total = ops.sum(self.logits, axis=[-1], keepdim=True)
        self._prob = ops.div(self.logits, total)

    def sample(self, shape: IntsLike = ()) -> Tensor:
        """Classes (*shape, *batch_shape), int64."""
        front = sizes("Categorical", shape)
        count = math.prod(front)
        with NoTape():
            drawn = multinomial(self._prob, count, True)  # (*batch, count)
            last = drawn.ndim - 1
            drawn = ops.transpose(drawn, perm=[last, *range(last)])
            return ops.reshape(drawn, shape=[*front, *self._batch_shape])

    def prob(self, value: TensorLike) -> Tensor:
        """Probabilities of classes: of (n,) for each distribution, or of one's own
        (*batch_shape, n).
        """
        index = value if isinstance(value, Tensor) else to_tensor(value)
        index = ops.cast(index, dtype=as_dtype("int64"))
        check_rank("Categorical.prob", "value", index, 1)
        if self._prob.ndim == 1:
            return ops.gather(self._prob, index)
        if index.ndim < self._prob.ndim:
            index = ops.reshape(
                index, shape=[1] * (self._prob.ndim - 1) + [index.shape[-1]]
            )
        return ops.take_along_axis(self._prob, index, axis=self._prob.ndim - 1)

    def log_prob(self, value: TensorLike) -> Tensor:
        return ops.log(self.prob(value))

    def entropy(self) -> Tensor:
        """-sum p log(p) with p = softmax(logits)."""
        log_p = ops.log_softmax(self.logits)
        return ops.neg(ops.sum(ops.mul(ops.exp(log_p), log_p), axis=[-1]))


@register_kl(Categorical, Categorical)
def _kl(p: Categorical, q: Categorical) -> Tensor:
    log_p, log_q = ops.log_softmax(p.logits), ops.log_softmax(q.logits)
    gap = ops.mul(ops.exp(log_p), ops.sub(log_p, log_q))
    return ops.sum(gap, axis=[-1], keepdim=True)
