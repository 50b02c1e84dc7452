"""Records of the activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..sample import Array, Sample, case

_erf = np.vectorize(math.erf, otypes=[float])


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _cases(**attrs: float) -> list[object]:
    return [case(s, **attrs) for s in ((2, 3), (3, 1, 5), (4, 70))]


EXTREME = np.array([-1e4, -100.0, -20.0, 0.0, 20.0, 100.0, 1e4])

Sample(
    "relu",
    ref=lambda x: np.maximum(x, 0),
    cases=[*_cases(), case(EXTREME)],
    grad_cases=_cases(),
)
Sample(
    "relu_grad",
    ref=lambda dy, y: np.where(y > 0, dy, 0),
    cases=[case((2, 3), (2, 3)), case((4, 70), (4, 70))],
)
Sample(
    "sigmoid_grad",
    ref=lambda dy, y: dy * np.conj(y * (1 - y)),
    cases=[case((2, 3), (2, 3)), case((4, 70), (4, 70))],
)
Sample(
    "tanh_grad",
    ref=lambda dy, y: dy * np.conj(1 - y**2),
    cases=[case((2, 3), (2, 3)), case((4, 70), (4, 70))],
)
Sample(
    "gelu_grad",
    ref=lambda dy, x: (
        dy * (1 + _erf(x / math.sqrt(2))) / 2
        + dy * x * np.exp(-(x**2) / 2) / math.sqrt(math.tau)
    ),
    cases=[case((2, 3), (2, 3)), case((4, 70), (4, 70))],
)


def _slope(name: str, ref: Callable[..., Array], **attrs: float) -> None:
    """The record of a gradient, dy times ref of the other operand."""
    Sample(
        name,
        ref=lambda dy, *v, **kw: dy * ref(*v, **kw),
        cases=[case((2, 3), (2, 3), **attrs), case((4, 70), (4, 70), **attrs)],
        domain=(-8, 8),
    )


def _mish_slope(x: Array) -> Array:
    t = np.tanh(np.log1p(np.exp(x)))
    return t + x * (1 - t * t) * _sigmoid(x)


def _gelu_tanh_slope(x: Array) -> Array:
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    return 0.5 * (1 + t + x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x))


_slope("relu6_grad", lambda y: np.where((y > 0) & (y < 6), 1.0, 0.0))
_slope(
    "leaky_relu_grad",
    lambda x, *, negative_slope: np.where(x > 0, 1.0, negative_slope),
    negative_slope=0.01,
)
_slope(
    "elu_grad",
    lambda x, *, alpha: np.where(x > 0, 1.0, alpha * np.exp(np.minimum(x, 0))),
    alpha=0.7,
)
_slope(
    "softplus_grad",
    lambda x, *, beta, threshold: np.where(
        beta * x > threshold, 1.0, _sigmoid(beta * x)
    ),
    beta=1.5,
    threshold=9.0,
)
_slope(
    "silu_grad",
    lambda x, *, beta: _sigmoid(beta * x) * (1 + beta * x * (1 - _sigmoid(beta * x))),
    beta=0.5,
)
_slope("mish_grad", _mish_slope)
_slope("gelu_tanh_grad", _gelu_tanh_slope)
_slope(
    "hard_sigmoid_grad",
    lambda y, *, slope: np.where((y > 0) & (y < 1), slope, 0.0),
    slope=0.2,
)
_slope(
    "hard_swish_grad",
    lambda x: np.where(x <= -3, 0.0, np.where(x >= 3, 1.0, x / 3 + 0.5)),
)
Sample("relu6", ref=lambda x: np.clip(x, 0, 6), cases=_cases(), domain=(-2, 8))
Sample(
    "leaky_relu",
    ref=lambda x, *, negative_slope: np.where(x > 0, x, negative_slope * x),
    cases=_cases(negative_slope=0.01),
)
Sample(
    "elu",
    ref=lambda x, *, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    cases=_cases(alpha=0.7),
)
Sample("sigmoid", ref=_sigmoid, cases=[*_cases(), case(EXTREME)], grad_cases=_cases())
Sample("tanh", ref=np.tanh, cases=[*_cases(), case(EXTREME)], grad_cases=_cases())


def _softplus(x: Array, *, beta: float, threshold: float) -> Array:
    return np.where(beta * x > threshold, x, np.logaddexp(0, beta * x) / beta)


Sample(
    "softplus",
    ref=_softplus,
    cases=[*_cases(beta=1.5, threshold=20.0), case(EXTREME, beta=1.0, threshold=15.0)],
    grad_cases=_cases(beta=1.5, threshold=20.0),
)
Sample(
    "silu",
    ref=lambda x, *, beta: x * _sigmoid(beta * x),
    cases=[*_cases(beta=1.0), *_cases(beta=0.5)],
)
Sample(
    "mish",
    ref=lambda x: x * np.tanh(np.logaddexp(0, x)),
    cases=[*_cases(), case(EXTREME)],
    grad_cases=_cases(),
)
Sample("gelu", ref=lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2))), cases=_cases())
Sample(
    "gelu_tanh",
    ref=lambda x: (
        0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    cases=_cases(),
)
Sample(
    "hard_sigmoid",
    ref=lambda x, *, slope, offset: np.clip(slope * x + offset, 0, 1),
    cases=_cases(slope=0.2, offset=0.5),
    domain=(-4, 4),
)
Sample(
    "hard_swish",
    ref=lambda x: x * np.clip(x + 3, 0, 6) / 6,
    cases=_cases(),
    domain=(-5, 5),
)
