"""Losses against torch: values, gradients, reductions, weights, ignored labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import Error, InvalidArgumentError, ShapeError
from proa.nn import functional as F

from ..torch_reference import torch

TF = torch.nn.functional
RNG = np.random.RandomState(0)
X, Y = (RNG.randn(5, 4).astype(np.float32) for _ in range(2))
P, Q = 1 / (1 + np.exp(-X)), (Y > 0).astype(np.float32)
LABEL = np.array([1, 0, 3, 2, 1])
W = np.array([0.2, 1.0, 3.0, 0.5], np.float32)


def check(
    ours: Callable[..., Any], theirs: Callable[..., Any], *inputs: np.ndarray
) -> None:
    """Values agree, and gradients with respect to the first input."""
    xs = [proa.to_tensor(a) for a in inputs]
    ts = [torch.tensor(a) for a in inputs]
    xs[0].stop_gradient = False
    ts[0].requires_grad_()
    y, t = ours(*xs), theirs(*ts)
    assert list(y.shape) == list(t.shape)
    np.testing.assert_allclose(y.numpy(), t.detach().numpy(), rtol=1e-5, atol=1e-6)
    y.sum().backward()
    t.sum().backward()
    np.testing.assert_allclose(
        xs[0].grad.numpy(), ts[0].grad.numpy(), rtol=1e-5, atol=1e-6
    )


REDUCTIONS = ["mean", "sum", "none"]


@pytest.mark.parametrize("how", REDUCTIONS)
@pytest.mark.parametrize(
    ("name", "layer", "theirs", "inputs"),
    [
        ("mse_loss", nn.MSELoss, TF.mse_loss, (X, Y)),
        ("l1_loss", nn.L1Loss, TF.l1_loss, (X, Y)),
        ("smooth_l1_loss", nn.SmoothL1Loss, TF.huber_loss, (X * 2, Y)),
        ("binary_cross_entropy", nn.BCELoss, TF.binary_cross_entropy, (P, Q)),
        ("binary_cross_entropy_with_logits", nn.BCEWithLogitsLoss,
         TF.binary_cross_entropy_with_logits, (X * 9, Q)),
        ("kl_div", nn.KLDivLoss, TF.kl_div, (np.log(P), P)),
        ("margin_ranking_loss", nn.MarginRankingLoss, TF.margin_ranking_loss,
         (X, Y, np.sign(P - 0.5))),
        ("hinge_embedding_loss", nn.HingeEmbeddingLoss, TF.hinge_embedding_loss,
         (X, np.sign(Y))),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)  # fmt: skip
def test_elementwise_losses(
    name: str, layer: Any, theirs: Any, inputs: tuple[np.ndarray, ...], how: str
) -> None:
    for ours in (lambda *a: getattr(F, name)(*a, reduction=how), layer(reduction=how)):
        check(ours, lambda *a: theirs(*a, reduction=how), *inputs)


@pytest.mark.parametrize("how", REDUCTIONS)
def test_weights_of_binary_losses(how: str) -> None:
    check(
        lambda x, y, w: F.binary_cross_entropy(x, y, w, how),
        lambda x, y, w: TF.binary_cross_entropy(x, y, w, reduction=how),
        P, Q, np.abs(Y),
    )  # fmt: skip
    check(
        lambda x, y, w, p: F.binary_cross_entropy_with_logits(x, y, w, how, p),
        lambda x, y, w, p: TF.binary_cross_entropy_with_logits(
            x, y, w, reduction=how, pos_weight=p
        ),
        X, Q, np.abs(Y), W,
    )  # fmt: skip


@pytest.mark.parametrize("how", REDUCTIONS)
@pytest.mark.parametrize("weight", [None, W])
@pytest.mark.parametrize("ignore", [-100, 1])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_cross_entropy_of_hard_labels(
    how: str, weight: Any, ignore: int, kind: str
) -> None:
    w = None if weight is None else proa.to_tensor(weight)
    tw = None if weight is None else torch.tensor(weight)
    check(
        lambda x, y: F.cross_entropy(x, y, w, ignore, how),
        lambda x, y: TF.cross_entropy(
            x, y.long(), tw, ignore_index=ignore, reduction=how
        ),
        X, LABEL.astype(kind),
    )  # fmt: skip


@pytest.mark.parametrize("how", REDUCTIONS)
@pytest.mark.parametrize("weight", [None, W])
@pytest.mark.parametrize("ignore", [-100, 1])
def test_labels_may_be_a_column(how: str, weight: Any, ignore: int) -> None:
    w = None if weight is None else proa.to_tensor(weight)
    column = nn.CrossEntropyLoss(w, ignore, how)(
        proa.to_tensor(X), proa.to_tensor(LABEL[:, None])
    )
    flat = F.cross_entropy(proa.to_tensor(X), proa.to_tensor(LABEL), w, ignore, how)
    np.testing.assert_array_equal(column.numpy().ravel(), flat.numpy().ravel())
    if how == "none":
        assert column.shape == [5, 1]


@pytest.mark.parametrize("how", REDUCTIONS)
def test_cross_entropy_over_another_axis(how: str) -> None:
    x = RNG.randn(2, 4, 3, 3).astype(np.float32)
    y = RNG.randint(0, 4, (2, 3, 3))
    check(
        lambda x, y: F.cross_entropy(x, y, axis=1, reduction=how),
        lambda x, y: TF.cross_entropy(x, y, reduction=how), x, y,
    )  # fmt: skip


def test_cross_entropy_of_soft_labels() -> None:
    check(
        lambda x, y: F.cross_entropy(x, y, soft_label=True),
        TF.cross_entropy, X, P / P.sum(1, keepdims=True),
    )  # fmt: skip


@pytest.mark.feature("L091")
def test_cross_entropy_of_soft_labels_with_weight() -> None:
    soft = P / P.sum(1, keepdims=True)
    log_p = X - np.log(np.exp(X).sum(1, keepdims=True))
    factor = (soft * W).sum(1)
    expected = (-(soft * log_p).sum(1) * factor).sum() / factor.sum()
    got = F.cross_entropy(
        proa.to_tensor(X), proa.to_tensor(soft), proa.to_tensor(W), soft_label=True
    )
    np.testing.assert_allclose(got.item(), expected, rtol=1e-5)
    none = F.cross_entropy(
        proa.to_tensor(X), proa.to_tensor(soft), soft_label=True, reduction="none"
    )
    assert none.shape == [5, 1]


def test_label_smoothing() -> None:
    check(
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
        lambda x, y: TF.cross_entropy(x, y, label_smoothing=0.1), X, LABEL,
    )  # fmt: skip


@pytest.mark.feature("L089")
def test_cross_entropy_of_probabilities() -> None:
    p = np.exp(X) / np.exp(X).sum(1, keepdims=True)
    check(
        lambda x, y: F.cross_entropy(x, y, use_softmax=False),
        lambda x, y: TF.nll_loss(torch.log(x), y), p, LABEL,
    )  # fmt: skip


@pytest.mark.feature("L094")
@pytest.mark.parametrize("weight", [None, W])
def test_ignoring_every_label_does_not_return_nan(weight: Any) -> None:
    w = None if weight is None else proa.to_tensor(weight)
    loss = F.cross_entropy(
        proa.to_tensor(X), proa.to_tensor(np.full(5, 255)), w, ignore_index=255
    )
    assert loss.item() == 0


@pytest.mark.feature("L092")
def test_invalid_labels_are_rejected() -> None:
    x = proa.to_tensor(X)
    for wrong in (4, -1):
        label = proa.to_tensor([0, 1, -100, 3, wrong])
        for name in ("cross_entropy", "softmax_with_cross_entropy", "nll_loss"):
            message = rf"\[[a-z_]+\] labels must be in \[0, 4\) .*got label {wrong}"
            with warnings.catch_warnings(), pytest.raises(Error, match=message):
                warnings.simplefilter("ignore", DeprecationWarning)
                given = label[:, None] if name.startswith("softmax") else label
                getattr(F, name)(x, given)
    with pytest.raises(ShapeError, match=r"labels must be \[5\]"):
        F.cross_entropy(x, proa.to_tensor([0, 1]))
    with pytest.raises(InvalidArgumentError, match="must be integers"):
        F.cross_entropy(x, proa.to_tensor(np.zeros(5, np.float32)))
    with pytest.raises(InvalidArgumentError, match="reduction must be"):
        F.mse_loss(x, x, "average")


@pytest.mark.feature("L090")
def test_softmax_with_cross_entropy_is_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match="cross_entropy"):
        loss, soft = F.softmax_with_cross_entropy(
            proa.to_tensor(X), proa.to_tensor(LABEL[:, None]), return_softmax=True
        )
    assert loss.shape == [5, 1]
    np.testing.assert_allclose(soft.numpy().sum(1), 1, rtol=1e-6)


@pytest.mark.parametrize("how", REDUCTIONS)
@pytest.mark.parametrize("weight", [None, W])
def test_nll(how: str, weight: Any) -> None:
    w = None if weight is None else proa.to_tensor(weight)
    tw = None if weight is None else torch.tensor(weight)
    check(
        lambda x, y: F.nll_loss(x, y, w, 2, how),
        lambda x, y: TF.nll_loss(x, y, tw, ignore_index=2, reduction=how),
        X, LABEL,
    )  # fmt: skip
    x, y = RNG.randn(2, 4, 3).astype(np.float32), RNG.randint(0, 4, (2, 3))
    check(
        nn.NLLLoss(w, reduction=how),
        lambda x, y: TF.nll_loss(x, y, tw, reduction=how), x, y,
    )  # fmt: skip


def test_other_losses() -> None:
    label = np.array([1, -1, 1, -1, 1])
    check(
        lambda a, b, y: F.cosine_embedding_loss(a, b, y, 0.1),
        lambda a, b, y: TF.cosine_embedding_loss(a, b, y, 0.1), X, Y, label,
    )  # fmt: skip


def test_losses_of_probabilities_and_squares() -> None:
    p = proa.to_tensor(P)
    expected = -Q * np.log(P + 1e-4) - (1 - Q) * np.log(1 - P + 1e-4)
    np.testing.assert_allclose(
        F.log_loss(p, proa.to_tensor(Q)).numpy(), expected, rtol=1e-4
    )
    np.testing.assert_allclose(
        F.square_error_cost(p, proa.to_tensor(Q)).numpy(), (P - Q) ** 2, rtol=1e-6
    )
