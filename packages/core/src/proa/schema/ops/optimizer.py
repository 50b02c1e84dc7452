"""Optimizer steps: each updates its arrays in place, in one pass.

Arrays of 16 bits are computed in float32; the gradient may have another floating dtype
than the parameter.
"""

from __future__ import annotations

from proa.schema.dtypes import FLOATING
from proa.schema.row import op


def _step(signature: str, *, updates: tuple[str, ...], doc: str) -> None:
    """A row whose outputs are its arrays `updates`, in the same memory."""
    op(
        signature,
        shape="inplace",
        dtypes=FLOATING,
        outputs=tuple(f"{name}_out" for name in updates),
        inplace=updates,
        mutates=True,
        grad=None,
        lite=False,
        doc=doc,
    )


_step(
    "sgd_(param, grad, *, lr: float, weight_decay: float = 0.0)",
    updates=("param",),
    doc="param -= lr * (grad + weight_decay * param).",
)
op(
    "sgd_rows_(param, rows, values, *, lr: float)",
    shape="inplace_rows",
    dtypes=FLOATING,
    outputs=("param_out",),
    inplace=("param",),
    mutates=True,
    grad=None,
    lite=False,
    doc="param[rows[i]] -= lr * values[i] for one i after another: a step by a "
    "gradient that is zero but for some rows, which may occur more than once.",
)
_step(
    "momentum_(param, grad, velocity, *, lr: float, mu: float, nesterov: bool = False, "
    "weight_decay: float = 0.0)",
    updates=("param", "velocity"),
    doc="g = grad + weight_decay * param; velocity = mu * velocity + g; param -= lr * "
    "velocity, or with Nesterov lr * (g + mu * velocity).",
)
_step(
    "adam_(param, grad, moment1, moment2, *, lr: float, beta1: float, beta2: float, "
    "epsilon: float, step: int, weight_decay: float = 0.0, decoupled: bool = False)",
    updates=("param", "moment1", "moment2"),
    doc="m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g**2; with "
    "lr_t = lr sqrt(1 - beta2**step) / (1 - beta1**step): "
    "param -= lr_t m / (sqrt(v) + epsilon sqrt(1 - beta2**step)) (Kingma & Ba, 2015). "
    "weight_decay adds weight_decay * param to g, or if decoupled first scales param "
    "by 1 - lr * weight_decay (Loshchilov & Hutter, 2019). step counts from 1.",
)
_step(
    "adagrad_(param, grad, moment, *, lr: float, epsilon: float, "
    "weight_decay: float = 0.0)",
    updates=("param", "moment"),
    doc="g = grad + weight_decay * param; moment += g**2; "
    "param -= lr * g / (sqrt(moment) + epsilon) (Duchi et al., 2011).",
)
_step(
    "adamax_(param, grad, moment, inf_norm, *, lr: float, beta1: float, beta2: float, "
    "epsilon: float, step: int, weight_decay: float = 0.0)",
    updates=("param", "moment", "inf_norm"),
    doc="g = grad + weight_decay * param; m = beta1 m + (1 - beta1) g; "
    "u = max(|g|, beta2 u + epsilon); param -= lr / (1 - beta1**step) * m / u "
    "(Kingma & Ba, 2015). step counts from 1.",
)
_step(
    "rmsprop_(param, grad, mean_square, momentum_acc, mean_grad, *, lr: float, "
    "rho: float, epsilon: float, momentum: float, centered: bool = False, "
    "weight_decay: float = 0.0)",
    updates=("param", "mean_square", "momentum_acc", "mean_grad"),
    doc="g = grad + weight_decay * param; s = rho s + (1 - rho) g**2; if centered "
    "a = rho a + (1 - rho) g, else a stays and counts as 0; "
    "v = momentum v + lr g / sqrt(s - a**2 + epsilon); param -= v (Hinton, 2012).",
)
_step(
    "adadelta_(param, grad, square, change, *, lr: float, rho: float, "
    "epsilon: float, weight_decay: float = 0.0)",
    updates=("param", "square", "change"),
    doc="g = grad + weight_decay * param; s = rho s + (1 - rho) g**2; "
    "d = g sqrt((c + epsilon) / (s + epsilon)); c = rho c + (1 - rho) d**2; "
    "param -= lr * d (Zeiler, 2012).",
)
_step(
    "lamb_(direction, moment1, moment2, param, grad, *, beta1: float, beta2: float, "
    "epsilon: float, step: int, weight_decay: float = 0.0)",
    updates=("direction", "moment1", "moment2"),
    doc="The direction of a LAMB step (You et al., 2020): m and v as Adam's, direction "
    "= m / (1 - beta1**step) / (sqrt(v / (1 - beta2**step)) + epsilon) + weight_decay "
    "* param. The step is lr * |param| / |direction| times it. step counts from 1.",
)
