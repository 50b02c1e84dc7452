"""Metrics against plain counting."""

from __future__ import annotations

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError
from proa.metric import Accuracy, Auc, Metric, Precision, Recall, accuracy

RNG = np.random.RandomState(0)
SCORES, LABEL = RNG.randn(50, 6).astype(np.float32), RNG.randint(0, 6, 50)


def share(k: int) -> float:
    best = np.argsort(-SCORES, 1)[:, :k]
    return float((best == LABEL[:, None]).any(1).mean())


@pytest.mark.parametrize("form", ["flat", "column", "onehot"])
def test_accuracy_adds_up_over_batches(form: str) -> None:
    label = {"flat": LABEL, "column": LABEL[:, None], "onehot": np.eye(6)[LABEL]}[form]
    metric = Accuracy(topk=(1, 3))
    for part in (slice(0, 20), slice(20, 50)):
        correct = metric.compute(
            proa.to_tensor(SCORES[part]), proa.to_tensor(label[part])
        )
        metric.update(correct)
    assert metric.accumulate() == pytest.approx([share(1), share(3)])
    assert metric.name() == ["acc_top1", "acc_top3"]
    metric.reset()
    assert metric.accumulate() == [0, 0]


def test_accuracy_of_one_k_is_a_number() -> None:
    metric = Accuracy()
    value = metric.update(metric.compute(proa.to_tensor(SCORES), proa.to_tensor(LABEL)))
    assert value == metric.accumulate() == pytest.approx(share(1))
    assert metric.name() == ["acc"]
    got = accuracy(proa.to_tensor(SCORES), proa.to_tensor(LABEL), k=2)
    assert got.item() == pytest.approx(share(2))
    with pytest.raises(InvalidArgumentError, match="topk"):
        Accuracy(topk=0)


def test_precision_and_recall() -> None:
    p, y = RNG.rand(40), RNG.randint(0, 2, 40)
    precision, recall = Precision(), Recall()
    for metric in (precision, recall):
        metric.update(proa.to_tensor(p[:15]), proa.to_tensor(y[:15]))
        metric.update(p[15:], y[15:])
    said = p >= 0.5
    assert precision.accumulate() == pytest.approx((said & (y == 1)).sum() / said.sum())
    assert recall.accumulate() == pytest.approx(
        (said & (y == 1)).sum() / (y == 1).sum()
    )
    assert Precision().accumulate() == 0


def test_auc_is_the_share_of_pairs_in_order() -> None:
    p, y = RNG.rand(300), RNG.randint(0, 2, 300)
    p = np.clip(p * 0.7 + 0.3 * y, 0, 1)
    metric = Auc()
    metric.update(np.stack([1 - p, p], 1), y[:, None])
    pairs = p[y == 1][:, None] - p[y == 0][None]
    expected = (pairs > 0).mean() + 0.5 * (pairs == 0).mean()
    assert metric.accumulate() == pytest.approx(expected, abs=1e-3)
    metric.reset()
    assert metric.accumulate() == 0


def test_areas_under_lines() -> None:
    assert Auc.trapezoid_area(1.0, 3.0, 2.0, 4.0) == 6.0
    assert Auc.trapezoid_area(3.0, 1.0, 4.0, 2.0) == 6.0


def test_the_base_metric_returns_outputs_and_leaves_the_rest_abstract() -> None:
    metric = Metric()
    assert metric.compute(1, 2) == (1, 2)
    for call in (metric.reset, metric.update, metric.accumulate, metric.name):
        with pytest.raises(NotImplementedError):
            call()
