"""Models that onnxruntime's optimizer and quantizer have written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa import nn
from proa.jit import InputSpec
from proa_inference import Config, create_predictor

pytestmark = pytest.mark.full

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

from .models import MODELS, model_file  # noqa: E402

Feed = dict[str, Any]
EXTENDED = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED


def optimized(path: Path, feed: Feed) -> tuple[Path, list[Any]]:
    """A model as onnxruntime's optimizer leaves it, and its results."""
    options, target = ort.SessionOptions(), path.with_suffix(".optimized.onnx")
    options.graph_optimization_level = EXTENDED
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return target, list(session.run(None, feed))


def operators(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def check(path: Path, feed: Feed, expected: list[Any], **tolerance: float) -> None:
    """Run a model eagerly and in the predictor."""
    layer = proa.onnx.load(path)
    arrays = [feed[info.name] for info in layer.inputs]
    with proa.no_grad():
        found = layer(*map(proa.to_tensor, arrays))
    eager = [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]
    target = path.with_suffix(".proa")
    proa.jit.save(layer, str(target), layer.input_spec)
    for results in (eager, create_predictor(Config(str(target))).run(arrays)):
        for ours, theirs in zip(results, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, **tolerance)


@pytest.mark.parametrize(
    ("name", "fused"),
    [
        ("text-recognition", {"FusedConv", "QuickGelu", "FusedMatMul"}),
        ("text-detection", {"FusedConv"}),
        ("speech-quality", {"FusedConv", "FusedGemm"}),
    ],
)
def test_a_published_model_is_read_after_onnxruntimes_optimizer(
    name: str, fused: set[str], tmp_path: Path
) -> None:
    model = MODELS[name]
    path = tmp_path / "model.onnx"
    path.write_bytes(model_file(model, tmp_path).read_bytes())
    target, expected = optimized(path, model.inputs())
    assert fused <= operators(target)
    check(target, model.inputs(), expected, rtol=1e-3, atol=1e-4)


class Encoder(nn.Layer):
    """A transformer that classifies texts by their first token."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Embedding(16, 32)
        self.norm = nn.LayerNorm(32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu")
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(32, 5)

    def forward(self, ids: Any, at: Any) -> Any:
        embedded = self.norm(self.words(ids) + self.places(at))
        return self.head(self.encoder(embedded)[:, 0])


def test_an_encoder_of_dynamically_quantized_products(tmp_path: Path) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    proa.seed(0)
    path = tmp_path / "encoder.onnx"
    specs = [InputSpec([None, None], "int64", name) for name in ("ids", "at")]
    proa.onnx.export(Encoder(), path, specs, opset_version=13)
    ids = np.random.default_rng(0).integers(0, 50, (2, 7))
    feed = {"ids": ids, "at": np.tile(np.arange(7), (2, 1))}
    integers = tmp_path / "integers.onnx"
    kind = quantization.QuantType.QInt8
    # 7 bits: without VNNI onnxruntime's products saturate beyond them
    quantization.quantize_dynamic(path, integers, weight_type=kind, reduce_range=True)
    assert {"DynamicQuantizeLinear", "MatMulInteger"} <= operators(integers)
    fused, expected = optimized(integers, feed)
    assert {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"} <= operators(fused)
    for model in (integers, fused):
        check(model, feed, expected, rtol=1e-4, atol=1e-4)


class Pictures(nn.Layer):
    """Convolutions, two branches and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2D(3, 16, 3, 2, 1)
        self.depthwise = nn.Conv2D(16, 16, 3, 1, 1, groups=16)
        self.pointwise, self.head = nn.Conv2D(16, 16, 1), nn.Linear(32, 10)
        self.pool, self.leaky = nn.AdaptiveAvgPool2D(1), nn.LeakyReLU()

    def forward(self, x: Any) -> Any:
        x = nn.functional.relu(self.first(x))
        y = self.leaky(self.depthwise(x))
        y = nn.functional.sigmoid(self.pointwise(y))
        both = proa.concat([x + y, x * y], 1)
        return self.head(proa.flatten(self.pool(both), 1))


class Batches:
    """Inputs for the quantizer."""

    def __init__(self, batches: list[Feed]) -> None:
        self._batches: Iterator[Feed] = iter(batches)

    def get_next(self) -> Feed | None:
        return next(self._batches, None)


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_a_network_that_onnxruntime_quantized_gives_its_numbers(
    form: str, tmp_path: Path
) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    proa.seed(0)
    path, integers = tmp_path / "pictures.onnx", tmp_path / "integers.onnx"
    spec = InputSpec([None, 3, 16, 16], "float32", "x")
    proa.onnx.export(Pictures(), path, [spec], opset_version=13)
    rng = np.random.default_rng(0)
    batches = [{"x": rng.standard_normal((4, 3, 16, 16)).astype("f")} for _ in range(4)]
    quantization.quantize_static(
        path, integers, Batches(batches),
        quant_format=quantization.QuantFormat[form], per_channel=True,
        reduce_range=True,
    )  # fmt: skip
    fused, expected = optimized(integers, batches[0])
    wanted = {"QLinearConv", "QLinearConcat", "QGemm", "QLinearLeakyRelu"}
    assert wanted <= operators(fused)
    if form == "QOperator":
        assert {"QLinearAdd", "QLinearMul", "QLinearSigmoid"} <= operators(fused)
    for model in (integers, fused):
        check(model, batches[0], expected, rtol=1e-5, atol=1e-5)
