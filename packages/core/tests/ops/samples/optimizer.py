"""Records of the optimizer steps."""

from __future__ import annotations

import numpy as np

from ..sample import Array, Sample, case


def _sgd(param: Array, grad: Array, *, lr: float, weight_decay: float) -> Array:
    return param - lr * (grad + weight_decay * param)


def _momentum(
    param: Array,
    grad: Array,
    velocity: Array,
    *,
    lr: float,
    mu: float,
    nesterov: bool,
    weight_decay: float,
) -> tuple[Array, Array]:
    g = grad + weight_decay * param
    v = mu * velocity + g
    return param - lr * (g + mu * v if nesterov else v), v


def _adam(
    param: Array,
    grad: Array,
    moment1: Array,
    moment2: Array,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: int,
    weight_decay: float,
    decoupled: bool,
) -> tuple[Array, Array, Array]:
    if decoupled:
        param = param * (1 - lr * weight_decay)
        g = grad
    else:
        g = grad + weight_decay * param
    m = beta1 * moment1 + (1 - beta1) * g
    v = beta2 * moment2 + (1 - beta2) * g * g
    corrected = m / (1 - beta1**step), v / (1 - beta2**step)
    return param - lr * corrected[0] / (np.sqrt(corrected[1]) + epsilon), m, v


_SHAPES: list[tuple[int, ...]] = [(2, 3), (4, 70), ()]


def _positive(shape: tuple[int, ...]) -> object:
    return lambda rng: np.asarray(rng.uniform(0.1, 2, shape))


Sample(
    "sgd_",
    ref=_sgd,
    cases=[case(s, s, lr=0.1, weight_decay=d) for s in _SHAPES for d in (0.0, 0.01)],
)
Sample(
    "momentum_",
    ref=_momentum,
    cases=[
        case(s, s, s, lr=0.1, mu=0.9, nesterov=n, weight_decay=0.01)
        for s in _SHAPES
        for n in (False, True)
    ],
)
Sample(
    "adam_",
    ref=_adam,
    cases=[
        case(
            s,
            s,
            s,
            _positive(s),
            lr=0.01,
            beta1=0.9,
            beta2=0.99,
            epsilon=1e-8,
            step=step,
            weight_decay=0.1,
            decoupled=d,
        )
        for s in _SHAPES
        for d in (False, True)
        for step in (1, 7)
    ],
)
