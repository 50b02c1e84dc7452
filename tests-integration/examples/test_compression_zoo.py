"""The compression zoo: its metrics, and that every recipe gives what it promises."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from compression_zoo import detection, scenes, segmentation
from compression_zoo.recipes import RECIPES
from compression_zoo.steps import float_file
from compression_zoo.tasks import Size, eager, outputs_of
from compression_zoo.zoo import Zoo, broken, predictor
from sklearn.metrics import jaccard_score

import proa
import proa_slim

RNG = np.random.default_rng(5)


# --- metrics


def test_average_precision_is_that_of_a_published_example():
    # Padilla et al., "A survey on performance metrics for object-detection algorithms",
    # 2020: 24 boxes by falling score, 15 objects.
    hits = np.zeros(24, bool)
    hits[[0, 2, 9, 11, 12, 13, 22]] = True
    found = detection.average_precision(hits, 15)
    assert found == pytest.approx(0.2457, abs=1e-4)


def overlap(a, b):
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    common = np.prod(np.clip(high - low, 0, None))
    return common / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common)


def average_precision_by_thresholds(found, truths):
    """The definition: for each recall, the best precision at that recall or above, with
    boxes matched again for each threshold of the score."""
    points = []
    for threshold in sorted({row[4] for rows in found for row in rows}):
        right = shown = 0
        for rows, objects in zip(found, truths, strict=True):
            taken = set()
            for row in sorted(rows, key=lambda r: -r[4]):
                if row[4] < threshold:
                    continue
                shown += 1
                each = [overlap(row[:4], o) for o in objects]
                if each and max(each) >= 0.5 and int(np.argmax(each)) not in taken:
                    taken.add(int(np.argmax(each)))
                    right += 1
        points.append((right / sum(map(len, truths)), right / shown))
    area, last = 0.0, 0.0
    for recall in sorted({r for r, _ in points}):
        area += (recall - last) * max(p for r, p in points if r >= recall)
        last = recall
    return area


def test_mean_average_precision_is_that_of_its_definition():
    truths, kinds, found = [], [], []
    for _ in range(12):
        low = RNG.uniform(0, 40, (RNG.integers(0, 5), 2))
        objects = np.concatenate([low, low + RNG.uniform(8, 20, low.shape)], 1)
        near = np.repeat(objects, 2, 0) + RNG.normal(0, 2, (2 * len(objects), 4))
        remote = np.concatenate([low + 30, low + 42], 1)
        boxes = np.concatenate([near, remote])
        own = RNG.integers(0, 3, len(objects))
        names = np.concatenate([np.repeat(own, 2), own])
        truths.append(objects)
        kinds.append(own)
        found.append(np.column_stack([boxes, RNG.uniform(0, 1, len(boxes)), names]))
    expected = np.mean([
        average_precision_by_thresholds(
            [f[f[:, 5] == kind] for f in found],
            [t[k == kind] for t, k in zip(truths, kinds, strict=True)],
        )
        for kind in range(3)
    ])  # fmt: skip
    assert 0.1 < expected < 0.9
    assert detection.mean_average_precision(found, truths, kinds, 3) == pytest.approx(
        expected
    )


def test_mean_iou_is_that_of_scikit_learn():
    masks = RNG.integers(0, 4, (3, 8, 8)).astype(np.uint8)
    logits = RNG.normal(size=(3, 4, 8, 8)) + 2 * (np.arange(4)[:, None, None] == 1)
    expected = jaccard_score(
        masks.reshape(-1), logits.argmax(1).reshape(-1), average="macro"
    )
    assert segmentation.mean_iou([logits], masks) == pytest.approx(100 * expected)


# --- data


def test_boxes_of_scenes_are_those_of_their_masks():
    drawn = scenes.draw(40, 64, 3, (16, 32), 3, "train", 1)
    again = scenes.draw(40, 64, 3, (16, 32), 3, "train", 1)
    assert drawn.images.tobytes() == again.images.tobytes()
    for boxes, labels, mask in zip(drawn.boxes, drawn.labels, drawn.masks, strict=True):
        covered = np.zeros_like(mask)
        for (x, y, w, h), label in zip(64 * boxes, labels, strict=True):
            rows = slice(round(y - h / 2), round(y + h / 2))
            columns = slice(round(x - w / 2), round(x + w / 2))
            inside = mask[rows, columns]
            covered[rows, columns] = inside
            if w:
                own = inside == 1 + label
                assert own.any(0)[[0, -1]].all() and own.any(1)[[0, -1]].all()
        np.testing.assert_array_equal(covered, mask)


# --- recipes, with little training


@pytest.fixture(scope="module")
def small_zoo(tmp_path_factory):
    return Zoo(tmp_path_factory.mktemp("zoo"), Size(96, 32, 0.1), log=lambda line: None)


def loss_of(task, run, data):
    outputs = [proa.to_tensor(y) for y in outputs_of(run, data)]
    given = outputs if len(outputs) > 1 else outputs[0]
    return float(task.loss(given, *data.tensors(slice(None))))


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_gives_a_cheaper_model_that_runs_as_it_was_evaluated(name, small_zoo):
    recipe = RECIPES[name]
    whole = small_zoo.trained(recipe.network)
    job = small_zoo.compressed(name)
    data = job.task.samples(32, "test")
    after = small_zoo.folder / f"{name}.proa"
    if job.quantized is None:
        after.write_bytes(float_file(job.network, job.task))
        simulated = eager(job.network)
    else:
        job.quantized.save(after)
        simulated = job.quantized
    run = predictor(after)
    for own, deployed in zip(
        outputs_of(simulated, data), outputs_of(run, data), strict=True
    ):
        if job.quantized is None:
            np.testing.assert_allclose(deployed, own, rtol=1e-3, atol=1e-3)
        else:
            assert deployed.tobytes() == own.tobytes()
    counts = [proa_slim.flops(n, job.shape) for n in (whole, job.network)]
    assert counts[1] <= recipe.flops * counts[0]
    before = len(float_file(whole, job.task))
    assert after.stat().st_size <= recipe.size * before
    assert loss_of(job.task, run, data) < 1.5 * loss_of(job.task, eager(whole), data)


def test_weights_take_16_bits_where_int8_makes_no_layer_faster(small_zoo, monkeypatch):
    def slow_in_int8(self, network, input_spec):
        products = (proa.nn.Conv2D, proa.nn.Linear)
        layers = dict(network.named_sublayers())
        return {
            path: proa_slim.LayerSpeed(path, "conv2d", 1.0, 2.0)
            for path in layers
            if isinstance(layers[path], products)
        }

    monkeypatch.setattr(proa_slim.QAT, "slow_in_int8", slow_in_int8)
    job = small_zoo.compressed("blazeface-int8")
    program = job.quantized.program
    assert not any(node.op.endswith("int8") for node in program.nodes())
    kernels = [v for v in program.constants() if len(v.shape) == 4]
    assert {v.dtype for v in kernels} == {"float16"}
    after = small_zoo.folder / "blazeface.half.proa"
    job.quantized.save(after)
    data = job.task.samples(32, "test")
    for own, deployed in zip(
        outputs_of(job.quantized, data), outputs_of(predictor(after), data), strict=True
    ):
        assert deployed.tobytes() == own.tobytes()


def test_a_row_says_what_a_recipe_does_not_keep():
    recipe = RECIPES["fast-scnn-prune"]
    row = {"metric": "mIoU", "value": [60.0, 59.0], "flops": [100, 45],
           "bytes": [100, 60]}  # fmt: skip
    assert broken(recipe, row) == []
    row |= {"value": [60.0, 40.0], "flops": [100, 90]}
    assert [line.split()[1] for line in broken(recipe, row)] == ["flops", "mIoU"]


def test_a_run_that_was_stopped_goes_on(tmp_path, capsys):
    lines: list[str] = []
    zoo = Zoo(tmp_path, Size(64, 16, 0.1), log=lines.append)
    zoo.run("mobilenet-ptq")
    assert "[mobilenet] training" in lines
    lines.clear()
    row = Zoo(tmp_path, Size(64, 16, 0.1), log=lines.append).run("mobilenet-prune")
    assert "[mobilenet] training" not in lines
    assert set(zoo.results["rows"]) == {"mobilenet-ptq", "mobilenet-prune"}
    assert row["flops"][1] <= 0.5 * row["flops"][0]


def test_the_page_shows_a_recipe_as_it_is():
    root = Path(__file__).parents[2]
    page = (root / "docs" / "model-zoo.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r'^```\n("yolov3.*?)^```', page, re.M | re.S)
    own = (root / "examples" / "compression_zoo" / "recipes.py").read_text()
    words = shown.split()
    assert own[own.index(words[0]) :].split()[: len(words)] == words
    assert set(re.findall(r"^\| `([A-Z]\w+)\(", page, re.M)) == {
        type(step).__name__ for recipe in RECIPES.values() for step in recipe.steps
    }


# --- recipes, as they are


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    folder = os.environ.get("PROA_DATA_HOME")
    base = Path(folder) if folder else tmp_path_factory.mktemp("zoo")
    return Zoo(base / "compression_zoo")


def keeps(zoo, *names):
    for name in names:
        assert zoo.run(name)["broken"] == [], name


@pytest.mark.full
@pytest.mark.feature("L494")
def test_classifiers_in_int8_pruned_and_distilled(zoo):
    keeps(zoo, *(f"resnet50-{method}" for method in ("ptq", "qat", "prune")))
    keeps(zoo, *(f"mobilenet-{method}" for method in ("ptq", "qat", "prune", "distil")))


@pytest.mark.full
@pytest.mark.feature("L495")
@pytest.mark.feature("L497", how="mechanism")
def test_yolov3_pruned(zoo):
    keeps(zoo, "yolov3-mobilenet-prune", "yolov3-resnet50-vd-dcn-prune")


@pytest.mark.full
@pytest.mark.feature("L498", how="mechanism")
def test_yolov3_distilled(zoo):
    keeps(zoo, "yolov3-mobilenet-distil")


@pytest.mark.full
@pytest.mark.feature("L500", how="mechanism")
def test_yolov3_pruned_and_distilled(zoo):
    keeps(zoo, "yolov3-mobilenet-prune-distil", "yolov3-resnet50-vd-dcn-prune-distil")


@pytest.mark.full
@pytest.mark.feature("L499")
def test_yolov3_and_blazeface_in_int8(zoo):
    keeps(zoo, "yolov3-mobilenet-int8", "blazeface-int8")


@pytest.mark.full
@pytest.mark.feature("L501")
def test_blazeface_is_searched(zoo):
    keeps(zoo, "blazeface-search")


@pytest.mark.full
@pytest.mark.feature("L496", "L505")
def test_deeplab_in_int8(zoo):
    keeps(zoo, "deeplabv3p-mobilenetv2-int8", "deeplabv3p-xception-int8")


@pytest.mark.full
@pytest.mark.feature("L496", "L503")
def test_deeplab_distilled(zoo):
    keeps(zoo, "deeplabv3p-mobilenetv2-distil", "deeplabv3p-xception-distil")


@pytest.mark.full
@pytest.mark.feature("L504")
def test_deeplab_is_searched(zoo):
    keeps(zoo, "deeplabv3p-mobilenetv2-search")


@pytest.mark.full
@pytest.mark.feature("L502")
def test_fast_scnn_pruned(zoo):
    keeps(zoo, "fast-scnn-prune")
