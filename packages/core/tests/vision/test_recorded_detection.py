"""Detection in recorded graphs, where the number of boxes is a symbolic dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import ShapeError
from proa.jit import InputSpec, to_static
from proa.nn.nms import multiclass_nms
from proa.vision import ops

from .test_detection import greedy, iou, some_boxes

Arrays = list[Any]


def spec_of(array: Any) -> InputSpec:
    """The first axis is symbolic."""
    return InputSpec([None, *array.shape[1:]], str(array.dtype))


def check(function: Callable[..., Any], calls: list[Arrays]) -> None:
    """Recorded once, the function gives what it gives eagerly for every call."""
    specs = [spec_of(a) for a in calls[0]]
    recorded = to_static(function, input_spec=specs)
    for arrays in calls:
        given = [proa.to_tensor(a) for a in arrays]
        pairs = zip(function(*given), recorded(*given), strict=True)
        for want, got in pairs:
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)


def scores_of(n: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).permutation(n).astype(np.float32) / n


def test_nms_is_recorded() -> None:
    def chosen(boxes: Any, scores: Any) -> Any:
        return (
            ops.nms(boxes, 0.2, scores),
            ops.nms(boxes, 0.2),
            boxes[ops.nms(boxes, 0.3, scores, top_k=3)],
        )

    check(chosen, [[some_boxes(n, n), scores_of(n)] for n in (30, 7, 3)])
    boxes, scores = some_boxes(30), scores_of(30)
    recorded = to_static(lambda b, s: ops.nms(b, 0.2, s),
                         input_spec=[spec_of(boxes), spec_of(scores)])  # fmt: skip
    got = recorded(proa.to_tensor(boxes), proa.to_tensor(scores))
    assert got.numpy().tolist() == greedy(boxes, np.argsort(-scores), 0.2)


def test_nms_of_categories_is_recorded() -> None:
    def chosen(boxes: Any, scores: Any, kinds: Any) -> Any:
        return (ops.nms(boxes, 0.2, scores, kinds, [0, 2]),)

    kinds = np.random.default_rng(1).integers(0, 3, 30)
    calls = [[some_boxes(n, n), scores_of(n), kinds[:n]] for n in (30, 5)]
    check(chosen, calls)


def detections(n: int, boxes: int = 25, classes: int = 3) -> Arrays:
    """Boxes (n, boxes, 4) and their scores (n, classes, boxes), all different."""
    corners = np.stack([some_boxes(boxes, i) for i in range(n)])
    return [corners, scores_of(n * classes * boxes).reshape(n, classes, boxes)]


@pytest.mark.parametrize("background", [0, -1])
@pytest.mark.parametrize("limits", [(-1, -1), (10, 7), (40, -1)])
def test_matrix_nms_is_recorded(limits: tuple[int, int], background: int) -> None:
    def chosen(boxes: Any, scores: Any) -> Any:
        return ops.matrix_nms(
            boxes, scores, 0.4, 0.1, *limits, background_label=background,
            return_index=True,
        )  # fmt: skip

    check(chosen, [detections(2), detections(1), detections(3)])


def test_matrix_nms_may_keep_nothing() -> None:
    boxes, scores = (proa.to_tensor(a) for a in detections(2))
    rows, counts, _ = ops.matrix_nms(boxes, scores, 2.0, 0.1, -1, -1)
    assert rows.shape == [0, 6] and counts is not None
    assert counts.tolist() == [0, 0]


def best_of_classes(
    boxes: Any, scores: Any, lowest: float, overlap: float, top: int, keep: int
) -> list[tuple[int, int]]:
    """(class, box) by the definition, for one image; class 0 is the background."""
    found = []
    for label in range(1, len(scores)):
        order = [i for i in np.argsort(-scores[label]) if scores[label, i] > lowest]
        order = order if top < 0 else order[:top]
        found += [(label, i) for i in greedy(boxes, order, overlap)]
    best = sorted(found, key=lambda at: -scores[at])[: keep if keep >= 0 else None]
    return sorted(best, key=found.index)


@pytest.mark.parametrize("limits", [(-1, -1), (10, 7), (40, 5)])
def test_multiclass_nms(limits: tuple[int, int]) -> None:
    boxes, scores = detections(3)
    rows, counts, indices = multiclass_nms(
        proa.to_tensor(boxes), proa.to_tensor(scores), 0.2, *limits, 0.15
    )
    want = [
        best_of_classes(*image, 0.2, 0.15, *limits)
        for image in zip(boxes, scores, strict=True)
    ]
    assert counts.tolist() == [len(found) for found in want]
    flat = [(n, label, i) for n, found in enumerate(want) for label, i in found]
    assert indices.numpy().ravel().tolist() == [25 * n + i for n, _, i in flat]
    table = [[label, scores[n, label, i], *boxes[n, i]] for n, label, i in flat]
    np.testing.assert_allclose(rows.numpy(), table, rtol=1e-6)


def test_the_threshold_falls_with_every_box_that_is_selected() -> None:
    boxes, scores = detections(1, boxes=40, classes=1)
    selected: list[int] = []
    threshold = 0.9
    for i in np.argsort(-scores[0, 0]):
        if all(iou(boxes[0, i], boxes[0, k]) <= threshold for k in selected):
            selected.append(int(i))
            threshold *= 0.8 if threshold > 0.5 else 1.0
    _, _, indices = multiclass_nms(
        proa.to_tensor(boxes), proa.to_tensor(scores), -1.0, -1, -1, 0.9, nms_eta=0.8,
        background_label=-1,
    )  # fmt: skip
    assert indices.numpy().ravel().tolist() == selected
    assert selected != greedy(boxes[0], np.argsort(-scores[0, 0]), 0.9)


def test_multiclass_nms_is_recorded() -> None:
    def chosen(boxes: Any, scores: Any) -> Any:
        return multiclass_nms(boxes, scores, 0.2, 10, 8, 0.6, False, 0.9)

    check(chosen, [detections(2), detections(1)])


@pytest.mark.parametrize("pixel_offset", [False, True])
def test_proposals_are_recorded(pixel_offset: bool) -> None:
    rng = np.random.default_rng(2)
    anchors = some_boxes(4 * 5 * 3).reshape(4, 5, 3, 4) * 4

    def proposed(scores: Any, moves: Any, size: Any) -> Any:
        boxes, points, counts = ops.generate_proposals(
            scores, moves, size, proa.to_tensor(anchors),
            proa.full([4, 5, 3, 4], 0.5), 40, 12, 0.4, 9.0, 0.9, pixel_offset, True,
        )  # fmt: skip
        levels, restore, shares = ops.distribute_fpn_proposals(
            boxes, 2, 4, 3, 16, pixel_offset, counts
        )
        assert shares is not None
        return boxes, points, counts, *levels, restore, *shares

    calls = []
    for n in (3, 1):
        scores = scores_of(n * 60, n).reshape(n, 3, 4, 5)
        moves = rng.normal(size=(n, 12, 4, 5)).astype(np.float32)
        # nothing is as wide as 9 in an image of 5 x 5
        size = np.array([[60, 70], [5, 5], [30, 64]], np.float32)[:n]
        calls.append([scores, moves, size])
    check(proposed, calls)
    counts = proposed(*(proa.to_tensor(a) for a in calls[0]))[2]
    assert counts.tolist()[1] == 1 and max(counts.tolist()) == 12


def test_unknown_classes_are_refused() -> None:
    with pytest.raises(ShapeError, match="the number of classes must be known"):
        to_static(
            lambda b, s: ops.matrix_nms(b, s, 0.1, 0.1, -1, -1),
            input_spec=[InputSpec([1, 5, 4]), InputSpec([1, None, 5])],
        )(proa.ones([1, 5, 4]), proa.ones([1, 2, 5]))
