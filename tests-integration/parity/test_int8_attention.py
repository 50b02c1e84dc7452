"""Attention in int8 after calibration: near float32, and one result everywhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import proa
import proa_lite
import proa_slim as slim
from proa import nn
from proa.static import InputSpec
from proa_inference import Config, create_predictor
from proa_inference.optimize import optimized_program
from proa_serving.client import HttpClient

from .server_process import server

SPEC = [InputSpec([2, 20, 32], "float32", "x")]
PRODUCTS = ("linear", "attention", "matmul")


class Scores(nn.Layer):
    """Attention of a form of its own: plain products of two activations."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))
        self.scores, self.mix = slim.MatMul(), slim.MatMul()

    def forward(self, x: Any) -> Any:
        """The sum of the values, weighted by sigmoids of scores."""
        scores = self.scores(self.q(x), self.k(x), transpose_y=True)
        return self.mix(nn.functional.sigmoid(scores), self.v(x))


def calibrated(
    network: nn.Layer, symmetric: bool
) -> tuple[slim.QuantizedModel, npt.NDArray[np.float32]]:
    """The network with its products in int8, and an input."""
    network.eval()
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((2, 20, 32)).astype(np.float32) for _ in range(4)]
    config = slim.QuantConfig(activation="abs_max", symmetric=symmetric, ops=PRODUCTS)
    return slim.quant_post_static(network, SPEC, batches, config), batches[0]


@pytest.mark.parametrize("symmetric", [True, False])
def test_attention_is_integers_between_its_products(
    tmp_path: Path, symmetric: bool
) -> None:
    proa.seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu")
    network = nn.TransformerEncoder(layer, 2)
    model, x = calibrated(network, symmetric)
    path = tmp_path / "net.int8.proa"
    model.save(path)
    nodes = list(optimized_program(Config(path)).nodes())
    ops = Counter(node.op for node in nodes)
    assert ops["attention_int8"] == 2 and ops["attention"] == 0
    results = [n for n in nodes if n.op == "attention_int8"]
    if symmetric:
        assert all(n.attrs["dtype"] == "int8" for n in results)
    (found,) = create_predictor(Config(path)).run([x])
    exact = network(proa.to_tensor(x)).numpy()
    assert np.abs(found - exact).max() < 0.05 * np.abs(exact).max()
    np.testing.assert_array_equal(model(x), found)
    # Layer norms add float32 in an order that the instruction set gives, which may be
    # another one in lite; the integers between them are the same.
    device = proa_lite.create_predictor(proa_lite.Config(str(path)))
    np.testing.assert_allclose(
        device.run([x])[0], found, rtol=1e-5, atol=1e-5 * np.abs(exact).max()
    )


def trained_with_rounding(
    network: nn.Layer, symmetric: bool
) -> tuple[slim.QuantizedModel, npt.NDArray[np.float32]]:
    """The same after passes of training, whose rounding finds the ranges."""
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((2, 20, 32)).astype(np.float32) for _ in range(8)]
    qat = slim.QAT(
        slim.QuantConfig("moving_average", symmetric=symmetric, ops=PRODUCTS)
    )
    student = qat.quantize(network, SPEC)
    student.train()
    for batch in batches:
        student(proa.to_tensor(batch))
    student.eval()
    model = qat.convert(student, SPEC)
    found = student(proa.to_tensor(batches[0])).numpy()
    np.testing.assert_array_equal(model(batches[0]), found)
    return model, batches[0]


NETWORKS = [(lambda: nn.MultiHeadAttention(32, 4), "attention"), (Scores, "matmul")]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("make", [calibrated, trained_with_rounding])
@pytest.mark.parametrize(("network", "op"), NETWORKS)
def test_products_of_activations_have_one_result_everywhere(
    network: Any, op: str, make: Any, symmetric: bool, tmp_path: Path
) -> None:
    proa.seed(0)
    model, x = make(network(), symmetric)
    path = tmp_path / "net.int8.proa"
    model.save(path)
    ops = Counter(node.op for node in optimized_program(Config(path)).nodes())
    assert ops[f"{op}_int8"] == (1 if op == "attention" else 2) and ops[op] == 0
    (found,) = create_predictor(Config(path)).run([x])
    np.testing.assert_array_equal(model(x), found)
    device = proa_lite.create_predictor(proa_lite.Config(path))
    np.testing.assert_array_equal(device.run([x])[0], found)
    if symmetric:
        return
    with server(path) as (http, _), HttpClient(http) as client:
        (served,) = client.infer("net", {"x": x}).as_dict().values()
    np.testing.assert_array_equal(served, found)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("network", "op"), NETWORKS)
def test_onnxruntime_computes_nearly_the_same(
    network: Any, op: str, symmetric: bool, tmp_path: Path
) -> None:
    pytest.importorskip("onnx")
    ort = pytest.importorskip("onnxruntime")
    proa.seed(0)
    layer = network()
    model, x = calibrated(layer, symmetric)
    exact = layer(proa.to_tensor(x)).numpy()
    model.save(tmp_path / "net.proa")
    int8 = proa.jit.load(str(tmp_path / "net.proa"))
    proa.onnx.export(int8, tmp_path / "net.onnx", SPEC, opset_version=17)
    session = ort.InferenceSession(
        tmp_path / "net.onnx", providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {"x": x})
    # A float32 product before a rounding may differ in its last bit, and so an integer.
    largest = np.abs(exact).max()
    ours = model(x)
    assert np.abs(ours - exact).max() < 0.05 * largest
    np.testing.assert_allclose(found, ours, atol=0.02 * largest)
    assert np.median(np.abs(found - ours)) < 0.002 * largest
