"""Exported networks give what their Layers give, at every opset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.jit import InputSpec
from proa.vision import models
from proa.vision.ops import DeformConv2D, roi_align, yolo_box

pytest.importorskip("onnx")
from .exported import check_layer, with_statistics

pytestmark = pytest.mark.feature("L279")
#: One opset for each form in which the standard has had the operators that we write.
OPSETS = (9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 21)


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def words(*shape: int) -> Any:
    return np.random.default_rng(0).integers(0, 50, shape)


@pytest.mark.parametrize("opset", OPSETS)
def test_lenet(opset: int, tmp_path: Path) -> None:
    specs = [InputSpec([None, 1, 28, 28], "float32", "image")]
    calls = [[normal(n, 1, 28, 28)] for n in (1, 3)]
    check_layer(tmp_path / "m.onnx", models.LeNet(), specs, calls, opset)


@pytest.mark.parametrize("opset", [9, 13, 17])
def test_resnet_of_any_size(opset: int, tmp_path: Path) -> None:
    specs = [InputSpec([None, 3, None, None], "float32", "image")]
    calls = [[normal(2, 3, 64, 64)], [normal(1, 3, 96, 64)]]
    network = with_statistics(models.resnet18())
    check_layer(tmp_path / "m.onnx", network, specs, calls, opset)


@pytest.mark.parametrize("name", ["mobilenet_v3_small", "shufflenet_v2_x0_25"])
def test_a_light_network(name: str, tmp_path: Path) -> None:
    specs = [InputSpec([None, 3, 64, 64], "float32", "image")]
    network = with_statistics(getattr(models, name)())
    calls = [[normal(2, 3, 64, 64)]]
    check_layer(tmp_path / "m.onnx", network, specs, calls, 13)


#: The functions of `proa.vision.models` that make a network.
NETWORKS = [name for name in models.__all__ if name.islower()]
#: The smallest images of those that do not take 64 x 64.
SIDES = {"googlenet": 224, "inception_v3": 96, "alexnet": 224}


@pytest.mark.full
@pytest.mark.parametrize("name", NETWORKS)
def test_a_ready_made_network(name: str, tmp_path: Path) -> None:
    proa.seed(1)
    side = SIDES.get(name, 64)
    specs = [InputSpec([None, 3, side, side])]
    network = with_statistics(getattr(models, name)())
    for opset in (9, 13):
        check_layer(
            tmp_path / "m.onnx", network, specs, [[normal(2, 3, side, side)]], opset
        )


# -- sequences -------------------------------------------------------------------------
class Language(nn.Layer):
    """The language model of Zaremba et al. (2014), narrow."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 12)
        self.body = getattr(nn, kind)(12, 16, 2, dropout=0.5)
        self.head = nn.Linear(16, 50)

    def forward(self, ids: Any, lengths: Any) -> Any:
        out, last = self.body(self.words(ids), sequence_length=lengths)
        return self.head(out).reshape([-1, 50]), last


@pytest.mark.parametrize("opset", [9, 13, 17, 21])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
def test_a_recurrent_network(kind: str, opset: int, tmp_path: Path) -> None:
    specs = [InputSpec([None, None], "int64", "ids"), InputSpec([None], "int64", "n")]
    calls = [
        [words(3, 7), np.array([7, 2, 4])],
        [words(1, 4), np.array([3])],
    ]
    check_layer(tmp_path / "m.onnx", Language(kind), specs, calls, opset)


class Bert(nn.Layer):
    """BERT (Devlin et al., 2019), narrow: two classes of the first token, and all."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = (
            nn.Embedding(50, 16, padding_idx=0),
            nn.Embedding(20, 16),
        )
        self.kinds, self.norm = nn.Embedding(2, 16), nn.LayerNorm(16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu")
        self.body = nn.TransformerEncoder(layer, 3)
        self.pool, self.head = nn.Linear(16, 16), nn.Linear(16, 2)

    def forward(self, ids: Any, kinds: Any) -> Any:
        places = proa.cumsum(proa.ones_like(ids), axis=-1) - 1
        mask = (ids == 0).astype("float32").unsqueeze([1, 2]) * -1e4
        x = self.words(ids) + self.places(places) + self.kinds(kinds)
        x = self.body(self.norm(x), mask)
        return x, self.head(proa.tanh(self.pool(x[:, 0])))


@pytest.mark.parametrize("opset", [9, 11, 13, 17, 21])
def test_bert(opset: int, tmp_path: Path) -> None:
    specs = [InputSpec([None, None], "int64", n) for n in ("ids", "kinds")]
    calls = [[words(*s), words(*s) % 2] for s in ((2, 9), (1, 4))]
    check_layer(tmp_path / "m.onnx", Bert(), specs, calls, opset)


@pytest.mark.parametrize("opset", [9, 13, 17])
def test_a_detector_of_several_scales(opset: int, tmp_path: Path) -> None:
    """Feature maps joined across scales, boxes decoded, the best chosen."""

    class Detector(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.low = nn.Sequential(nn.Conv2D(3, 8, 3, 2, 1), nn.Hardswish())
            self.high = nn.Sequential(nn.Conv2D(8, 8, 3, 2, 1), nn.LeakyReLU(0.1))
            self.head = nn.Conv2D(16, 6, 1)

        def forward(self, x: Any) -> Any:
            low = self.low(x)
            up = nn.functional.interpolate(self.high(low), scale_factor=2)
            y = self.head(proa.concat([low, up], 1))
            y = y.reshape([0, 6, -1]).transpose([0, 2, 1])
            boxes = proa.exp(nn.functional.sigmoid(y[:, :, :4]) * 2 - 0.5)
            score, order = proa.topk(y[:, :, 4], 5)
            return boxes, score, order, y[:, :, 4:].argmax(-1)

    specs = [InputSpec([None, 3, 32, 32], name="image")]
    calls = [[normal(2, 3, 32, 32)]]
    check_layer(tmp_path / "m.onnx", Detector(), specs, calls, opset)


# -- the networks of Paddle's collections, narrow --------------------------------------
class Deformable(nn.Layer):
    """A convolution whose taps move, with offsets and masks of its own (DCN v2)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.where = nn.Conv2D(channels, 27, 3, padding=1)
        self.body = DeformConv2D(channels, channels, 3, padding=1, bias_attr=False)
        self.norm = nn.BatchNorm2D(channels)

    def forward(self, x: Any) -> Any:
        offset, mask = proa.split(self.where(x), [18, 9], 1)
        moved = self.body(x, offset, nn.functional.sigmoid(mask))
        return x + nn.functional.relu(self.norm(moved))


