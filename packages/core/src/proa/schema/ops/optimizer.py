"""Optimizer steps: each updates its arrays in place, in one pass."""

from __future__ import annotations

from proa.schema.row import op

_TYPES = ("float32", "float64")

op(
    "sgd_(param, grad, *, lr: float, weight_decay: float = 0.0)",
    shape="inplace",
    dtypes=_TYPES,
    outputs=("param_out",),
    inplace=("param",),
    grad=None,
    lite=False,
    doc="param -= lr * (grad + weight_decay * param).",
)
op(
    "momentum_(param, grad, velocity, *, lr: float, mu: float, nesterov: bool = False, "
    "weight_decay: float = 0.0)",
    shape="inplace",
    dtypes=_TYPES,
    outputs=("param_out", "velocity_out"),
    inplace=("param", "velocity"),
    grad=None,
    lite=False,
    doc="g = grad + weight_decay * param; velocity = mu * velocity + g; param -= lr * "
    "velocity, or with Nesterov lr * (g + mu * velocity).",
)
op(
    "adam_(param, grad, moment1, moment2, *, lr: float, beta1: float, beta2: float, "
    "epsilon: float, step: int, weight_decay: float = 0.0, decoupled: bool = False)",
    shape="inplace",
    dtypes=_TYPES,
    outputs=("param_out", "moment1_out", "moment2_out"),
    inplace=("param", "moment1", "moment2"),
    grad=None,
    lite=False,
    doc="m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g**2; with "
    "lr_t = lr sqrt(1 - beta2**step) / (1 - beta1**step): "
    "param -= lr_t m / (sqrt(v) + epsilon sqrt(1 - beta2**step)) (Kingma & Ba, 2015). "
    "weight_decay adds weight_decay * param to g, or if decoupled first scales param "
    "by 1 - lr * weight_decay (Loshchilov & Hutter, 2019). step counts from 1.",
)
