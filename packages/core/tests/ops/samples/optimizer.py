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


def _adagrad(
    param: Array, grad: Array, moment: Array, *,
    lr: float, epsilon: float, weight_decay: float,
) -> tuple[Array, Array]:  # fmt: skip
    g = grad + weight_decay * param
    moment = moment + g * g
    return param - lr * g / (np.sqrt(moment) + epsilon), moment


def _adamax(
    param: Array, grad: Array, moment: Array, inf_norm: Array, *,
    lr: float, beta1: float, beta2: float, epsilon: float, step: int,
    weight_decay: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    g = grad + weight_decay * param
    m = beta1 * moment + (1 - beta1) * g
    u = np.maximum(np.abs(g), beta2 * inf_norm + epsilon)
    return param - lr / (1 - beta1**step) * m / u, m, u


def _rmsprop(
    param: Array, grad: Array, mean_square: Array, momentum_acc: Array,
    mean_grad: Array, *, lr: float, rho: float, epsilon: float, momentum: float,
    centered: bool, weight_decay: float,
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    g = grad + weight_decay * param
    s = rho * mean_square + (1 - rho) * g * g
    a = rho * mean_grad + (1 - rho) * g if centered else mean_grad
    spread = s - a * a if centered else s
    v = momentum * momentum_acc + lr * g / np.sqrt(spread + epsilon)
    return param - v, s, v, a


def _adadelta(
    param: Array, grad: Array, square: Array, change: Array, *,
    lr: float, rho: float, epsilon: float, weight_decay: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    g = grad + weight_decay * param
    s = rho * square + (1 - rho) * g * g
    d = g * np.sqrt((change + epsilon) / (s + epsilon))
    return param - lr * d, s, rho * change + (1 - rho) * d * d


def _lamb(
    direction: Array, moment1: Array, moment2: Array, param: Array, grad: Array, *,
    beta1: float, beta2: float, epsilon: float, step: int, weight_decay: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    m = beta1 * moment1 + (1 - beta1) * grad
    v = beta2 * moment2 + (1 - beta2) * grad * grad
    corrected = m / (1 - beta1**step), v / (1 - beta2**step)
    r = corrected[0] / (np.sqrt(corrected[1]) + epsilon) + weight_decay * param
    return r, m, v


_SHAPES: list[tuple[int, ...]] = [(2, 3), (4, 70), ()]


def _positive(shape: tuple[int, ...]) -> object:
    return lambda rng: np.asarray(rng.uniform(0.1, 2, shape))


Sample(
    "sgd_",
    ref=_sgd,
    cases=[case(s, s, lr=0.1, weight_decay=d) for s in _SHAPES for d in (0.0, 0.01)],
)
ROWS = np.array([3, 0, 3, 1, -1], np.int64)


def _sgd_rows(param: Array, rows: Array, values: Array, *, lr: float) -> Array:
    moved = param.copy()
    for row, value in zip(rows, values, strict=True):
        moved[row] -= lr * value
    return moved


Sample(
    "sgd_rows_",
    ref=_sgd_rows,
    cases=[
        case((4, 3), ROWS, (5, 3), lr=0.1),
        case((9, 2, 35), ROWS, (5, 2, 35), lr=0.1),
        case((4,), ROWS, (5,), lr=0.1),
        case((4, 3), ROWS[:0], (0, 3), lr=0.1),
        case((40, 8), np.arange(4200) % 40, (4200, 8), lr=0.001),  # in two parts
        case((16, 1024), np.arange(1030) * 5 % 16, (1030, 1024), lr=0.001),  # in more
        case((90, 1), np.arange(700) ** 2 % 90 - 45, (700, 1), lr=0.01),
    ],
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
Sample(
    "adagrad_",
    ref=_adagrad,
    cases=[
        case(s, s, _positive(s), lr=0.1, epsilon=1e-6, weight_decay=d)
        for s in _SHAPES
        for d in (0.0, 0.1)
    ],
)
Sample(
    "adamax_",
    ref=_adamax,
    cases=[
        case(
            s, s, s, _positive(s), lr=0.01, beta1=0.9, beta2=0.99, epsilon=1e-8,
            step=step, weight_decay=0.1,
        )
        for s in _SHAPES
        for step in (1, 5)
    ],
)  # fmt: skip
Sample(
    "rmsprop_",
    ref=_rmsprop,
    cases=[
        case(
            s, s, lambda rng, s=s: np.asarray(rng.uniform(1, 2, s)), s,
            lambda rng, s=s: np.asarray(rng.uniform(-0.5, 0.5, s)),
            lr=0.01, rho=0.9, epsilon=1e-2, momentum=m, centered=c, weight_decay=0.01,
        )
        for s in _SHAPES
        for m, c in ((0.0, False), (0.9, False), (0.9, True))
    ],
)  # fmt: skip
Sample(
    "adadelta_",
    ref=_adadelta,
    cases=[
        case(
            s, s, _positive(s), _positive(s), lr=0.5, rho=0.9, epsilon=1e-3,
            weight_decay=d,
        )
        for s in _SHAPES
        for d in (0.0, 0.1)
    ],
)  # fmt: skip
Sample(
    "lamb_",
    ref=_lamb,
    cases=[
        case(
            s, s, _positive(s), s, s, beta1=0.9, beta2=0.99, epsilon=1e-6, step=step,
            weight_decay=d,
        )
        for s in _SHAPES
        for step in (1, 5)
        for d in (0.0, 0.1)
    ],
)  # fmt: skip
