"""Measures, averages and printed values of static programs against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proa
from proa import static
from proa.errors import (
    InvalidArgumentError,
    PreconditionNotMetError,
    UnimplementedError,
)

RNG = np.random.default_rng(8)
Programs = tuple[static.Program, static.Program]


def area_of_pairs(scores: Any, labels: Any) -> float:
    """The share of pairs (positive, negative) in the right order; ties count half."""
    positive, negative = scores[labels == 1], scores[labels == 0]
    pairs = positive[:, None] - negative[None]
    return float(((pairs > 0) + 0.5 * (pairs == 0)).mean())


@pytest.mark.parametrize("slide_steps", [0, 1, 2])
def test_auc_is_the_share_of_pairs_in_the_right_order(
    slide_steps: int, static_mode: Programs
) -> None:
    score = static.data("score", [None, 2])
    label = static.data("label", [None, 1], "int64")
    whole, latest, states = static.auc(
        score, label, num_thresholds=20, slide_steps=slide_steps
    )
    exe = static.Executor()
    exe.run(static_mode[1])
    seen: list[tuple[Any, Any]] = []
    for _ in range(4):
        scores = RNG.integers(0, 20, 30) / 20
        labels = RNG.integers(0, 2, 30)
        seen.append((scores, labels))
        both = np.stack([1 - scores, scores], axis=1).astype("float32") + 1e-3
        found = exe.run(
            feed={"score": both, "label": labels[:, None]}, fetch_list=[whole, latest]
        )
        for area, pairs in zip(found, (seen, seen[-slide_steps:]), strict=True):
            want = area_of_pairs(*(np.concatenate(p) for p in zip(*pairs, strict=True)))
            np.testing.assert_allclose(area, want, rtol=1e-6)
    positive = sum(labels.sum() for _, labels in seen)
    assert states[2].get_value().numpy().sum() == positive


def test_auc_puts_scores_into_the_bins_of_paddlepaddle(static_mode: Programs) -> None:
    score = static.data("score", [None, 2])
    label = static.data("label", [None, 1], "int64")
    area, latest, _ = static.auc(score, label, num_thresholds=10)
    exe = static.Executor()
    exe.run(static_mode[1])
    scores = np.array([[0.2, 0.8], [0.6, 0.4], [0.1, 0.9]], "float32")
    feed = {"score": scores, "label": np.array([[1], [0], [0]])}
    for _ in range(2):  # PaddlePaddle 2.6.2 gave 0.5: 0.9 is in the tenth bin
        assert exe.run(feed=feed, fetch_list=[area, latest]) == [0.5, 0.5]


def test_auc_without_rows_of_both_kinds_is_zero_and_skips_weights_of_zero(
    static_mode: Programs,
) -> None:
    score, weight = static.data("score", [None, 1]), static.data("weight", [None, 1])
    label = static.data("label", [None, 1], "int64")
    area, _, _ = static.auc(score, label, ins_tag_weight=weight)
    exe = static.Executor()
    exe.run(static_mode[1])
    scores, labels = np.array([[0.2], [0.6], [0.9]], "float32"), [[1], [0], [1]]
    feed = {"score": scores, "label": np.array(labels)}
    for weights, want in (([1, 0, 1], 0.0), ([0, 1, 1], 2 / 3)):
        given = np.array(weights, "float32")[:, None]
        (found,) = exe.run(feed=feed | {"weight": given}, fetch_list=[area])
        # Then two positive rows of three are in order with the negative one.
        np.testing.assert_allclose(found, want)
    with pytest.raises(UnimplementedError, match="'PR'"):
        static.auc(score, label, curve="PR")
    with pytest.raises(InvalidArgumentError, match="num_thresholds"):
        static.auc(score, label, num_thresholds=0)


def test_accuracy_counts_hits_among_the_greatest(static_mode: Programs) -> None:
    score = static.data("score", [None, 5])
    label = static.data("label", [None, 1], "int64")
    correct = static.create_global_var([1], 0, "int64", persistable=True)
    total = static.create_global_var([1], 0, "int64", persistable=True)
    share = static.accuracy(score, label, 2, correct, total)
    exe = static.Executor()
    exe.run(static_mode[1])
    scores, labels = RNG.normal(size=(7, 5)).astype("float32"), RNG.integers(0, 5, 7)
    feed = {"score": scores, "label": labels[:, None]}
    found = exe.run(feed=feed, fetch_list=[share, correct, total])
    hits = [y in np.argsort(-s)[:2] for s, y in zip(scores, labels, strict=True)]
    np.testing.assert_allclose(found[0], np.mean(hits), rtol=1e-6)
    assert [f.tolist() for f in found[1:]] == [[sum(hits)], [7]]


def test_sums_for_click_through_rates_add_up_over_runs(static_mode: Programs) -> None:
    chance, label = static.data("chance", [None, 1]), static.data("label", [None, 1])
    weight = static.data("weight", [None, 1])
    sums = static.ctr_metric_bundle(chance, label)
    some = static.ctr_metric_bundle(chance, label, weight)
    exe = static.Executor()
    exe.run(static_mode[1])
    p = RNG.random((6, 1)).astype("float32")
    y = RNG.integers(0, 2, (6, 1)).astype("float32")
    w = np.array([[1], [1], [0], [1], [0], [1]], "float32")
    feed = {"chance": p, "label": y, "weight": w}
    for runs in (1, 2):
        found = exe.run(feed=feed, fetch_list=[*sums, *some])
        quality = 1 / (1 + np.exp(-p))
        parts = [(p - y) ** 2, abs(p - y), p, quality, y, np.ones_like(p)]
        want = [runs * t.sum() for t in parts] + [runs * (t * w).sum() for t in parts]
        np.testing.assert_allclose(np.concatenate(found), want, rtol=1e-5)


def node_kinds(program: static.Program) -> list[str]:
    return [op.type for op in program.global_block().ops]


@pytest.mark.parametrize("counted", [False, True])
def test_averages_of_parameters_take_their_place_for_a_test(
    counted: bool, static_mode: Programs
) -> None:
    x = static.data("x", [None, 3])
    y = static.nn.fc(x, 1, bias_attr=False, weight_attr=proa.ParamAttr("w"))
    test = static_mode[0].clone(for_test=True)
    proa.optimizer.SGD(0.1).minimize(y.mean())
    steps = static.create_global_var([1], 4.0, "float32") if counted else None
    before_update = node_kinds(static_mode[0].clone(for_test=True))
    ema = static.ExponentialMovingAverage(0.9, steps)
    ema.update()
    assert node_kinds(static_mode[0].clone(for_test=True)) == before_update
    exe = static.Executor()
    exe.run(static_mode[1])
    decay = min(0.9, 5 / 14) if counted else 0.9
    average = np.zeros((3, 1))
    batch = np.ones((2, 3), "float32")
    w = static_mode[0].find("w")
    for _ in range(5):
        exe.run(feed={"x": batch})
        average = decay * average + (1 - decay) * w.get_value().numpy()
    before = w.get_value().numpy()
    want = average / (1 - decay**5)
    with ema.apply(exe):
        np.testing.assert_allclose(w.get_value().numpy(), want, rtol=1e-5)
        (found,) = exe.run(test, feed={"x": batch}, fetch_list=[y])
        np.testing.assert_allclose(found, batch @ want, rtol=1e-5)
    np.testing.assert_array_equal(w.get_value().numpy(), before)
    with ema.apply(exe, need_restore=False):
        pass
    np.testing.assert_allclose(w.get_value().numpy(), want, rtol=1e-5)
    ema.restore(exe)
    np.testing.assert_array_equal(w.get_value().numpy(), before)


def test_averages_are_updated(static_mode: Programs) -> None:
    ema = static.ExponentialMovingAverage()
    with pytest.raises(PreconditionNotMetError, match="update"), ema.apply(None):
        pass
    with pytest.raises(InvalidArgumentError, match="decay"):
        static.ExponentialMovingAverage(1.0)


def test_print_shows_values_and_gradients_of_runs(
    static_mode: Programs, capsys: pytest.CaptureFixture[str]
) -> None:
    x = static.data("x", [None, 2])
    x.stop_gradient = False
    shown = static.Print(x, first_n=2, message="here", summarize=3)
    static.Print(x * 10, print_tensor_name=False, print_phase="forward", summarize=-1)
    static.gradients([(shown * 3).sum()], [x])
    exe = static.Executor()
    for _ in range(3):
        (found,) = exe.run(
            feed={"x": np.array([[1, 2], [3, 4]], "float32")},
            fetch_list=["x@GRAD"],
        )
    np.testing.assert_array_equal(found, np.full((2, 2), 3))
    text = capsys.readouterr().out
    assert text.count("Variable: x\n  - message: here") == 2
    assert text.count("data: [1.0 2.0 3.0 ...]") == 2
    assert text.count("data: [10.0 20.0 30.0 40.0]") == 3
    assert text.count("Variable: x@GRAD") == 2
    assert text.count("place: Place(cpu)") == 7
    assert "shape: [2, 2]" in text and "dtype: float32" in text
    with pytest.raises(InvalidArgumentError, match="print_phase"):
        static.Print(x, print_phase="sideways")


@pytest.mark.feature("L268")
def test_measures_of_graphs_are_refused_in_dynamic_mode() -> None:
    x = proa.ones([2, 1])
    for name in ("Print", "accuracy", "auc", "ctr_metric_bundle"):
        function = getattr(static, name)
        arguments = (x,) if name == "Print" else (x, x)
        with pytest.raises(PreconditionNotMetError, match=rf"static\.{name}\] builds"):
            function(*arguments)


def test_devices_that_are_not_there_are_refused() -> None:
    for call in (
        static.IpuStrategy, static.IpuCompiledProgram, static.ipu_shard_guard,
        lambda: static.set_ipu_shard(abs),
    ):  # fmt: skip
        with pytest.raises(UnimplementedError, match="no such device"):
            call()
