"""What distributions have in common, and divergences between two of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from proa._core import Tensor, ops
from proa.base.dtype import as_dtype
from proa.base.random import next_key
from proa.errors import InvalidArgumentError, UnimplementedError
from proa.tensor.creation import to_tensor

if TYPE_CHECKING:
    from proa.base.dtype import DTypeLike
    from proa.base.typing import TensorLike
    from proa.tensor.arguments import IntsLike

Rule = TypeVar("Rule", bound=Callable[..., Any])

#: Divergences by the types of both distributions.
_RULES: dict[tuple[type, type], Callable[..., Tensor]] = {}


class Distribution:
    """A distribution over values of shape ``event_shape``, one for each entry of
    ``batch_shape``.

    Args:
        batch_shape: Shape of the parameters: how many distributions this is.
        event_shape: Shape of one value.
    """

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = ()
    ) -> None:
        self._batch_shape = tuple(int(n) for n in batch_shape)
        self._event_shape = tuple(int(n) for n in event_shape)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Shape of one value."""
        return self._event_shape

    def _missing(self, what: str) -> NotImplementedError:
        return NotImplementedError(
            f"[{type(self).__name__}.{what}] not implemented by this distribution"
        )

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise self._missing("mean")

    @property
    def variance(self) -> Tensor:
        """The expected squared distance from the mean."""
        raise self._missing("variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return ops.sqrt(self.variance)

    def sample(self, shape: IntsLike = ()) -> Tensor:
        """Values (*shape, *batch_shape, *event_shape).

        Without gradients, but for `Normal` and `Uniform`.
        """
        raise self._missing("sample")

    def rsample(self, shape: IntsLike = ()) -> Tensor:
        """Values as functions of the parameters, so that gradients flow to these."""
        raise self._missing("rsample")

    def entropy(self) -> Tensor:
        """The expected -log of the probability (density)."""
        raise self._missing("entropy")

    def log_prob(self, value: TensorLike) -> Tensor:
        """log of the probability (density) of a value."""
        raise self._missing("log_prob")

    def prob(self, value: TensorLike) -> Tensor:
        """Probability (density) of a value."""
        return ops.exp(self.log_prob(value))

    def probs(self, value: TensorLike) -> Tensor:
        """Probability (density) of a value."""
        return self.prob(value)

    def kl_divergence(self, other: Distribution) -> Tensor:
        """The expected log of this one's probability over the other's."""
        return kl_divergence(self, other)

    def _extended(self, shape: IntsLike) -> list[int]:
        return [*sizes(type(self).__name__, shape), *self._batch_shape]


def register_kl(cls_p: type, cls_q: type) -> Callable[[Rule], Rule]:
    """Decorate the function that computes KL(p, q) of two types of distributions."""
    for kind in (cls_p, cls_q):
        if not issubclass(kind, Distribution):
            raise InvalidArgumentError(
                f"[register_kl] expected a subclass of Distribution, got {kind!r}"
            )

    def keep(rule: Rule) -> Rule:
        _RULES[cls_p, cls_q] = rule
        return rule

    return keep


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expected log of p's probability over q's, values drawn from p.

    Of several rules that fit, that of the nearest ancestors of p, then of q, is taken.

    Raises:
        UnimplementedError: If no rule is registered for the two types.
    """
    for kind_p in type(p).__mro__:
        for kind_q in type(q).__mro__:
            rule = _RULES.get((kind_p, kind_q))
            if rule is not None:
                return rule(p, q)
    raise UnimplementedError(
        "[kl_divergence] expected two distributions with a registered rule, got "
        f"{type(p).__name__} and {type(q).__name__}"
    )


def sizes(where: str, shape: IntsLike) -> list[int]:
    """A sample shape as a list."""
    if isinstance(shape, int):
        return [shape]
    if not isinstance(shape, (list, tuple)):
        raise InvalidArgumentError(
            f"[{where}.sample] shape must be a list or tuple, got {shape!r}"
        )
    return [int(n) for n in shape]


def parameters(*values: Any) -> list[Tensor]:
    """Numbers, arrays and tensors as tensors of one floating dtype and shape."""
    kinds = [v.dtype for v in values if isinstance(v, Tensor) and v.dtype.is_floating]
    arrays = [str(v.dtype) for v in values if str(getattr(v, "dtype", "")) == "float64"]
    kind = kinds[0] if kinds else as_dtype("float64" if arrays else "default")
    tensors = [v if isinstance(v, Tensor) else to_tensor(v, kind) for v in values]
    tensors = [t if t.dtype is kind else ops.cast(t, dtype=kind) for t in tensors]
    total = tensors[0]
    for t in tensors[1:]:
        total = ops.add(total, t)
    return [ops.broadcast_to(t, shape=list(total.shape)) for t in tensors]


def as_value(value: TensorLike, like: Tensor) -> Tensor:
    """A value in the dtype of the parameters."""
    if not isinstance(value, Tensor):
        return to_tensor(value, like.dtype)
    return value if value.dtype is like.dtype else ops.cast(value, dtype=like.dtype)


def key_of(count: int, seed: int) -> tuple[int, int]:
    """Where to draw from: the general stream, or one that ``seed`` begins."""
    return (seed, 0) if seed else next_key(count)


def normal_noise(shape: list[int], dtype: DTypeLike, seed: int = 0) -> Tensor:
    """Standard normal numbers."""
    key, offset = key_of(math.prod(shape), seed)
    return ops.gaussian(
        shape=shape, mean=0.0, std=1.0, dtype=dtype, seed=key, offset=offset
    )


def uniform_noise(shape: list[int], dtype: DTypeLike, seed: int = 0) -> Tensor:
    """Numbers in [0, 1)."""
    key, offset = key_of(math.prod(shape), seed)
    return ops.uniform(
        shape=shape, low=0.0, high=1.0, dtype=dtype, seed=key, offset=offset
    )
