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
def test_a_network_of_the_library(name: str, tmp_path: Path) -> None:
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
