"""Layers and losses with settings against their formulas in NumPy, with gradients.

What other tests compare with torch, where it is installed, is compared here with
formulas and differences of formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import proa
from proa import nn
from proa.nn import functional as F

from .test_formulas import X, agree, cosine, log_softmax, phi, sigmoid, softplus

RNG = np.random.default_rng(5)
REDUCTIONS = ["mean", "sum", "none"]
TOTALS: dict[str, Any] = {"mean": np.mean, "sum": np.sum, "none": np.asarray}
WEIGHT = np.array([0.2, 1.0, 3.0, 0.5, 2.0, 0.1])


def numbers(*shape: int) -> Any:
    return RNG.standard_normal(shape)


LAYERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "gelu_tanh": (
        lambda: nn.GELU(True),
        lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
    ),
    "gelu": (nn.GELU, lambda x: x * phi(x)),
    "elu": (lambda: nn.ELU(0.5), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "celu": (lambda: nn.CELU(2.0), lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2))),
    "leaky": (lambda: nn.LeakyReLU(0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    "softplus": (lambda: nn.Softplus(2.0), lambda x: softplus(2 * x) / 2),
    "softshrink": (
        lambda: nn.Softshrink(0.3),
        lambda x: np.sign(x) * np.maximum(abs(x) - 0.3, 0),
    ),
    "hardshrink": (lambda: nn.Hardshrink(1.0), lambda x: np.where(abs(x) > 1, x, 0)),
    "hardtanh": (lambda: nn.Hardtanh(-2.0, 0.5), lambda x: np.clip(x, -2, 0.5)),
    "thresholded": (
        lambda: nn.ThresholdedReLU(0.5),
        lambda x: np.where(x > 0.5, x, 0),
    ),
    "softmax": (lambda: nn.Softmax(0), lambda x: np.exp(log_softmax(x.T)).T),
    "log_softmax": (lambda: nn.LogSoftmax(0), lambda x: log_softmax(x.T).T),
    "glu": (lambda: nn.GLU(0), lambda x: x[:2] * sigmoid(x[2:])),
    "identity": (lambda: nn.Identity(3, b=4), lambda x: x),
    "flatten": (lambda: nn.Flatten(0), np.ravel),
    "maxout": (lambda: nn.Maxout(2), lambda x: x.reshape(4, 3, 2).max(2)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_of_activation_takes_its_settings(name: str) -> None:
    make, formula = LAYERS[name]
    agree(make(), formula, X)


def test_prelu_starts_at_a_quarter() -> None:
    layer = nn.PReLU()
    x = proa.to_tensor(X.astype("float32"), stop_gradient=False)
    y = layer(x)
    np.testing.assert_allclose(y.numpy(), np.where(X > 0, X, X / 4), rtol=1e-6)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.where(X > 0, 1, 0.25))
    np.testing.assert_allclose(layer.weight.grad.numpy(), [X[X < 0].sum()], rtol=1e-5)


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("ignore", [-100, 1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("how", REDUCTIONS)
@pytest.mark.parametrize("logits", [True, False])
def test_hard_labels(
    logits: bool, how: str, weighted: bool, ignore: int, kind: str
) -> None:
    """Cross-entropy of logits, and negative log-likelihood of what `log` gave."""
    label = np.array([1, 0, 5, 1])
    own = (WEIGHT if weighted else np.ones(6))[label] * (label != ignore)

    def formula(x: Any) -> Any:
        each = -(log_softmax(x) if logits else x)[range(4), label] * own
        return each.sum() / own.sum() if how == "mean" else TOTALS[how](each)

    w = proa.to_tensor(WEIGHT) if weighted else None
    k = proa.to_tensor(label.astype(kind))
    if logits:
        agree(lambda x: F.cross_entropy(x, k, w, ignore, how), formula, X)
        agree(lambda x: nn.CrossEntropyLoss(w, ignore, how)(x, k), formula, X)
    else:
        k = k.astype("int64")
        agree(lambda x: F.nll_loss(x, k, w, ignore, how), formula, X)


@pytest.mark.parametrize("how", REDUCTIONS)
def test_hard_labels_of_images(how: str) -> None:
    x, label = numbers(2, 4, 3, 3), RNG.integers(0, 4, (2, 3, 3))
    k = proa.to_tensor(label)

    def formula(x: Any) -> Any:
        rows = log_softmax(np.moveaxis(x, 1, -1))
        return TOTALS[how](-np.take_along_axis(rows, label[..., None], -1)[..., 0])

    agree(lambda x: F.cross_entropy(x, k, axis=1, reduction=how), formula, x)
    plain = lambda x: np.moveaxis(x, 1, -1)  # noqa: E731
    agree(
        lambda x: nn.NLLLoss(reduction=how)(x, k),
        lambda x: TOTALS[how](
            -np.take_along_axis(plain(x), label[..., None], -1)[..., 0]
        ),
        x,
    )


def test_smoothed_labels_are_soft_ones() -> None:
    label = np.array([1, 0, 5, 3])
    soft = 0.9 * np.eye(6)[label] + 0.1 / 6
    agree(
        lambda x: F.cross_entropy(x, proa.to_tensor(label), label_smoothing=0.1),
        lambda x: -(soft * log_softmax(x)).sum(1).mean(),
        X,
    )


@pytest.mark.feature("L089")
def test_probabilities_need_no_softmax() -> None:
    p, label = np.exp(log_softmax(X / 4)), np.array([1, 0, 5, 3])
    agree(
        lambda p: F.cross_entropy(p, proa.to_tensor(label), use_softmax=False),
        lambda p: -np.log(p[range(4), label]).mean(),
        p,
    )


@pytest.mark.parametrize("how", REDUCTIONS)
def test_weights_of_binary_losses(how: str) -> None:
    w = abs(numbers(4, 6))
    q = (numbers(4, 6) > 0).astype(float)
    agree(
        lambda p: F.binary_cross_entropy(p, *map(proa.to_tensor, (q, w)), how),
        lambda p: TOTALS[how](-w * (q * np.log(p) + (1 - q) * np.log(1 - p))),
        sigmoid(X),
    )
    agree(
        lambda x: F.binary_cross_entropy_with_logits(
            x, *map(proa.to_tensor, (q, w)), how, proa.to_tensor(WEIGHT)
        ),
        lambda x: TOTALS[how](w * (WEIGHT * q * softplus(-x) + (1 - q) * softplus(x))),
        X,
    )


def test_a_margin_of_cosines() -> None:
    y, sign = numbers(4, 6), np.array([1.0, -1.0, -1.0, 1.0])
    agree(
        lambda x: F.cosine_embedding_loss(
            x, *map(proa.to_tensor, (y, sign)), margin=0.1
        ),
        lambda x: np.where(
            sign > 0, 1 - cosine(x, y), np.maximum(cosine(x, y) - 0.1, 0)
        ).mean(),
        X,
    )
    agree(
        lambda x: F.cosine_similarity(x, proa.to_tensor(y)), lambda x: cosine(x, y), X
    )


def test_normalize_divides_by_the_norm() -> None:
    agree(F.normalize, lambda x: x / np.sqrt((x**2).sum(1, keepdims=True)), X)


@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 6)])
@pytest.mark.parametrize("biased", [True, False])
def test_linear_takes_any_rank(shape: tuple[int, ...], biased: bool) -> None:
    x, w, b = numbers(*shape), numbers(6, 5), numbers(5) * biased
    bias = proa.to_tensor(b) if biased else None
    agree(lambda x: F.linear(x, proa.to_tensor(w), bias), lambda x: x @ w + b, x)
    agree(lambda w: F.linear(proa.to_tensor(x), w, bias), lambda w: x @ w + b, w)


def test_an_embedding_gathers_rows() -> None:
    ids = np.array([[1, 0], [5, 1]])
    agree(
        lambda w: F.embedding(proa.to_tensor(ids), w), lambda w: w[ids], numbers(6, 3)
    )


def _scaled(x: Any, axes: tuple[int, ...], w: Any, b: Any) -> Any:
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * w + b


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (2, 3, 4, 5)])
def test_batch_norm_in_training_and_after(shape: tuple[int, ...]) -> None:
    x, w, b, m, v = numbers(*shape), *numbers(3, 3), abs(numbers(3)) + 0.1
    axes = tuple(i for i in range(len(shape)) if i != 1)
    wide = (3, *[1] * (len(shape) - 2))
    w_, b_, m_, v_ = (a.reshape(wide) for a in (w, b, m, v))
    scale, shift = map(proa.to_tensor, (w, b))

    def ours(training: bool) -> Callable[..., Any]:
        def f(x: Any) -> Any:
            statistics = map(proa.to_tensor, (m.copy(), v.copy()))
            return F.batch_norm(x, *statistics, scale, shift, training)

        return f

    agree(ours(True), lambda x: _scaled(x, axes, w_, b_), x)
    agree(ours(False), lambda x: (x - m_) / np.sqrt(v_ + 1e-5) * w_ + b_, x)


@pytest.mark.feature("L082")
def test_layer_group_and_instance_norm() -> None:
    x = numbers(2, 4, 3, 5)
    w, b = numbers(3, 5), numbers(3, 5)
    ours = [proa.to_tensor(a) for a in (w, b)]
    agree(
        lambda x: F.layer_norm(x, [3, 5], *ours),
        lambda x: _scaled(x, (2, 3), w, b),
        x,
    )
    w, b = numbers(4, 1, 1), numbers(4, 1, 1)
    w_, b_ = (proa.to_tensor(a.ravel()) for a in (w, b))
    agree(
        lambda x: F.group_norm(x, 2, weight=w_, bias=b_),
        lambda x: _scaled(x.reshape(2, 2, -1), (2,), 1, 0).reshape(x.shape) * w + b,
        x,
    )
    agree(
        lambda x: F.instance_norm(x, weight=w_, bias=b_),
        lambda x: _scaled(x, (2, 3), w, b),
        x,
    )


@pytest.mark.feature("L076")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_an_instance_norm_layer_normalizes_each_channel(rank: int, training: bool):
    make = (nn.InstanceNorm1D, nn.InstanceNorm2D, nn.InstanceNorm3D)[rank - 1]
    layer = make(4).to(dtype="float64")
    layer.train() if training else layer.eval()  # its statistics are the input's
    w, b = numbers(4), numbers(4)
    layer.scale.set_value(w)
    layer.bias.set_value(b)
    w, b = (a.reshape(4, *[1] * rank) for a in (w, b))
    axes = tuple(range(2, 2 + rank))
    agree(
        layer,
        lambda x: _scaled(x, axes, w, b),
        numbers(2, 4, 3, 2, 2)[(..., *[0] * (3 - rank))],
    )


@pytest.mark.parametrize("how", ["none", "sum", "mean", "batchmean"])
def test_kl_divergence_of_logarithms(how: str) -> None:
    p, q = (special.softmax(RNG.normal(size=(3, 4)), 1) for _ in range(2))
    want = special.rel_entr(p, q)
    want = {"none": want, "sum": want.sum(), "mean": want.mean(),
            "batchmean": want.sum() / 3}[how]  # fmt: skip
    x, y = proa.to_tensor(np.log(q)), proa.to_tensor(np.log(p))
    by_layer = proa.nn.KLDivLoss(how, log_target=True)(x, y)
    np.testing.assert_allclose(by_layer.numpy(), want, rtol=1e-9)
