"""An ONNX model is compressed as any other Layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import proa
import proa_slim
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
