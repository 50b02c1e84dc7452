"""Activation functions that are more than one operator."""

from __future__ import annotations

import math

from proa._core import Tensor, ops
from proa.base.dtype import DTypeLike
from proa.base.mode import static_builder
from proa.errors import InvalidArgumentError, InvalidTypeError
from proa.ops import functional as operators
from proa.tensor.arguments import cast_if, check_rank, present_axis
from proa.tensor.random import uniform

__all__ = [
    "celu", "elu_", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "log_sigmoid", "log_softmax", "maxout", "mish", "prelu", "rrelu", "selu", "silu",
    "softmax", "softmax_", "softplus", "softshrink", "softsign", "swish", "tanhshrink",
    "thresholded_relu", "gumbel_softmax",
]  # fmt: skip
#: Names of activations, those that are operators included.
ACTIVATIONS = (*operators.__all__, *__all__)


def elu_(x: Tensor, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """`elu` in place."""
    if x.stop_gradient:
        return ops.elu_(x, alpha=alpha)
    # The gradient needs x as it was, so a copy of that is kept.
    return x._become(ops.elu(ops.assign(x), alpha=alpha))


def gelu(x: Tensor, approximate: bool = False, name: str | None = None) -> Tensor:
    """x * Phi(x), or its approximation by tanh."""
    return ops.gelu_tanh(x) if approximate else ops.gelu(x)


def silu(x: Tensor, name: str | None = None) -> Tensor:
    """x * sigmoid(x), of real and complex x."""
    if x.dtype.is_complex:
        return ops.mul(x, ops.sigmoid(x))
    return ops.silu(x)


swish = silu


def hardsigmoid(
    x: Tensor, slope: float = 0.1666667, offset: float = 0.5, name: str | None = None
) -> Tensor:
    """min(max(slope * x + offset, 0), 1); of complex x the real part decides."""
    if x.dtype.is_complex:
        return _limited(ops.scale(x, scale=float(slope), bias=float(offset)), 1.0)
    return ops.hard_sigmoid(x, slope=slope, offset=offset)


def hardswish(x: Tensor, name: str | None = None) -> Tensor:
    """x * min(max(x + 3, 0), 6) / 6; of complex x the real part decides."""
    if x.dtype.is_complex:
        gate = _limited(ops.scale(x, scale=1.0, bias=3.0), 6.0)
        return ops.scale(ops.mul(x, gate), scale=1 / 6)
    return ops.hard_swish(x)


def _limited(z: Tensor, high: float) -> Tensor:
    """Complex z where 0 < real(z) < high, else the nearer of 0 and high."""
    real = ops.real(z)
    below_high = _filled_where(ops.greater_equal(real, high), high, z)
    return _filled_where(ops.less_equal(real, 0.0), 0.0, below_high)


def softplus(
    x: Tensor, beta: float = 1.0, threshold: float = 20.0, name: str | None = None
) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x where beta * x > threshold.

    Of complex x the real part of beta * x is compared.
    """
    if not x.dtype.is_complex:
        return ops.softplus(x, beta=beta, threshold=threshold)
    if beta == 0:
        raise InvalidArgumentError("[softplus] expected beta other than 0, got 0")
    z = ops.scale(x, scale=float(beta))
    linear = ops.greater_than(ops.real(z), float(threshold))
    # Where x itself is the result, exp(z) must overflow neither here nor going back.
    log_term = ops.log1p(ops.exp(_filled_where(linear, 0.0, z)))
    return ops.where(linear, x, ops.scale(log_term, scale=1 / beta))


def hardtanh(
    x: Tensor, min: float = -1.0, max: float = 1.0, name: str | None = None
) -> Tensor:
    """x limited to [min, max]."""
    return ops.clip(x, min=float(min), max=float(max))


def _filled_where(condition: Tensor, value: float, x: Tensor) -> Tensor:
    return ops.where(condition, ops.full(shape=[], value=value, dtype=x.dtype), x)


def hardshrink(x: Tensor, threshold: float = 0.5, name: str | None = None) -> Tensor:
    """x where |x| > threshold, else 0."""
    return _filled_where(ops.less_equal(ops.abs(x), float(threshold)), 0.0, x)


def softshrink(x: Tensor, threshold: float = 0.5, name: str | None = None) -> Tensor:
    """x moved towards 0 by threshold; 0 where |x| <= threshold."""
    t = float(threshold)
    return ops.sub(x, ops.clip(x, min=-t, max=t))


def tanhshrink(x: Tensor, name: str | None = None) -> Tensor:
    """x - tanh(x)."""
    return ops.sub(x, ops.tanh(x))


def thresholded_relu(
    x: Tensor, threshold: float = 1.0, name: str | None = None
) -> Tensor:
    """x where x > threshold, else 0."""
    return _filled_where(ops.less_equal(x, float(threshold)), 0.0, x)


def softsign(x: Tensor, name: str | None = None) -> Tensor:
    """x / (1 + |x|)."""
    return ops.div(x, ops.add(ops.abs(x), 1.0))


def log_sigmoid(x: Tensor, name: str | None = None) -> Tensor:
    """log(1 / (1 + exp(-x))), of real and complex x."""
    return ops.neg(softplus(ops.neg(x)))


def mish(x: Tensor, name: str | None = None) -> Tensor:
    """x * tanh(softplus(x)) (Misra, 2019), of real and complex x."""
    if x.dtype.is_complex:
        return ops.mul(x, ops.tanh(softplus(x)))
    return ops.mish(x)


def selu(
    x: Tensor,
    scale: float = 1.0507009873554804934193349852946,
    alpha: float = 1.6732632423543772848170429916717,
    name: str | None = None,
) -> Tensor:
    """scale * elu(x, alpha)."""
    return ops.scale(ops.elu(x, alpha=alpha), scale=scale)


def celu(x: Tensor, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""
    if alpha == 0:
        raise InvalidArgumentError("[celu] alpha must not be 0, got 0")
    below = ops.scale(ops.expm1(ops.scale(x, scale=1.0 / alpha)), scale=alpha)
    return ops.where(ops.greater_than(x, 0.0), x, below)


def prelu(
    x: Tensor, weight: Tensor, data_format: str = "NCHW", name: str | None = None
) -> Tensor:
    """x where x > 0, else weight * x; weight is one number or one per channel."""
    w = weight
    if weight.size > 1:
        check_rank("prelu", "x", x, 2)
        if "C" not in str(data_format):
            raise InvalidArgumentError(
                "[prelu] expected data_format such as NCHW or NHWC, got "
                f"{data_format!r}"
            )
        axis = 1 if str(data_format).startswith("NC") else x.ndim - 1
        shape = [1] * x.ndim
        shape[axis] = -1
        w = ops.reshape(weight, shape=shape)
    return ops.where(ops.greater_than(x, 0.0), x, ops.mul(x, w))


def rrelu(
    x: Tensor,
    lower: float = 1.0 / 8.0,
    upper: float = 1.0 / 3.0,
    training: bool = True,
    name: str | None = None,
) -> Tensor:
    """Leaky ReLU whose slope is drawn from [lower, upper) while training.

    Raises:
        InvalidTypeError: If x holds no floating numbers.
        InvalidArgumentError: If not 0 <= lower <= upper <= 1.
    """
    if not x.dtype.is_floating:
        raise InvalidTypeError(f"[rrelu] expected x to be floating, got {x.dtype}")
    if not 0 <= lower <= upper <= 1:
        raise InvalidArgumentError(
            f"[rrelu] expected 0 <= lower <= upper <= 1, got {lower} and {upper}"
        )
    builder = static_builder() if training else None
    if not training or builder is not None:
        tested = ops.leaky_relu(x, negative_slope=(lower + upper) / 2)
    if not training:
        return tested
    slope = uniform(x.shape, x.dtype, lower, upper)
    result = ops.where(ops.greater_than(x, 0.0), x, ops.mul(x, slope))
    if builder is not None:
        builder.tested_as(result, tested)
    return result


def maxout(x: Tensor, groups: int, axis: int = 1, name: str | None = None) -> Tensor:
    """The greatest of each group of channels."""
    axis = present_axis("maxout", axis, x.ndim)
    if groups < 1 or x.shape[axis] % groups:
        raise InvalidArgumentError(
            "[maxout] expected groups of at least 1 that divide the channels, got "
            f"channels={x.shape[axis]}, groups={groups}"
        )
    shape = list(x.shape)
    shape[axis : axis + 1] = [shape[axis] // groups, groups]
    return ops.max(ops.reshape(x, shape=shape), axis=[axis + 1])


def glu(x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
    """a * sigmoid(b), a and b the halves of x along axis."""
    axis = present_axis("glu", axis, x.ndim)
    size = x.shape[axis]
    if size % 2:
        raise InvalidArgumentError(
            f"[glu] expected an even size of axis {axis}, got shape {x.shape}"
        )
    a, b = (
        ops.slice(x, axes=[axis], starts=[s], ends=[s + size // 2], steps=[1])
        for s in (0, size // 2)
    )
    return ops.mul(a, ops.sigmoid(b))


def softmax(
    x: Tensor, axis: int = -1, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """exp(x) / sum(exp(x)) along axis."""
    return ops.softmax(cast_if(x, dtype), axis=axis)


def softmax_(
    x: Tensor, axis: int = -1, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """`softmax` in place."""
    return x._become(softmax(x, axis, dtype))


def log_softmax(
    x: Tensor, axis: int = -1, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """x - log(sum(exp(x))) along axis."""
    return ops.log_softmax(cast_if(x, dtype), axis=axis)


def gumbel_softmax(
    x: Tensor,
    temperature: float = 1.0,
    hard: bool = False,
    axis: int = -1,
    name: str | None = None,
) -> Tensor:
    """Softmax of (x + Gumbel noise) / temperature; if hard, one-hot going forward."""
    if not temperature > 0:
        raise InvalidArgumentError(
            f"[gumbel_softmax] expected temperature above 0, got {temperature}"
        )
    tiny = math.ldexp(1.0, -100)
    u = uniform(x.shape, x.dtype, tiny, 1.0)
    noise = ops.neg(ops.log(ops.neg(ops.log(ops.clip(u, min=tiny, max=1.0 - 1e-7)))))
    soft = ops.softmax(ops.scale(ops.add(x, noise), scale=1.0 / temperature), axis=axis)
    if not hard:
        return soft
    index = ops.argmax(soft, axis=axis, keepdim=True)
    blank = ops.full_like(soft, value=0, dtype=soft.dtype)
    one = ops.full_like(index, value=1, dtype=soft.dtype)
    chosen = ops.put_along_axis(blank, index, one, axis=axis)
    # The value of the one-hot, the gradient of the soft one.
    return ops.add(ops.sub(chosen, soft.detach()), soft)
