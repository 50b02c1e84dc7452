"""Operators of ai.onnx.ml, and pictures, beyond the cases of the standard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, UnimplementedError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RNG = np.random.default_rng(0)


def loaded(node: Any, kind: int = TensorProto.FLOAT, shape: Any = (None, 3)) -> Any:
    """A model of one node, x to y."""
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 5)]
    result = helper.make_model(graph, opset_imports=opsets)
    return proa.onnx.load(result.SerializeToString())


class Forest:
    """Random binary trees of three levels, as the standard's attributes have them."""

    def __init__(self, trees: int, targets: int, mode: int, missing: bool) -> None:
        self.trees, self.targets, self.mode = trees, targets, mode
        nodes, self.leaves = 7 * trees, 8 * trees
        self.features = RNG.integers(0, 3, nodes)
        self.splits = RNG.normal(0, 0.5, nodes).astype("f").round(1)
        self.missing = RNG.integers(0, 2, nodes) if missing else np.zeros(nodes, int)
        self.weights = RNG.normal(size=self.leaves).astype("f")
        self.ids = RNG.integers(0, targets, self.leaves)
        heap = np.tile(np.arange(7), trees)
        base = np.repeat(np.arange(trees), 7)
        self.is_leaf = (heap >= 3).astype(int)
        left, right = 2 * heap + 1, 2 * heap + 2
        self.below = [
            np.where(self.is_leaf, k - 7 + 8 * base, k + 7 * base)
            for k in (left, right)
        ]

    def node(self, **more: Any) -> Any:
        modes = np.full(len(self.features), self.mode, np.uint8)
        return helper.make_node(
            "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=self.targets,
            nodes_featureids=self.features, nodes_modes=numpy_helper.from_array(modes),
            nodes_splits=numpy_helper.from_array(self.splits),
            nodes_truenodeids=self.below[0], nodes_trueleafs=self.is_leaf,
            nodes_falsenodeids=self.below[1], nodes_falseleafs=self.is_leaf,
            nodes_missing_value_tracks_true=self.missing, leaf_targetids=self.ids,
            leaf_weights=numpy_helper.from_array(self.weights),
            tree_roots=np.arange(self.trees) * 7, **more,
        )  # fmt: skip

    def predict(self, x: Any) -> Any:
        """(rows, trees): the leaf that each row comes to."""
        tests = [np.less_equal, np.less, np.greater_equal, np.greater, np.equal,
                 np.not_equal]  # fmt: skip
        found = np.zeros((len(x), self.trees), int)
        for i, row in enumerate(x):
            for tree in range(self.trees):
                at = 7 * tree
                while True:
                    value = row[self.features[at]]
                    is_true = tests[self.mode](value, self.splits[at])
                    is_true = is_true or (self.missing[at] and np.isnan(value))
                    to = self.below[0 if is_true else 1][at]
                    if self.is_leaf[at]:
                        found[i, tree] = to
                        break
                    at = to
        return found


@pytest.mark.parametrize("mode", range(6))
@pytest.mark.parametrize("how", ["AVERAGE", "SUM", "MIN", "MAX"])
def test_trees_aggregate_the_leaves_that_a_row_comes_to(
    mode: int, how: str, tmp_path: Path
) -> None:
    forest = Forest(5, 2, mode, missing=mode % 2 == 0)
    number = ["AVERAGE", "SUM", "MIN", "MAX"].index(how)
    layer = loaded(forest.node(aggregate_function=number))
    x = RNG.normal(size=(20, 3)).astype("f").round(1)
    x[3, 1] = x[7, 0] = np.nan
    leaves = forest.predict(x)
    want = np.zeros((20, 2), np.float32)
    for i, own in enumerate(leaves):
        for target in range(2):
            weights = forest.weights[own][forest.ids[own] == target]
            limits = np.finfo(np.float32)
            want[i, target] = {
                "SUM": weights.sum(), "AVERAGE": weights.sum() / 5,
                "MIN": weights.min(initial=limits.max),
                "MAX": weights.max(initial=limits.min),
            }[how]  # fmt: skip
    found = layer(proa.to_tensor(x)).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
    proa.jit.save(layer, tmp_path / "m.proa", layer.input_spec)
    again = proa.jit.load(tmp_path / "m.proa")(proa.to_tensor(x[:5])).numpy()
    np.testing.assert_allclose(again, want[:5], rtol=1e-5, atol=1e-6)


def test_scores_become_probabilities() -> None:
    forest = Forest(4, 3, 0, missing=False)
    x = proa.to_tensor(RNG.normal(size=(6, 3)).astype("f"))
    raw = loaded(forest.node())(x).numpy()
    soft = np.exp(raw) / np.exp(raw).sum(1, keepdims=True)
    for how, want in ((1, soft), (2, 1 / (1 + np.exp(-raw)))):
        found = loaded(forest.node(post_transform=how))(x).numpy()
        np.testing.assert_allclose(found, want, rtol=1e-5)


def test_damaged_trees_are_refused() -> None:
    x = proa.zeros([1, 3])
    forest = Forest(2, 1, 0, missing=False)
    forest.below[0][0] = 0
    with pytest.raises(UnimplementedError, match="form a cycle"):
        loaded(forest.node())(x)
    forest.below[0][0] = 99
    with pytest.raises(InvalidArgumentError, match="outside 14 nodes"):
        loaded(forest.node())(x)


@pytest.mark.parametrize("default", [None, -3])
def test_numbers_are_labels_in_a_recorded_graph_too(
    default: int | None, tmp_path: Path
) -> None:
    more = {} if default is None else {"default_int64": default}
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml",
        keys_floats=[2.0, float("nan"), -1.0], values_int64s=[7, 8, 9], **more,
    )  # fmt: skip
    layer = loaded(node)
    x = np.float32([[2, -1, 0], [np.nan, 5, -7]])
    other = -1 if default is None else default
    want = [[7, 9, other], [8, other, other]]
    assert layer(proa.to_tensor(x)).numpy().tolist() == want
    proa.jit.save(layer, tmp_path / "m.proa", layer.input_spec)
    found = proa.jit.load(tmp_path / "m.proa")(proa.to_tensor(x)).numpy()
    assert found.tolist() == want


@pytest.mark.parametrize(
    "data", [b"", b"no picture", b"\x89PNG\r\n\x1a\n" + b"\0" * 40]
)
def test_bytes_that_are_no_picture_are_refused(data: bytes) -> None:
    pytest.importorskip("PIL")
    node = helper.make_node("ImageDecoder", ["x"], ["y"])
    layer = loaded(node, TensorProto.UINT8, [None])
    with pytest.raises(InvalidArgumentError, match="bytes of a picture"):
        layer(proa.to_tensor(np.frombuffer(data, np.uint8).copy()))
