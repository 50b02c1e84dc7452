"""An ONNX model is compressed as any other Layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import proa
import proa.nn.functional as F
import proa_slim
from proa import nn
from proa_inference import Config, create_predictor

pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper


def test_a_loaded_model_is_quantized_and_runs_in_the_predictor(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    constants = {
        "w1": rng.standard_normal((8, 3, 3, 3)).astype(np.float32) / 5,
        "b1": rng.standard_normal(8).astype(np.float32),
        "w2": rng.standard_normal((8, 4)).astype(np.float32) / 3,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("GlobalAveragePool", ["b"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "w2"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(a, name) for name, a in constants.items()],
    )  # fmt: skip
    message = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    layer = proa.onnx.load(message.SerializeToString())
    batches = [rng.standard_normal((8, 3, 8, 8)).astype(np.float32) for _ in range(4)]
    with proa.no_grad():
        exact = layer(proa.to_tensor(batches[0])).numpy()
    model = proa_slim.quant_post_static(layer, layer.input_spec, batches)
    path = str(tmp_path / "net.int8.proa")
    model.save(path)
    (found,) = create_predictor(Config(path)).run([batches[0]])
    assert np.abs(found - exact).max() < 0.03 * np.abs(exact).max()
    assert not np.array_equal(found, exact)  # it did run in integers


class Calibration:
    """Batches that onnxruntime's quantizer reads."""

    def __init__(self, batches: list[np.ndarray]) -> None:
        self.left = iter(batches)

    def get_next(self) -> dict[str, np.ndarray] | None:
        batch = next(self.left, None)
        return None if batch is None else {"x": batch}


class Residual(nn.Layer):
    """Convolutions, a residual, a product of channels and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2D(3, 16, 3, padding=1, stride=2)
        self.depth = nn.Conv2D(16, 16, 3, padding=1, groups=16)
        self.point = nn.Conv2D(16, 16, 1)
        self.last = nn.Conv2D(16, 24, 3, padding=1)
        self.fc = nn.Linear(24, 10)

    def forward(self, x: proa.Tensor) -> proa.Tensor:
        x = F.relu(self.stem(x))
        x = F.relu(x + self.point(F.relu(self.depth(x))))
        x = F.relu(self.last(F.max_pool2d(x, 2)))
        return self.fc(x.mean([2, 3]))


@pytest.mark.feature("L549")
@pytest.mark.feature("L544")
@pytest.mark.parametrize("kinds", ["u8s8", "s8s8"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_graph_that_onnxruntime_quantized_runs_in_integers(
    tmp_path: Path, kinds: str, per_channel: bool
) -> None:
    ort = pytest.importorskip("onnxruntime")
    quantization = pytest.importorskip("onnxruntime.quantization")
    proa.seed(3)
    net = Residual()
    net.eval()
    spec = [proa.static.InputSpec([None, 3, 32, 32], "float32", "x")]
    proa.onnx.export(net, str(tmp_path / "net"), spec, opset_version=17)
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((8, 3, 32, 32)).astype(np.float32) for _ in range(5)]
    types = quantization.QuantType
    path = str(tmp_path / "net.qdq.onnx")
    quantization.quantize_static(
        str(tmp_path / "net.onnx"),
        path,
        Calibration(batches),
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=types.QUInt8 if kinds == "u8s8" else types.QInt8,
        weight_type=types.QInt8,
        per_channel=per_channel,
    )
    config = Config(path)
    predictor = create_predictor(config)
    ops = [step.op for step in predictor.profile([batches[0]])]
    assert ops.count("conv2d_int8") == 4
    assert ops.count("linear_int8") == 1
    assert ops.count("add_int8") == 1
    assert not {"conv2d", "conv2d_act", "linear", "linear_act"} & set(ops)
    # As onnxruntime computes the graph as it is written: without its own fusions, which
    # add biases as integers.
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(9).standard_normal((64, 3, 32, 32)).astype(np.float32)
    (want,) = session.run(None, {"x": x})
    (got,) = predictor.run([x])
    # A sum that two float32 roundings leave on different sides of a half moves an
    # integer by one: few do, and the classes are the same.
    span = np.abs(want).max()
    assert np.abs(got - want).max() < 0.02 * span
    assert np.abs(got - want).mean() < 0.001 * span
    assert (got.argmax(1) == want.argmax(1)).mean() >= 0.98


@pytest.mark.parametrize("kind", ["QInt8", "QUInt8"])
def test_a_graph_that_rounds_as_it_comes_runs_in_integers(
    tmp_path: Path, kind: str
) -> None:
    ort = pytest.importorskip("onnxruntime")
    quantization = pytest.importorskip("onnxruntime.quantization")
    proa.seed(4)
    net = nn.Sequential(
        nn.Linear(48, 96), nn.GELU(), nn.Linear(96, 40), nn.ReLU(), nn.Linear(40, 8)
    )
    net.eval()
    spec = [proa.static.InputSpec([None, 5, 48], "float32", "x")]
    proa.onnx.export(net, str(tmp_path / "net"), spec, opset_version=17)
    path = str(tmp_path / "dynamic.onnx")
    # Without VNNI onnxruntime adds pairs of products of uint8 and int8 in 16 bits, for
    # which weights of 8 bits are too large.
    quantization.quantize_dynamic(
        str(tmp_path / "net.onnx"),
        path,
        weight_type=getattr(quantization.QuantType, kind),
        reduce_range=kind == "QInt8",
        op_types_to_quantize=["MatMul", "Gemm"],
    )
    predictor = create_predictor(Config(path))
    x = np.random.default_rng(5).standard_normal((3, 5, 48)).astype(np.float32)
    ops = [step.op for step in predictor.profile([x])]
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": x})
    (got,) = predictor.run([x])
    span = np.abs(want).max()
    assert np.abs(got - want).max() < 0.02 * span
    assert np.abs(got - want).mean() < 0.001 * span
    if kind == "QInt8":
        assert ops.count("linear_dynamic") == 3


def test_a_product_of_four_bits_reads_them_as_the_file_has_them(tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(6)
    depth, outs, block = 256, 96, 32
    constants = {
        "w": rng.integers(0, 256, (outs, depth // block, block // 2)).astype(np.uint8),
        "s": rng.uniform(0.01, 0.05, outs * depth // block).astype(np.float32),
        "z": rng.integers(0, 256, outs * depth // block // 2).astype(np.uint8),
    }
    attrs = {"K": depth, "N": outs, "bits": 4, "block_size": block}
    node = helper.make_node(
        "MatMulNBits", ["x", *constants], ["y"], domain="com.microsoft", **attrs
    )
    graph = helper.make_graph(
        [node], "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", depth])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", outs])],
        [numpy_helper.from_array(a, name) for name, a in constants.items()],
    )  # fmt: skip
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    message = helper.make_model(graph, opset_imports=domains, ir_version=9)
    path = tmp_path / "net.onnx"
    path.write_bytes(message.SerializeToString())
    predictor = create_predictor(Config(str(path)))
    x = rng.standard_normal((5, depth)).astype(np.float32)
    assert [step.op for step in predictor.profile([x])] == ["linear_weight_only"]
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": x})
    np.testing.assert_allclose(predictor.run([x])[0], want, rtol=1e-4, atol=1e-4)
