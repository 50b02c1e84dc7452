"""Suppression of boxes in loaded models is recorded, so that it can be saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa

onnx = pytest.importorskip("onnx")


def model_of(nodes: list[Any], inputs: Any, outputs: Any, constants: Any) -> bytes:
    helper, numbers = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        nodes, "boxes",
        [helper.make_tensor_value_info(n, numbers.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, numbers.INT64, s)
         for n, s in outputs.items()],
        [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    message: bytes = model.SerializeToString()
    return message


def check(model: bytes, path: Path, calls: list[list[Any]]) -> None:
    """Eager and saved, the model gives what the evaluator of the standard gives."""
    layer = proa.onnx.load(model)
    proa.jit.save(layer, path, layer.input_spec)
    saved = proa.jit.load(path)
    evaluator = onnx.reference.ReferenceEvaluator(onnx.load_from_string(model))
    for arrays in calls:
        feed = dict(zip(evaluator.input_names, arrays, strict=True))
        (want,) = evaluator.run(None, feed)
        for runs in (layer, saved):
            got = runs(*(proa.to_tensor(a) for a in arrays))
            np.testing.assert_array_equal(got.numpy(), want)


def test_suppression_of_a_symbolic_number_of_boxes(tmp_path: Path) -> None:
    import onnx.reference

    names = ["boxes", "scores", "limit", "overlap", "lowest"]
    node = onnx.helper.make_node("NonMaxSuppression", names, ["found"])
    model = model_of(
        [node], {"boxes": ["n", "m", 4], "scores": ["n", 3, "m"]}, {"found": ["k", 3]},
        {"limit": np.array([4]), "overlap": np.array([0.3], np.float32),
         "lowest": np.array([0.2], np.float32)},
    )  # fmt: skip
    rng, calls = np.random.default_rng(0), []
    for n, m in ((2, 30), (1, 7)):
        low = rng.uniform(0, 10, (n, m, 2))
        boxes = np.concatenate([low, low + rng.uniform(1, 6, (n, m, 2))], -1)
        scores = rng.permutation(n * 3 * m).reshape(n, 3, m) / (3 * n * m)
        calls.append([boxes.astype(np.float32), scores.astype(np.float32)])
    check(model, tmp_path / "m.proa", calls)


def test_the_order_of_all_elements_along_a_symbolic_axis(tmp_path: Path) -> None:
    import onnx.reference

    make = onnx.helper.make_node
    nodes = [
        make("Shape", ["x"], ["size"], start=1),
        make("TopK", ["x", "size"], ["v", "i"]),
    ]
    model = model_of(nodes, {"x": [2, "m"]}, {"i": [2, "m"]}, {})
    rng = np.random.default_rng(1)
    calls = [[rng.standard_normal((2, m)).astype(np.float32)] for m in (9, 4)]
    check(model, tmp_path / "m.proa", calls)
