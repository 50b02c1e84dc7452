"""CTC and hierarchical sigmoid against what they are defined to be."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.errors import InvalidArgumentError, ShapeError
from proa.jit import InputSpec, to_static
from proa.nn import functional as F

RNG = np.random.default_rng(5)


def _log_softmax(x: Any) -> Any:
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def _collapsed(path: Any, blank: int) -> list[int]:
    return [k for k, _ in itertools.groupby(path) if k != blank]


def _brute_force(scores: Any, label: Any, blank: int) -> float:
    """-log of the summed probability of every alignment that reads as the label."""
    log_p = _log_softmax(scores)
    total = 0.0
    for path in itertools.product(range(scores.shape[1]), repeat=scores.shape[0]):
        if _collapsed(path, blank) == list(label):
            total += np.exp(sum(log_p[t, k] for t, k in enumerate(path)))
    return float(-np.log(total))


def _inputs() -> tuple[Any, Any, Any, Any]:
    scores = RNG.normal(size=(5, 4, 3))
    labels = np.array([[1, 2, 0], [2, 2, 0], [1, 0, 0], [0, 0, 0]])
    return scores, labels, np.array([5, 4, 2, 3]), np.array([2, 2, 1, 0])


@pytest.mark.parametrize("blank", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ctc_sums_over_all_alignments(blank: int, dtype: str) -> None:
    scores, labels, times, sizes = _inputs()
    labels = np.where(np.arange(3) < sizes[:, None], (labels + blank) % 3, 1)
    got = F.ctc_loss(
        *map(proa.to_tensor, (scores.astype(dtype), labels, times, sizes)),
        blank=blank, reduction="none",
    )  # fmt: skip
    want = [
        _brute_force(scores[:t, b], labels[b, :s], blank)
        for b, (t, s) in enumerate(zip(times, sizes, strict=True))
    ]
    assert got.shape == [4]
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


def test_ctc_reductions() -> None:
    scores, labels, times, sizes = map(proa.to_tensor, _inputs())
    args = (scores, labels, times, sizes)
    each = nn.CTCLoss(reduction="none")(*args).numpy()
    assert nn.CTCLoss(reduction="sum")(*args).item() == pytest.approx(each.sum())
    mean = (each / np.maximum(sizes.numpy(), 1)).mean()
    assert nn.CTCLoss()(*args).item() == pytest.approx(mean)
    with pytest.raises(InvalidArgumentError, match="reduction must be"):
        F.ctc_loss(*args, reduction="max")


def test_ctc_gradient_equals_finite_differences() -> None:
    value, *rest = _inputs()
    rest = list(map(proa.to_tensor, rest))
    x = proa.to_tensor(value, stop_gradient=False)
    F.ctc_loss(x, *rest, reduction="sum").backward()
    delta = RNG.normal(size=value.shape)
    up, down = (
        F.ctc_loss(proa.to_tensor(value + e * delta), *rest, reduction="sum").item()
        for e in (1e-6, -1e-6)
    )
    assert (x.grad.numpy() * delta).sum() == pytest.approx((up - down) / 2e-6, rel=1e-6)
    # Steps beyond a sample's own carry no gradient.
    np.testing.assert_array_equal(x.grad.numpy()[2:, 2], 0)


@pytest.mark.feature("L085")
def test_ctc_norm_by_times_divides_gradients_by_the_steps() -> None:
    value, labels, times, sizes = _inputs()
    rest = list(map(proa.to_tensor, (labels, times, sizes)))
    grads, losses = [], []
    for flag in (False, True):
        x = proa.to_tensor(value, stop_gradient=False)
        loss = nn.CTCLoss(reduction="sum")(x, *rest, norm_by_times=flag)
        loss.backward()
        grads.append(x.grad.numpy())
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1])
    np.testing.assert_allclose(grads[1], grads[0] / times[:, None], rtol=1e-6)


def test_ctc_without_a_fitting_alignment_is_infinite_and_has_no_gradient() -> None:
    x = proa.zeros([2, 1, 3])
    x.stop_gradient = False
    args = [proa.to_tensor(v) for v in ([[1, 1]], [2], [2])]  # needs three steps
    loss = F.ctc_loss(x, *args, reduction="sum")
    assert loss.item() == np.inf
    loss.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 0)


def test_ctc_names_wrong_inputs() -> None:
    scores, labels, times, sizes = map(proa.to_tensor, _inputs())
    with pytest.raises(ShapeError, match=r"\[ctc_loss\] log_probs must be"):
        F.ctc_loss(scores[0], labels, times, sizes)
    with pytest.raises(InvalidArgumentError, match=r"blank must be in \[0, 3\)"):
        F.ctc_loss(scores, labels, times, sizes, blank=3)


@pytest.mark.parametrize("classes", [2, 3, 5, 8, 13])
def test_hsigmoid_probabilities_of_all_classes_add_to_one(classes: int) -> None:
    layer = nn.HSigmoidLoss(4, classes)
    assert layer.weight.shape == [classes - 1, 4]
    assert layer.bias.shape == [classes - 1, 1]
    layer.bias.set_value(RNG.normal(size=(classes - 1, 1)).astype("float32"))
    x = np.repeat(RNG.normal(size=(1, 4)), classes, 0).astype("float32")
    loss = layer(proa.to_tensor(x), proa.arange(classes).reshape([classes, 1]))
    assert loss.shape == [classes, 1]
    np.testing.assert_allclose(np.exp(-loss.numpy()).sum(), 1.0, rtol=1e-5)


def test_hsigmoid_of_a_tree_of_ones_own() -> None:
    weight, x = RNG.normal(size=(3, 2)), RNG.normal(size=(2, 2))
    table, code = np.array([[0, 2, -1], [0, 1, 2]]), np.array([[1, 0, -1], [0, 1, 1]])
    want = [
        sum(
            np.log1p(np.exp(-(1 if bit else -1) * (weight[node] @ x[n])))
            for node, bit in zip(table[n], code[n], strict=True)
            if node >= 0
        )
        for n in range(2)
    ]
    w = proa.to_tensor(weight, stop_gradient=False)
    got = F.hsigmoid_loss(
        proa.to_tensor(x), proa.to_tensor([0, 1]), 4, w,
        path_table=proa.to_tensor(table), path_code=proa.to_tensor(code),
    )  # fmt: skip
    np.testing.assert_allclose(got.numpy()[:, 0], want, rtol=1e-6)
    got.sum().backward()
    assert np.isfinite(w.grad.numpy()).all()


def test_hsigmoid_trains_the_right_class() -> None:
    proa.seed(1)
    layer = nn.HSigmoidLoss(6, 6)
    sgd = proa.optimizer.SGD(1.0, parameters=layer.parameters())
    x, y = proa.eye(6), proa.arange(6)
    for _ in range(300):
        loss = layer(x, y).mean()
        loss.backward()
        sgd.step()
        sgd.clear_grad()
    assert loss.item() < 0.1


def _one_hot(y: Any, n: int) -> Any:
    return np.eye(n)[y]


def test_dice_loss() -> None:
    x, y = RNG.uniform(size=(3, 4, 5)), RNG.integers(0, 5, (3, 4))
    hot = _one_hot(y, 5)
    both, total = (x * hot).sum((1, 2)), (x + hot).sum((1, 2))
    want = (1 - 2 * both / (total + 1e-5)).mean()
    got = F.dice_loss(proa.to_tensor(x), proa.to_tensor(y[..., None]))
    assert got.item() == pytest.approx(want)
    with pytest.raises(ShapeError, match=r"labels must be \[3, 4, 1\]"):
        F.dice_loss(proa.to_tensor(x), proa.to_tensor(y))


def test_npair_loss() -> None:
    a, p = RNG.normal(size=(2, 5, 3))
    y = np.array([0, 1, 0, 2, 1])
    same = (y[:, None] == y).astype(float)
    same /= same.sum(1, keepdims=True)
    ce = -(same * _log_softmax(a @ p.T)).sum(1, keepdims=True)
    want = (same * ce).sum(0).mean()
    want += 0.25 * 0.01 * ((a**2).sum(1).mean() + (p**2).sum(1).mean())
    got = F.npair_loss(*map(proa.to_tensor, (a, p, y)), l2_reg=0.01)
    assert got.item() == pytest.approx(want)


@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
def test_sigmoid_focal_loss(reduction: str) -> None:
    x, y = RNG.normal(size=(4, 3)), RNG.integers(0, 2, (4, 3)).astype(float)
    p = 1 / (1 + np.exp(-x))
    truth = np.where(y == 1, p, 1 - p)
    share = np.where(y == 1, 0.3, 0.7)
    want = -share * (1 - truth) ** 1.5 * np.log(truth) / 6.0
    if reduction != "none":
        want = getattr(want, reduction)()
    got = F.sigmoid_focal_loss(
        proa.to_tensor(x), proa.to_tensor(y), proa.to_tensor([6.0], "float64"),
        alpha=0.3, gamma=1.5, reduction=reduction,
    )  # fmt: skip
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_losses_are_recorded_as_they_are_computed() -> None:
    scores, labels, times, sizes = _inputs()
    scores = scores.astype("float32")

    def loss(x: Any, y: Any, t: Any, s: Any) -> Any:
        return F.ctc_loss(x, y, t, s, reduction="none")

    spec = [
        InputSpec([5, None, 3], "float32"), InputSpec([None, 3], "int64"),
        InputSpec([None], "int64"), InputSpec([None], "int64"),
    ]  # fmt: skip
    args = [proa.to_tensor(v) for v in (scores, labels, times, sizes)]
    got = to_static(loss, input_spec=spec)(*args)
    np.testing.assert_allclose(got.numpy(), loss(*args).numpy(), rtol=1e-6)
