"""Activations and losses against their formulas in NumPy, and those's differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.nn import functional as F

RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((4, 6)) * 2, RNG.standard_normal((4, 6))
P = 1 / (1 + np.exp(-X))
Q = (Y > 0).astype(float)
SIGN = np.where(Y > 0, 1.0, -1.0)
ROW = np.array([1.0, -1.0, 1.0, -1.0])
LABEL = np.array([1, 0, 5, 3])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def log_softmax(x: Any) -> Any:
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


def phi(x: Any) -> Any:
    """The normal distribution's integral, by scipy."""
    from scipy.stats import norm

    return norm.cdf(x)


ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: (
        1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))
    ),
    "gelu": lambda x: x * phi(x),
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "silu": lambda x: x * sigmoid(x),
    "swish": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "softplus": softplus,
    "softsign": lambda x: x / (1 + abs(x)),
    "log_sigmoid": lambda x: -softplus(-x),
    "tanhshrink": lambda x: x - np.tanh(x),
    "hardshrink": lambda x: np.where(abs(x) > 0.5, x, 0),
    "softshrink": lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0),
    "hardtanh": lambda x: np.clip(x, -1, 1),
    # Paddle's slope is 1 / 6 as rounded in its documents.
    "hardsigmoid": lambda x: np.clip(x * 0.1666667 + 0.5, 0, 1),
    "glu": lambda x: x[:, :3] * sigmoid(x[:, 3:]),
    "softmax": lambda x: np.exp(log_softmax(x)),
    "log_softmax": log_softmax,
    "thresholded_relu": lambda x: np.where(x > 1, x, 0),
}

#: Formulas of each element, which "mean", "sum" or "none" reduces.
LOSSES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mse_loss": (lambda x, y: (x - y) ** 2, (X, Y)),
    "l1_loss": (lambda x, y: abs(x - y), (X, Y)),
    "smooth_l1_loss": (
        lambda x, y: np.where(abs(x - y) < 1, (x - y) ** 2 / 2, abs(x - y) - 0.5),
        (X, Y),
    ),
    "binary_cross_entropy": (
        lambda p, q: -q * np.log(p) - (1 - q) * np.log(1 - p),
        (P, Q),
    ),
    "binary_cross_entropy_with_logits": (
        lambda x, q: softplus(x) - q * x,
        (X, Q),
    ),
    "kl_div": (lambda x, q: q * (np.log(q) - x), (np.log(P), P[::-1].copy())),
    "margin_ranking_loss": (
        lambda x, y, s: np.maximum(-s * (x - y), 0),
        (X, Y, SIGN),
    ),
    "hinge_embedding_loss": (
        lambda x, s: np.where(s > 0, x, np.maximum(1 - x, 0)),
        (X, SIGN),
    ),
    "cosine_embedding_loss": (
        lambda x, y, s: np.where(s > 0, 1 - cosine(x, y), np.maximum(cosine(x, y), 0)),
        (X, Y, ROW),
    ),
    "nll_loss": (lambda x, k: -x[range(4), k], (np.log(P), LABEL)),
    "cross_entropy": (lambda x, k: -log_softmax(x)[range(4), k], (X, LABEL)),
    "sigmoid_focal_loss": (
        lambda x, q: (
            np.where(q > 0, 0.25, 0.75)
            * np.where(q > 0, 1 - sigmoid(x), sigmoid(x)) ** 2
            * (softplus(x) - q * x)
        ),
        (X, Q),
    ),
}


def cosine(x: Any, y: Any) -> Any:
    return (x * y).sum(1) / np.sqrt((x**2).sum(1) * (y**2).sum(1))


def agree(
    ours: Callable[..., Any], formula: Callable[..., Any], *inputs: np.ndarray
) -> None:
    """Values, and the gradient of a weighted sum by the first input."""
    tensors = [proa.to_tensor(a) for a in inputs]
    tensors[0].stop_gradient = False
    got, want = ours(*tensors), formula(*inputs)
    assert list(got.shape) == list(np.shape(want))
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-9)
    weight = np.asarray(np.random.default_rng(1).standard_normal(np.shape(want)))
    (got * proa.to_tensor(weight)).sum().backward()
    x, *others = inputs
    slopes = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        sides = []
        for h in (1e-6, -1e-6):
            moved = x.copy()
            moved[at] += h
            sides.append((formula(moved, *others) * weight).sum())
        slopes[at] = (sides[0] - sides[1]) / 2e-6
    np.testing.assert_allclose(tensors[0].grad.numpy(), slopes, rtol=1e-4, atol=1e-6)


@pytest.mark.feature("L077", "L083")
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_its_formula(name: str):
    agree(getattr(F, name), ACTIVATIONS[name], X)


@pytest.mark.feature("L075")
@pytest.mark.parametrize("how", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("binary_cross_entropy", nn.BCELoss), ("l1_loss", nn.L1Loss),
        ("mse_loss", nn.MSELoss), ("nll_loss", nn.NLLLoss),
    ],
)  # fmt: skip
def test_a_loss_layer_is_the_formula(name: str, layer: Any, how: str):
    each, inputs = LOSSES[name]
    total = {"mean": np.mean, "sum": np.sum, "none": np.asarray}[how]
    agree(layer(reduction=how), lambda *a: total(each(*a)), *inputs)


@pytest.mark.parametrize("how", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_its_formula(name: str, how: str):
    each, inputs = LOSSES[name]
    total = {"mean": np.mean, "sum": np.sum, "none": np.asarray}[how]
    agree(
        lambda *a: getattr(F, name)(*a, reduction=how),
        lambda *a: total(each(*a)),
        *inputs,
    )


@pytest.mark.parametrize("how", ["mean", "sum"])
def test_weighted_cross_entropy_divides_by_the_weights(how: str):
    weight = np.array([0.2, 1.0, 3.0, 0.5, 2.0, 0.1])
    label = np.array([1, 0, -100, 3])
    valid = label >= 0

    def formula(x: Any) -> Any:
        own = weight[label[valid]]
        each = -log_softmax(x)[valid, label[valid]] * own
        return each.sum() / own.sum() if how == "mean" else each.sum()

    w, k = proa.to_tensor(weight), proa.to_tensor(label)
    agree(lambda x: F.cross_entropy(x, k, w, reduction=how), formula, X)


def test_cross_entropy_of_soft_labels():
    soft = np.exp(log_softmax(Y))
    agree(
        lambda x, y: F.cross_entropy(x, y, soft_label=True),
        lambda x, y: -(y * log_softmax(x)).sum(-1).mean(),
        X,
        soft,
    )
