"""TreeEnsembleRegressor and TreeEnsembleClassifier: onnxruntime's results, those of the
evaluator of the package `onnx`, and forests that scikit-learn grew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proa
from proa.errors import InvalidArgumentError, UnimplementedError

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

MODES = [
    "BRANCH_LEQ",
    "BRANCH_LT",
    "BRANCH_GTE",
    "BRANCH_GT",
    "BRANCH_EQ",
    "BRANCH_NEQ",
]
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def forest(
    kind: str,
    ids: list[int],
    rng: Any,
    low: float = -1.0,
    high: float = 1.0,
    votes: int = 2,
) -> dict[str, list[Any]]:
    """Four random trees of 15 nodes, with every mode; leaves have 1 to `votes` ids."""
    found: dict[str, list[Any]] = {}

    def add(**values: Any) -> None:
        for name, value in values.items():
            found.setdefault(name, []).append(value)

    for tree in range(4):
        for n in range(15):
            is_leaf = n >= 7
            add(
                nodes_treeids=3 * tree, nodes_nodeids=n,
                nodes_featureids=int(rng.integers(0, 3)),
                nodes_values=float(np.float32(round(rng.normal(0, 0.5), 1))),
                nodes_modes="LEAF" if is_leaf else MODES[rng.integers(0, 6)],
                nodes_truenodeids=0 if is_leaf else 2 * n + 1,
                nodes_falsenodeids=0 if is_leaf else 2 * n + 2,
                nodes_missing_value_tracks_true=int(rng.integers(0, 2)),
            )  # fmt: skip
            chosen = rng.permutation(ids)[: votes - n % 2] if is_leaf else []
            for one in chosen:
                add(**{
                    f"{kind}_treeids": 3 * tree, f"{kind}_nodeids": n,
                    f"{kind}_ids": int(one),
                    f"{kind}_weights": float(rng.uniform(low, high) / 4),
                })  # fmt: skip
    return found


def model(op: str, attributes: Any, outputs: Any, kind: int = TensorProto.FLOAT) -> Any:
    width = 1 + max(attributes["nodes_featureids"])
    names = [name for name, _ in outputs]
    node = helper.make_node(op, ["x"], names, domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", kind, [None, width])],
        [helper.make_tensor_value_info(name, k, None) for name, k in outputs],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def regressor(attributes: Any, kind: int = TensorProto.FLOAT) -> Any:
    outputs = [("y", TensorProto.FLOAT)]
    return model("TreeEnsembleRegressor", attributes, outputs, kind)


def classifier(attributes: Any) -> Any:
    is_text = "classlabels_strings" in attributes
    label = TensorProto.STRING if is_text else TensorProto.INT64
    outputs = [("label", label), ("y", TensorProto.FLOAT)]
    return model("TreeEnsembleClassifier", attributes, outputs)


def computed(result: Any, x: Any) -> list[Any]:
    found = proa.onnx.load(result.SerializeToString())(proa.to_tensor(x))
    values = found if isinstance(found, tuple) else (found,)
    return [v if isinstance(v, np.ndarray) else v.numpy() for v in values]


def by_onnxruntime(result: Any, x: Any) -> list[Any]:
    onnxruntime = pytest.importorskip("onnxruntime")
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(result.SerializeToString(), None, providers)
    return list(session.run(None, {"x": x}))


def examples(rng: Any) -> Any:
    x = rng.normal(0, 0.5, (40, 3)).astype(np.float32).round(1)
    x[3, 1] = x[7, 0] = x[9, 2] = np.nan
    return x


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("base", [False, True])
def test_a_regressor_gives_what_onnxruntime_does(
    how: str, transform: str, base: bool
) -> None:
    rng = np.random.default_rng(len(how + transform))
    low, high = (0.05, 0.2) if transform == "PROBIT" else (-1.0, 1.0)
    more = {"base_values": [0.125, 0.25, 0.0625]} if base else {}
    # Without a vote onnxruntime does not add the base value.
    votes = 4 if base else 2
    result = regressor({
        **forest("target", [0, 1, 2], rng, low, high, votes), "n_targets": 3,
        "aggregate_function": how, "post_transform": transform, **more,
    })  # fmt: skip
    x = examples(rng)
    (found,), (want,) = computed(result, x), by_onnxruntime(result, x)
    loose = transform == "PROBIT"  # near 0 and 1 a last digit is many
    np.testing.assert_allclose(found, want, 1e-3 if loose else 1e-5, 1e-6)


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_one_target_of_doubles_and_of_integers(how: str) -> None:
    rng = np.random.default_rng(4)
    attributes = forest("target", [0], rng) | {"aggregate_function": how}
    attributes |= {"n_targets": 1}
    x = rng.integers(-2, 3, (30, 3))
    # onnxruntime has none for integers.
    (want,) = by_onnxruntime(regressor(attributes), x.astype(np.float32))
    result = regressor(attributes, TensorProto.INT64)
    np.testing.assert_allclose(computed(result, x)[0], want, 1e-5, 1e-6)
    for name in ("nodes_values", "target_weights"):
        wide = np.asarray(attributes.pop(name), np.float64)
        attributes[f"{name}_as_tensor"] = numpy_helper.from_array(wide)
    result, wide = (
        regressor(attributes, TensorProto.DOUBLE),
        rng.normal(0, 0.5, (30, 3)),
    )
    np.testing.assert_allclose(
        computed(result, wide)[0], by_onnxruntime(result, wide)[0], 1e-6, 1e-7
    )


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_classes_are_those_of_the_evaluator_of_onnx(transform: str) -> None:
    from onnx.reference import ReferenceEvaluator

    rng = np.random.default_rng(8)
    low, high = (0.05, 0.2) if transform == "PROBIT" else (-1.0, 1.0)
    for labels in ([5, 7, 9], [5, 7]):
        ids = list(range(len(labels)))
        result = classifier({
            **forest("class", ids, rng, low, high), "classlabels_int64s": labels,
            "post_transform": transform,
            "base_values": [0.125, 0.25, 0.0625][: len(ids)],
        })  # fmt: skip
        x = np.nan_to_num(examples(rng))  # NaN does not differ from numbers there
        found, want = (
            computed(result, x),
            ReferenceEvaluator(result).run(None, {"x": x}),
        )
        assert found[0].tolist() == want[0].tolist()
        loose = transform == "PROBIT"
        np.testing.assert_allclose(found[1], want[1], 1e-3 if loose else 1e-5, 1e-6)


@pytest.mark.parametrize("transform", TRANSFORMS[:-1])
@pytest.mark.parametrize("voted", [0, 1])
@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_votes_for_one_of_two_classes_are_what_onnxruntime_takes_them_for(
    transform: str, voted: int, low: float
) -> None:
    rng = np.random.default_rng(8)
    result = classifier({
        **forest("class", [voted], rng, low, 1.0), "classlabels_int64s": [0, 1],
        "post_transform": transform,
    })  # fmt: skip
    x = examples(rng)
    found, want = computed(result, x), by_onnxruntime(result, x)
    assert found[0].tolist() == want[0].tolist()
    assert len(set(found[0].tolist())) == 2
    np.testing.assert_allclose(found[1], want[1], 1e-5, 1e-6)


def nodes_of(trees: Any, kind: str, shares: bool) -> dict[str, list[Any]]:
    """Trees of scikit-learn as attributes: the votes are values, or their shares."""
    found: dict[str, list[Any]] = {}
    for number, one in enumerate(trees):
        tree, count = one.tree_, one.tree_.node_count
        is_leaf = tree.children_left < 0
        # Floats that are at most the doubles, which no feature is between.
        split = tree.threshold.astype(np.float32)
        below = np.nextafter(split, np.float32(-np.inf))
        split = np.where(split > tree.threshold, below, split)
        columns = {
            "treeids": [number] * count, "nodeids": range(count),
            "featureids": np.maximum(tree.feature, 0),
            "values": split,
            "modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ"),
            "truenodeids": np.maximum(tree.children_left, 0),
            "falsenodeids": np.maximum(tree.children_right, 0),
        }  # fmt: skip
        values = tree.value[:, 0, :]
        if shares:
            values = values / values.sum(1, keepdims=True)
        leaves, width = np.flatnonzero(is_leaf), values.shape[1]
        votes = {
            "treeids": [number] * (len(leaves) * width),
            "nodeids": np.repeat(leaves, width),
            "ids": np.tile(np.arange(width), len(leaves)),
            "weights": (values[leaves] / len(trees)).reshape(-1),
        }  # fmt: skip
        for prefix, parts in (("nodes", columns), (kind, votes)):
            for name, column in parts.items():
                items = [v.item() if hasattr(v, "item") else v for v in column]
                found.setdefault(f"{prefix}_{name}", []).extend(items)
    return found


def test_forests_of_scikit_learn_predict_what_they_do_there(tmp_path: Path) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    ensemble = pytest.importorskip("sklearn.ensemble")
    x, y = datasets.load_iris(return_X_y=True)
    x, texts = x.astype(np.float32), np.array(["setosa", "versicolor", "virginica"])
    classes = ensemble.RandomForestClassifier(20, random_state=0).fit(x, y)
    attributes = nodes_of(classes.estimators_, "class", shares=True)
    labels, scores = computed(
        classifier(attributes | {"classlabels_strings": texts.tolist()}), x
    )
    assert labels.tolist() == texts[classes.predict(x)].tolist()
    np.testing.assert_allclose(scores, classes.predict_proba(x), rtol=1e-5, atol=1e-6)

    numbered = classifier(attributes | {"classlabels_int64s": [0, 1, 2]})
    layer = proa.onnx.load(numbered.SerializeToString())
    proa.jit.save(layer, tmp_path / "m.proa", layer.input_spec)
    again = proa.jit.load(tmp_path / "m.proa")(proa.to_tensor(x))
    assert again[0].numpy().tolist() == classes.predict(x).tolist()
    np.testing.assert_allclose(again[1].numpy(), scores, rtol=1e-6)

    x, y = datasets.load_diabetes(return_X_y=True)
    x = x.astype(np.float32)
    grown = ensemble.RandomForestRegressor(10, random_state=0).fit(x, y)
    result = regressor(nodes_of(grown.estimators_, "target", shares=False))
    np.testing.assert_allclose(
        computed(result, x)[0][:, 0], grown.predict(x), rtol=1e-5
    )


def test_trees_that_are_none_are_refused() -> None:
    x = np.zeros((1, 3), np.float32)
    good = forest("target", [0], np.random.default_rng(0))

    def damaged(name: str, at: int, value: Any) -> Any:
        changed = {k: list(v) for k, v in good.items()}
        changed[name][at] = value
        return regressor(changed)

    for result, error, said in (
        (damaged("nodes_truenodeids", 0, 99), InvalidArgumentError, "does not have"),
        (damaged("nodes_truenodeids", 3, 0), UnimplementedError, "not trees"),
        (damaged("nodes_nodeids", 4, 3), InvalidArgumentError, "two nodes of one name"),
        (damaged("nodes_modes", 0, "BRANCH"), UnimplementedError, "mode BRANCH"),
        (damaged("target_nodeids", 0, 2), UnimplementedError, "not leaves"),
        (damaged("target_ids", 0, 4), InvalidArgumentError, "target outside 1"),
    ):
        with pytest.raises(error, match=said):
            computed(result, x)