class PPYolo(nn.Layer):
    """The pieces of PP-YOLO (Long et al., 2020): taps that move, coordinates as
    channels, pooling of several sizes, and boxes decoded for each scale.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2D(3, 8, 3, 2, 1), nn.BatchNorm2D(8), nn.ReLU(), nn.AvgPool2D(2),
            Deformable(8),
        )  # fmt: skip
        self.low = nn.Conv2D(8, 12, 3, 2, 1)
        self.head = nn.Conv2D(12 * 4 + 2, 16, 1)

    def forward(self, image: Any, size: Any) -> Any:
        x = self.low(self.stem(image))
        pools = [nn.functional.max_pool2d(x, k, 1, k // 2) for k in (5, 9, 13)]
        line = proa.linspace(-1.0, 1.0, 8).reshape([1, 1, 1, 8])
        across = proa.zeros_like(x[:, :1]) + line
        down = proa.zeros_like(x[:, :1]) + line.transpose([0, 1, 3, 2])
        y = self.head(proa.concat([x, *pools, across, down], 1))
        return yolo_box(y, size, [10, 13, 16, 30], 3, 0.005, 8, scale_x_y=1.05)


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_a_yolo_with_deformable_convolutions(opset: int, tmp_path: Path) -> None:
    specs = [InputSpec([None, 3, 64, 64]), InputSpec([None, 2], "int32")]
    calls = [[normal(n, 3, 64, 64), np.full((n, 2), 64, np.int32)] for n in (1, 2)]
    network = with_statistics(PPYolo())
    check_layer(tmp_path / "m.onnx", network, specs, calls, opset)


class FasterRCNN(nn.Layer):
    """The network of Faster R-CNN (Ren et al., 2015): what proposes regions, and what
    judges given ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2D(3, 8, 3, 4, 1), nn.ReLU())
        self.propose = nn.Conv2D(8, 3 * 5, 1)
        self.judge = nn.Sequential(nn.Flatten(), nn.Linear(8 * 49, 16), nn.ReLU())
        self.kind, self.box = nn.Linear(16, 5), nn.Linear(16, 16)

    def forward(self, image: Any, boxes: Any, counts: Any) -> Any:
        x = self.body(image)
        regions = roi_align(x, boxes, counts, 7, 0.25, sampling_ratio=2)
        y = self.judge(regions)
        return self.propose(x), nn.functional.softmax(self.kind(y)), self.box(y)


@pytest.mark.parametrize("opset", [11, 16])
def test_a_detector_of_two_stages(opset: int, tmp_path: Path) -> None:
    specs = [
        InputSpec([None, 3, 64, 64], name="image"),
        InputSpec([None, 4], name="boxes"), InputSpec([None], "int32", "counts"),
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    corners = np.sort(rng.uniform(0, 60, (5, 2, 2)), 1).astype("f")
    calls = [
        [normal(2, 3, 64, 64), corners.reshape(5, 4), np.array([2, 3], np.int32)],
        [normal(1, 3, 64, 64), corners[:4].reshape(4, 4), np.array([4], np.int32)],
    ]
    check_layer(tmp_path / "m.onnx", FasterRCNN(), specs, calls, opset)


class Ernie(nn.Layer):
    """ERNIE 2.0 (Sun et al., 2020), narrow: BERT with embeddings of tasks and ReLU,
    which labels tokens.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.LayerList(
            [nn.Embedding(50, 16), nn.Embedding(20, 16), nn.Embedding(4, 16),
             nn.Embedding(3, 16)]
        )  # fmt: skip
        self.norm = nn.LayerNorm(16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, 0.1, "relu")
        self.body, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(16, 7)

    def forward(self, ids: Any, kinds: Any, tasks: Any) -> Any:
        mask = (ids == 0).astype("float32").unsqueeze([1, 2]) * -1e9
        places = proa.cumsum(proa.ones_like(ids), axis=1) - 1
        given = zip(self.tables, (ids, places, kinds, tasks), strict=True)
        x = self.norm(sum(table(k) for table, k in given))
        return self.head(self.body(x, mask))


@pytest.mark.parametrize("opset", [9, 11, 13, 17])
def test_ernie(opset: int, tmp_path: Path) -> None:
    names = ("ids", "kinds", "tasks")
    specs = [InputSpec([None, None], "int64", name) for name in names]
    calls = [[words(*s), words(*s) % 4, words(*s) % 3] for s in ((2, 9), (1, 5))]
    check_layer(tmp_path / "m.onnx", Ernie(), specs, calls, opset)
